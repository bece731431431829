"""Request bodies as handlers see them: counted against one budget as they come, and with their
Content-Encoding undone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ErrorCode, HotServerError, MalformedError
from svc_cluster.base.telling import quoted
from svc_cluster.codec import compression
from svc_cluster.codec.compression import CompressionError, DecompressedTooLargeError
from svc_cluster.gateway.limits.body_budget import (
    SLOW_BYTES_PER_SECOND,
    SMALL_BYTES,
    BodyBudget,
    BodyPace,
)
from svc_cluster.gateway.request.body_head import BodyHead, body_head
from svc_cluster.gateway.request.error_answers import (
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
)
from svc_cluster.http.body import StreamedBody
from svc_cluster.http.message import (
    BODY_IDLE_SECONDS,
    Body,
    BodyTimeoutError,
    BytesBody,
    Request,
    WholeBody,
)

_BYTES_PER_SECOND_MIN: Final = 1024
"""A body arrives at least this fast, after the first idle time."""
_PIECE_BYTES: Final = 4 * 1024
"""A piece that is smaller is put to others."""
_PART_BYTES: Final = 64 * 1024


class BudgetedBody(WholeBody):
    """A request's body as handlers see it: counted, and with its Content-Encoding undone.

    `read` raises the refusal itself where the contract has one: 415 for an unknown coding, 413
    for a declared length beyond the limit, and `malformed` (bad_json or bad_proto) for a body that
    turns out to be too large or not to be what its coding says. `release` belongs to whoever made
    it, and comes after the answer was made.
    """

    __slots__ = (
        "_begun",
        "_body",
        "_budget",
        "_clock",
        "_codings",
        "_has_turn",
        "_held",
        "_is_slow",
        "_is_whole",
        "_length",
        "_malformed",
        "_number",
        "_pace",
        "_wait_left",
        "cut",
        "read_bytes",
    )

    def __init__(
        self,
        request: Request,
        budget: BodyBudget,
        clock: Clock,
        malformed: ErrorCode,
        told: BodyHead | None = None,
    ) -> None:
        """`told`: what the head says of the body, where that has been read."""
        self._body: Body = request.body
        self._budget = budget
        self._clock = clock
        self._malformed = malformed
        self._codings, self._length = body_head(request) if told is None else told
        self._number = next(_numbers)
        self._begun = clock.monotonic()
        self._wait_left = budget.patience.wait_seconds
        self._is_slow = False
        self._has_turn = False
        self._pace = BodyPace.LARGE
        self._is_whole = False
        self._held = 0
        self.cut = False
        """Reading ended before the body did: the connection is of no further use."""
        self.read_bytes = 0
        """What has come of it, as sent."""

    def release(self) -> None:
        self._give_back(self._held)

    async def read(self, limit_bytes: int) -> bytes:
        coding = self._codings[0] if self._codings else "identity"
        if len(self._codings) > 1 or coding not in compression.ENCODINGS:
            raise UnsupportedMediaTypeError(
                "content-encoding is `gzip` or `zstd`, once, not "
                + quoted(", ".join(self._codings))
            )
        if self._length is not None and self._length > limit_bytes:
            self.cut = True
            raise PayloadTooLargeError(
                f"a body has at most {limit_bytes} bytes, this one says {self._length}"
            )
        data = await self._arrived(limit_bytes)
        if data is None:
            data = await self._read_pieces(limit_bytes)
        if coding == "identity":
            return data
        return await self._decompress(coding, data, limit_bytes)

    async def chunks(self, idle_seconds: float | None = BODY_IDLE_SECONDS) -> AsyncIterator[bytes]:
        """Yield the body as sent, for sessions, which have no Content-Encoding. A piece is counted
        until the next is asked for; what a session keeps beyond that it counts itself."""
        budget = self._budget
        pieces = self._body.chunks(idle_seconds)
        try:
            async for piece in pieces:
                self.read_bytes += len(piece)
                budget.take(len(piece))
                try:
                    yield piece
                finally:
                    budget.give_back(len(piece))
        finally:
            await _close(pieces)

    def _take(self, size: int) -> None:
        self._budget.take(size)
        self._hold(size, counted=True)

    def _hold(self, size: int, *, counted: bool = False) -> None:
        if not counted:
            self._budget.hold(size, slow=self._is_slow)
        elif self._is_slow:
            self._budget.becomes_slow(size)
        self._held += size

    def _give_back(self, size: int) -> None:
        self._budget.give_back(size, slow=self._is_slow)
        self._held -= size

    async def _arrived(self, limit_bytes: int) -> bytes | None:
        """All of it, where that is there already."""
        body = self._body
        data = body.complete() if isinstance(body, StreamedBody | BytesBody) else None
        if data is None:
            return None
        self.read_bytes = len(data)
        if len(data) > limit_bytes:
            raise MalformedError(self._malformed, _too_large(limit_bytes))
        self._is_whole = True
        self._budget.hold_arrived(len(data))
        self._held += len(data)
        if isinstance(body, BytesBody) and self._budget.has_room(BodyPace.SMALL):
            return data  # it came with its head: its turn would end as it begins
        await self._begin_turn()
        self._end_turn()
        return data

    async def _read_pieces(self, limit_bytes: int) -> bytes:
        """Read the body as it comes, as long as there is room."""
        parts: list[bytes | bytearray] = []
        size = 0
        pieces = self._body.chunks()
        try:
            end_at = self._clock.monotonic() + BODY_IDLE_SECONDS + await self._begin_turn()
            async for piece in pieces:
                size += len(piece)
                self.read_bytes = size
                if size > limit_bytes:
                    raise MalformedError(self._malformed, _too_large(limit_bytes))
                self._hold(len(piece))
                self._end_turn()
                _keep(piece, parts)
                piece = b""
                if self._clock.monotonic() > end_at + size / _BYTES_PER_SECOND_MIN:
                    raise BodyTimeoutError
                if self._length is None or size < self._length:
                    end_at += await self._begin_turn()
            return b"".join(parts)
        except (MalformedError, HotServerError, BodyTimeoutError):
            self.cut = True
            raise
        finally:
            self._end_turn()
            # an error that is told holds on to this frame: not to the body too
            parts.clear()
            await _close(pieces)

    async def _begin_turn(self) -> float:
        """Return once there is room for more, after how many seconds; meanwhile nothing is taken
        from the client. Raises HotServerError when that takes too long."""
        now = self._clock.monotonic()
        age = now - self._begun
        slow_at = max(self._budget.patience.slow_seconds, self._held / SLOW_BYTES_PER_SECOND)
        if not self._is_slow and age > slow_at:
            self._is_slow = True
            self._budget.becomes_slow(self._held)
        is_small = self._is_whole or (self._length is not None and self._length <= SMALL_BYTES)
        self._pace = (
            BodyPace.SLOW if self._is_slow else BodyPace.SMALL if is_small else BodyPace.LARGE
        )
        waited = 0.0
        if not self._budget.begin_turn(self._pace):
            if isinstance(self._body, StreamedBody):
                self._body.pause()
            await self._budget.wait_turn(self._number, self._held, self._wait_left, self._pace)
            waited = self._clock.monotonic() - now
            self._wait_left = max(0.0, self._wait_left - waited)
            self._begun += waited  # that it took so long is not its client's doing
        self._has_turn = True
        return waited

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._budget.end_turn(self._pace)

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


def _keep(piece: bytes, parts: list[bytes | bytearray]) -> None:
    """Few and large, so that what is held is little more than what is counted."""
    if len(piece) >= _PIECE_BYTES:
        parts.append(piece)
        return
    last = parts[-1] if parts else b""
    if not isinstance(last, bytearray) or len(last) >= _PART_BYTES:
        parts.append(last := bytearray())
    last += piece


_numbers = itertools.count()


def _too_large(limit_bytes: int) -> str:
    return f"a body has at most {limit_bytes} bytes, this one has more"


async def _close(pieces: AsyncIterator[bytes]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
