"""Read tickets: what the holder of an access token gives to a page that can send no header.

A ticket says which token it comes of, until when it holds, and what may be read with it, and is
sealed (HMAC-SHA-256) under what the catalog and the gateways keep of the token's secret. So every
gateway can open every ticket, none is kept anywhere, and none opens once its token is gone. The
token's holder knows that key too: what a ticket says is looked at as if they had said it. Decided
in docs/adr/0037. Source: contract 12.9, 12.10, 12.11 and 12.12.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import UnauthenticatedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.access import NameSet, Op
from svc_cluster.model.access_token import AccessToken

TICKET_OPERATIONS: Final = frozenset({Op.READ, Op.CHECK_TAIL})
"""All that is ever done with one."""
TAMPERED: Final = "the read ticket was tampered with, or was never issued"
OVER: Final = "the read ticket has expired"
ELSEWHERE: Final = "the read ticket is for another stream"
READS_ALONE: Final = "a read ticket is good for reading records and the tail, and for nothing else"

_MARK: Final = "svcr_"
_VERSION: Final = 1
_PURPOSE: Final = b"svc-cluster: read ticket\x00"
_HEAD: Final = struct.Struct(">BQQ?B")
"""Version, serial of the token, end in ms since 1970, whether by prefix, bytes of the basin."""
_SEAL_BYTES: Final = 32
_CHECKSUM_DIGITS: Final = 8
_CHARACTERS_MAX: Final = 1024
_TEXT: Final = re.compile(r"svcr_([A-Za-z0-9_-]+)([0-9a-f]{8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReadTicket:
    """What a ticket says. `streams` holds full names."""

    serial: int
    """The serial of the access token that it comes of."""
    ends_at_ms: TimestampMs
    basin: str
    streams: NameSet

    def is_over(self, now_ms: TimestampMs) -> bool:
        return now_ms >= self.ends_at_ms


@dataclass(frozen=True, slots=True)
class SealedTicket:
    """This is a ticket of which nobody has found out yet whether it is genuine."""

    ticket: ReadTicket
    content: bytes
    seal: bytes

    def open(self, token: AccessToken) -> ReadTicket:
        """Return what it says, where it was sealed in the name of `token`. Raises
        UnauthenticatedError."""
        if not hmac.compare_digest(self.seal, _seal(self.content, token)):
            raise UnauthenticatedError(TAMPERED)
        return self.ticket


def ticket_text(ticket: ReadTicket, token: AccessToken) -> str:
    """Return the text of a ticket in the name of `token`. It has a mark and at most 1,024
    characters, which are letters, digits, `-` and `_`, as in an access token's secret."""
    assert ticket.serial == token.serial, "it comes of this token"
    basin = ticket.basin.encode()
    head = _HEAD.pack(
        _VERSION, ticket.serial, ticket.ends_at_ms, ticket.streams.is_prefix, len(basin)
    )
    content = head + basin + ticket.streams.value.encode()
    return _text(content + _seal(content, token))


def parse_ticket(text: str) -> SealedTicket:
    """Raises UnauthenticatedError for what is no ticket, or is not whole."""
    found = _TEXT.fullmatch(text) if len(text) <= _CHARACTERS_MAX else None
    # one character behind whole groups of four is no bits at all
    if found is None or len(found[1]) % 4 == 1:
        raise UnauthenticatedError(TAMPERED)
    data = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4))
    # there is one text of each ticket: neither another checksum nor spare bits are let pass
    if len(data) < _HEAD.size + _SEAL_BYTES or _text(data) != text:
        raise UnauthenticatedError(TAMPERED)
    content, seal = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    version, serial, ends_at_ms, is_prefix, basin_bytes = _HEAD.unpack_from(content)
    names = content[_HEAD.size :]
    if version != _VERSION or basin_bytes > len(names):
        raise UnauthenticatedError(TAMPERED)
    try:
        basin, stream = names[:basin_bytes].decode(), names[basin_bytes:].decode()
    except UnicodeDecodeError:
        raise UnauthenticatedError(TAMPERED) from None
    streams = NameSet(stream, is_prefix)
    ticket = ReadTicket(serial, TimestampMs(ends_at_ms), basin, streams)
    return SealedTicket(ticket, content, seal)


def _seal(content: bytes, token: AccessToken) -> bytes:
    """Under what is kept of the token's secret, which nobody is told who does not have the secret.
    The purpose in front keeps the seal from ever being one of something else."""
    return hmac.digest(token.secret_hash, _PURPOSE + content, hashlib.sha256)


def _text(data: bytes) -> str:
    bits = base64.urlsafe_b64encode(data).decode().rstrip("=")
    return _MARK + bits + hashlib.sha256(bits.encode()).hexdigest()[:_CHECKSUM_DIGITS]
