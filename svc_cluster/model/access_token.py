"""Access tokens: what is kept of one, and the rules by which one token makes another.

Pure: the time is an argument, the secret is known by its hash only. Source: contract
12.2 and 12.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Final, Self

from svc_cluster.base.errors import InvalidError, PermissionDeniedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.telling import quoted
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


class AuthenticationOff(Enum):
    """Stands where a token's serial would, where nobody is asked for a token. A word of its own:
    what is left out, or 0, must never mean full rights."""

    OFF = "authentication off"


AskedBy = int | AuthenticationOff
"""The serial of the token of whoever asks (above 0), or the word for nobody being asked."""


STORED_NS_MAX: Final = 2**63 - 1
"""Nanoseconds since 1970 are stored in 64 bits, which end in the years 1677 and 2262. A moment
beyond is stored as the nearest one of these; what it is exactly is in its text."""
STORED_NS_MIN: Final = -(2**63)

MOMENT_RULE: Final = (
    "expires_at is a date and time of the years 1 to 9999, such as 2030-01-31T12:00:00Z"
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Expiry:
    """A moment as the client wrote it (RFC 3339), and the same in nanoseconds since 1970, which
    may take more than 64 bits."""

    text: str
    unix_ns: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The moment that `text` names, exact to the nanosecond, in the years 1 to 9999 of its own
        offset. Raises ValueError with MOMENT_RULE."""
        found = _RFC_3339.fullmatch(text)
        if found is None:
            raise ValueError(MOMENT_RULE)
        date, time, fraction, sign, hours, minutes = found.groups()
        try:
            offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
            zone = timezone(-offset if sign == "-" else offset)
            moment = datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=zone)
            seconds = (moment - _EPOCH) // timedelta(seconds=1)
        except (ValueError, OverflowError) as cause:
            raise ValueError(MOMENT_RULE) from cause
        return cls(text, seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0")))

    @property
    def stored_ns(self) -> int:
        """What stands for `unix_ns` where there are 64 bits for it."""
        return min(max(self.unix_ns, STORED_NS_MIN), STORED_NS_MAX)

    @classmethod
    def restored(cls, text: str, stored_ns: int) -> Self:
        """The moment of which these were stored. Raises ValueError where no moment is stored so."""
        if STORED_NS_MIN < stored_ns < STORED_NS_MAX:
            return cls(text, stored_ns)
        return cls.parse(text)

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
    """Return the token that `request` asks for, issued by `caller`, as yet without serial and hash.
    With None for `caller` nobody is asked for a token.

    A caller whose stream names get a prefix means the request's streams below that prefix, and the
    prefix stays on the child's names too. Raises InvalidError, PermissionDeniedError.
    """
    check_request(request)
    grant = FULL_GRANT if caller is None else caller.grant
    if not grant.allows((Op.ISSUE_ACCESS_TOKEN,), token_id=request.token_id):
        raise PermissionDeniedError(
            "the access token does not allow `issue-access-token` on the access token "
            + quoted(request.token_id)
        )
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
        raise InvalidError(
            "with its prefix the streams set has no stream name: over 512 bytes, or with NUL"
        )
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
