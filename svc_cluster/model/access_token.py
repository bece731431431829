"""Access tokens: what is kept of one, and the rules by which one token makes another.

Pure: the time is an argument, the secret is known by its hash only. Source: wire contract sections
8.1 and 8.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from svc_cluster.base.errors import InvalidError, PermissionDeniedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model import names
from svc_cluster.model.access import (
    FULL_GRANT,
    ROOT_SCOPE,
    Grant,
    Op,
    Scope,
    grant_of,
    is_subset,
    under,
)

ROOT_TOKEN_ID: Final = "root"
NO_PARENT: Final = 0
"""The parent of the root token, and of tokens issued where nobody is asked for one."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """A moment as the client wrote it (RFC 3339), and the same in nanoseconds since 1970."""

    text: str
    unix_ns: int

    def is_over(self, now_ms: TimestampMs) -> bool:
        return now_ms * 1_000_000 >= self.unix_ns


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token as it is asked for."""

    token_id: str
    scope: Scope
    auto_prefix_streams: bool = False
    expires_at: Expiry | None = None


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is kept of a token. `scope.streams` holds full names. `serial` is never used again, so
    that a token is told from another that has its id later."""

    serial: int
    token_id: str
    secret_hash: bytes
    """SHA-256 of the secret (access_secret.py)."""
    parent: int
    """Serial of the token that issued it; it lives no longer than that one."""
    scope: Scope
    auto_prefix_streams: bool = False
    name_prefix: str = ""
    """Put in front of every stream name that the holder says."""
    expires_at: Expiry | None = None

    @property
    def grant(self) -> Grant:
        return grant_of(self.scope, self.name_prefix)

    def is_expired(self, now_ms: TimestampMs) -> bool:
        return self.expires_at is not None and self.expires_at.is_over(now_ms)


def check_request(request: TokenRequest) -> None:
    """What makes no sense whoever asks for it. Raises InvalidError; the two sentences are part of
    the interface."""
    if not request.scope.operations:
        raise InvalidError("Access token permissions cannot be empty")
    streams = request.scope.streams
    if request.auto_prefix_streams and (streams is None or not streams.is_prefix):
        raise InvalidError("Auto prefixing is only allowed for streams with prefix matching")


def derive(request: TokenRequest, caller: AccessToken | None, now_ms: TimestampMs) -> AccessToken:
    """The token that `request` asks for, issued by `caller` (None: nobody is asked for a token),
    as yet without serial and hash.

    A caller whose stream names get a prefix means the request's streams below that prefix, and the
    prefix stays on the child's names too. Raises InvalidError, PermissionDeniedError.
    """
    check_request(request)
    grant = FULL_GRANT if caller is None else caller.grant
    if not grant.allows((Op.ISSUE_ACCESS_TOKEN,), token_id=request.token_id):
        raise PermissionDeniedError("the token may not issue a token of this id")
    scope = replace(request.scope, streams=under(grant.name_prefix, request.scope.streams))
    within = (
        scope.operations <= grant.operations
        and is_subset(scope.basins, grant.basins)
        and is_subset(scope.streams, grant.streams)
        and is_subset(scope.access_tokens, grant.access_tokens)
    )
    if not within:
        raise PermissionDeniedError("a token cannot give more than it has")
    if scope.streams is not None and not names.is_stream_prefix(scope.streams.value):
        raise InvalidError("with its prefix the streams set is longer than a stream name")
    name_prefix = grant.name_prefix
    if request.auto_prefix_streams:
        assert scope.streams is not None, "checked with the request"
        name_prefix = scope.streams.value
    return AccessToken(
        serial=0,
        token_id=request.token_id,
        secret_hash=b"",
        parent=NO_PARENT if caller is None else caller.serial,
        scope=scope,
        auto_prefix_streams=request.auto_prefix_streams,
        name_prefix=name_prefix,
        expires_at=_expiry(
            request.expires_at, None if caller is None else caller.expires_at, now_ms
        ),
    )


def _expiry(wanted: Expiry | None, limit: Expiry | None, now_ms: TimestampMs) -> Expiry | None:
    if wanted is None:
        return limit
    if wanted.is_over(now_ms):
        raise InvalidError("expires_at is in the past")
    if limit is not None and wanted.unix_ns > limit.unix_ns:
        raise InvalidError("a token cannot outlive the one that issues it")
    return wanted


def root_token(serial: int, secret_hash: bytes) -> AccessToken:
    return AccessToken(serial, ROOT_TOKEN_ID, secret_hash, NO_PARENT, ROOT_SCOPE)
