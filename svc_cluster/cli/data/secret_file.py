"""The file that a new access token's secret goes to. It is made before the token is, so that no
secret is lost for want of a place, and taken away again when there is none."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from svc_cluster.cli.data.verb import UsageFault
from svc_cluster.client.service_client import shaped


class _IssuedSecret(msgspec.Struct):
    access_token: str


def issued_secret(body: bytes) -> str:
    """Return the secret in the answer to an issue."""
    return shaped(body, _IssuedSecret).access_token


class SecretFile:
    """A file for its owner only, kept where a secret was put into it. Raises UsageFault."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        self._is_kept = False

    def __enter__(self) -> Self:
        try:
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as cause:
            raise UsageFault(f"{self._path} cannot be made: {cause.strerror}") from cause
        return self

    def keep(self, body: bytes) -> None:
        """Write the secret of an answer."""
        os.write(self._handle, issued_secret(body).encode() + b"\n")
        os.fsync(self._handle)
        self._is_kept = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)
        if not self._is_kept:
            self._path.unlink()
