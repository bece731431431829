"""Declarations: basins, streams and access tokens that a gateway sees to when it starts.

What is declared is made where it is missing; basins and streams are changed where they differ.
Nothing is ever deleted for not being declared, and no access token is revoked.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.model.access_token import AccessToken, TokenRequest
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """A stream with the whole of its own configuration. `path`: where it stands in the file."""

    path: str
    name: str
    config: PartialStreamConfig


@dataclass(frozen=True, slots=True)
class DeclaredBasin:
    """A basin with the whole of its configuration, and streams in it. `location` None: whichever
    it has, and the default for one that is made."""

    path: str
    name: str
    config: BasinConfig
    location: str | None = None
    streams: tuple[DeclaredStream, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where the secret of a declared token is: in a file, or in an environment variable."""

    path: str
    file: str | None = None
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class DeclaredToken:
    """An access token. Its secret is known by where it is, and from then on by its hash."""

    path: str
    request: TokenRequest
    source: SecretSource
    secret_hash: bytes = b""

    def differences(self, token: AccessToken) -> list[str]:
        """Return what `token` has that is another than declared, as the file's members are called.
        Empty: it has the same secret and gives the same. Who issued it does not matter."""
        wanted, found = self.request.expires_at, token.expires_at
        is_same = {
            "secret": token.secret_hash == self.secret_hash,
            "scope": token.scope == self.request.scope,
            "auto_prefix_streams": token.auto_prefix_streams == self.request.auto_prefix_streams,
            "expires_at": (wanted and wanted.stored_ns) == (found and found.stored_ns),
        }
        return [member for member, same in is_same.items() if not same]


@dataclass(frozen=True, slots=True)
class Declarations:
    """All of a file, in its order."""

    basins: tuple[DeclaredBasin, ...] = ()
    tokens: tuple[DeclaredToken, ...] = ()

    @property
    def count(self) -> int:
        """How many basins, streams and tokens there are."""
        return len(self.basins) + len(self.tokens) + sum(len(b.streams) for b in self.basins)
