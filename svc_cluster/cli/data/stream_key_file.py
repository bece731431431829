"""The file that holds the key of encrypted streams: an option names it, or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from svc_cluster.cli.data.secret_reading import read_secret_file
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.stream_key import KEY_BYTES, KEY_TEXT_BYTES_MAX, StreamKey

KEY_FILE_VARIABLE: Final = "SVC_CLUSTER_ENCRYPTION_KEY_FILE"

KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="Holds the key of an encrypted stream, base64 of 32 bytes. Else "
        f"{KEY_FILE_VARIABLE} names the file.",
    ),
]


def stream_key(path: Path | None, environment: Mapping[str, str] = os.environ) -> StreamKey | None:
    """Return the key of the file that is named, by the option or by the environment; None: nobody
    names one. Raises ClientError."""
    named = path or environment.get(KEY_FILE_VARIABLE)
    return None if not named else read_key(Path(named))


def read_key(path: Path) -> StreamKey:
    """Return the key that the file holds, whatever white space is around it. Raises ClientError,
    which says nothing of what is in it."""
    text = read_secret_file(path, "the key file", "the key file", KEY_TEXT_BYTES_MAX)
    try:
        return StreamKey(text)
    except ValueError as cause:
        raise ClientError(
            f"the key file {path} holds no key ({cause}): it is base64 of exactly {KEY_BYTES} "
            f"bytes, as `openssl rand -base64 {KEY_BYTES}` makes it"
        ) from cause
