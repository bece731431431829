"""The file of a join token, and beside it the token that the cluster is asked to open.

That one is on the disk before anybody hears its hash: whatever is lost then, an answer or the whole
process, the next attempt asks for the same one.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from svc_cluster.model.join_token import SECRET_BYTES, JoinToken, parse_join_token

TOKEN_BYTES_MAX: Final = 4096
"""More than a file with a token has."""


class TokenFileError(Exception):
    """One sentence for the person at the terminal."""


class TokenFile:
    """The two files of one node. `kept`: what the first one has; None: it is not there. Raises
    TokenFileError."""

    def __init__(self, path: Path, node_id: int) -> None:
        self.path = path
        self._node_id = node_id
        self._next = path.with_name(path.name + ".new")
        self.kept: JoinToken | None = None
        text = self._text(path)
        if text is not None:
            self.kept = parse_join_token(text)
            if self.kept is None or self.kept.node_id != node_id:
                raise TokenFileError(
                    f"{path} is there and holds no join token for node {node_id}: name another "
                    "file, or remove it first"
                )

    def next_token(self) -> JoinToken:
        """The token to ask for: the one of an attempt that was broken off, or a new one. It is on
        the disk when this returns. Raises TokenFileError."""
        text = self._text(self._next)
        begun = None if text is None else parse_join_token(text)
        if begun is not None and begun.node_id == self._node_id:
            return begun
        token = JoinToken(self._node_id, secrets.token_bytes(SECRET_BYTES))
        try:
            self._next.unlink(missing_ok=True)
            handle = os.open(self._next, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "w") as out:
                out.write(token.text + "\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError as cause:
            raise TokenFileError(
                f"{self._next} cannot be written ({cause.strerror}): nothing was asked for"
            ) from cause
        return token

    def take(self) -> None:
        """The token that was asked for is the file's from now on. Raises TokenFileError."""
        try:
            self._next.replace(self.path)
        except OSError as cause:
            raise TokenFileError(
                f"{self.path} cannot be written ({cause.strerror}): the join token is in "
                f"{self._next}"
            ) from cause

    def forget(self) -> None:
        """Nobody needs the token that was asked for. Raises TokenFileError."""
        try:
            self._next.unlink(missing_ok=True)
        except OSError as cause:
            raise TokenFileError(f"{self._next} cannot be removed: {cause.strerror}") from cause

    @staticmethod
    def _text(path: Path) -> str | None:
        try:
            with path.open(encoding="ascii", errors="replace") as file:
                return file.read(TOKEN_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise TokenFileError(f"{path} cannot be read: {cause.strerror}") from cause
