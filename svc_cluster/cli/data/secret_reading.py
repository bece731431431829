"""The text of a file that holds a secret, read alike whatever secret it is."""

from __future__ import annotations

from pathlib import Path

from svc_cluster.client.client_errors import ClientError
from svc_cluster.settings_secrets import in_place_of_a_file, looks_like_secret


def read_secret_file(path: Path, what: str, option: str, bytes_max: int) -> str:
    """Return what the file holds, without the white space around it, at most one byte more than
    `bytes_max`. Raises ClientError, which repeats no secret that was given as the file's name."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1).decode(errors="replace").strip()
    except OSError as cause:
        if looks_like_secret(str(path)):
            raise ClientError(in_place_of_a_file(option)) from None
        raise ClientError(f"{what} {path} cannot be read: {cause.strerror}") from cause
