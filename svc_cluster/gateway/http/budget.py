"""Request bodies under one budget of bytes, their Content-Encoding undone on the way.

Whatever is held of all requests at one time, as sent or decompressed, is counted here; what finds
no room is refused (502 `hot_server`, without effect) before it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from prometheus_client import Gauge

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ErrorCode, HotServerError, MalformedError
from svc_cluster.codec import compression
from svc_cluster.codec.compression import CompressionError, DecompressedTooLargeError
from svc_cluster.gateway.http.errors import PayloadTooLargeError, UnsupportedMediaTypeError
from svc_cluster.gateway.http.message import (
    BODY_IDLE_SECONDS,
    Body,
    BodyTimeoutError,
    BodyTooLargeError,
    Request,
)

BODY_BYTES_IN_FLIGHT_MAX: Final = 256 * 1024 * 1024

_BYTES_PER_SECOND_MIN: Final = 1024
"""A body without a declared length arrives at least this fast, after the first idle time."""


class BodyBudget:
    """Bytes of request bodies held at one time, by everyone together."""

    __slots__ = ("_gauge", "_held", "_max")

    def __init__(self, bytes_max: int, gauge: Gauge) -> None:
        self._held = 0
        self._max = bytes_max
        self._gauge = gauge

    @property
    def room(self) -> int:
        return self._max - self._held

    def has_plenty_for(self, size: int) -> bool:
        """Whether a quarter is left behind it: what could wait should leave that to others."""
        return self.room - size >= self._max // 4

    def take(self, size: int) -> None:
        """Raises HotServerError when there is no room; nothing is taken then."""
        if size > self.room:
            raise HotServerError("too many request bodies at once")
        self._held += size
        self._gauge.set(self._held)

    def give_back(self, size: int) -> None:
        if size:
            self._held -= size
            assert self._held >= 0, "more was given back than taken"
            self._gauge.set(self._held)


class BudgetedBody:
    """A request's body as handlers see it: counted, and with its Content-Encoding undone.

    `read` raises the refusal itself where the contract has one: 415 for an unknown coding, 413
    for a declared length beyond the limit, and `malformed` (bad_json or bad_proto) for a body that
    turns out to be too large or not to be what its coding says. `release` belongs to whoever made
    it, and comes after the answer was made.
    """

    __slots__ = ("_body", "_budget", "_clock", "_codings", "_held", "_length", "_malformed", "cut")

    def __init__(
        self, request: Request, budget: BodyBudget, clock: Clock, malformed: ErrorCode
    ) -> None:
        self._body: Body = request.body
        self._budget = budget
        self._clock = clock
        self._malformed = malformed
        self._codings = content_codings(request)
        self._length = _declared_length(request)
        self._held = 0
        self.cut = False
        """Reading ended before the body did: the connection is of no further use."""

    def release(self) -> None:
        self._give_back(self._held)

    async def read(self, limit_bytes: int) -> bytes:
        coding = self._codings[0] if self._codings else "identity"
        if len(self._codings) > 1 or coding not in compression.ENCODINGS:
            raise UnsupportedMediaTypeError("content-encoding is gzip or zstd, once")
        if self._length is not None:
            if self._length > limit_bytes:
                self.cut = True
                raise PayloadTooLargeError(f"a body has at most {limit_bytes} bytes")
            self._take(self._length)
            data = await self._body.read(limit_bytes)
        else:
            data = await self._read_undeclared(limit_bytes)
        if coding == "identity":
            return data
        return await self._decompress(coding, data, limit_bytes)

    async def chunks(self, idle_seconds: float | None = BODY_IDLE_SECONDS) -> AsyncIterator[bytes]:
        """As sent, for sessions, which have no Content-Encoding. A piece is counted until the next
        is asked for; what a session keeps beyond that it counts itself."""
        budget = self._budget
        pieces = self._body.chunks(idle_seconds)
        try:
            async for piece in pieces:
                budget.take(len(piece))
                try:
                    yield piece
                finally:
                    budget.give_back(len(piece))
        finally:
            await _close(pieces)

    def _take(self, size: int) -> None:
        self._budget.take(size)
        self._held += size

    def _give_back(self, size: int) -> None:
        self._budget.give_back(size)
        self._held -= size

    async def _read_undeclared(self, limit_bytes: int) -> bytes:
        end_at = self._clock.monotonic() + BODY_IDLE_SECONDS
        parts: list[bytes] = []
        size = 0
        pieces = self._body.chunks()
        try:
            async for piece in pieces:
                size += len(piece)
                if size > limit_bytes:
                    raise MalformedError(self._malformed, _too_large(limit_bytes))
                self._take(len(piece))
                if self._clock.monotonic() > end_at + size / _BYTES_PER_SECOND_MIN:
                    raise BodyTimeoutError
                parts.append(piece)
        except (MalformedError, HotServerError, BodyTimeoutError, BodyTooLargeError):
            self.cut = True
            raise
        finally:
            await _close(pieces)
        return b"".join(parts)

    async def _decompress(self, coding: str, data: bytes, limit_bytes: int) -> bytes:
        parts: list[bytes] = []
        try:
            for part in compression.decompress_steps(coding, data, limit_bytes):
                if parts:  # a large one: others may work in between
                    await asyncio.sleep(0)
                self._take(len(part))
                parts.append(part)
        except DecompressedTooLargeError as cause:
            raise MalformedError(self._malformed, _too_large(limit_bytes)) from cause
        except CompressionError as cause:
            raise MalformedError(self._malformed, f"content-encoding: {cause}") from cause
        self._give_back(len(data))
        return b"".join(parts)


def content_codings(request: Request) -> list[str]:
    """All values of Content-Encoding in their order, in lower case, without `identity`."""
    return [
        word
        for name, value in request.headers
        if name == "content-encoding"
        for part in value.split(",")
        if (word := part.strip().lower()) not in ("", "identity")
    ]


def _too_large(limit_bytes: int) -> str:
    return f"a body has at most {limit_bytes} bytes"


def _declared_length(request: Request) -> int | None:
    """None when the length shows only at the end. The adapter vouches for the header's form."""
    length = request.header("content-length")
    if length is not None and length.isascii() and length.isdigit() and len(length) < 20:
        return int(length)
    return None


async def _close(pieces: AsyncIterator[bytes]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
