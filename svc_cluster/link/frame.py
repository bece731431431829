"""The frames that a connection between two processes carries, and the reading of them.

A frame is a header of 12 bytes and at most 1 MiB of payload. A message that is longer travels as a
series of frames with one number, so that what is urgent never waits for more than one frame. The
format is version 1 of docs/adr/0026; nothing in it is skipped because it is unknown.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

PAYLOAD_BYTES_MAX: Final = 1024 * 1024
"""Bytes of payload in one frame; both sides check it."""

HEADER: Final = struct.Struct("<IBBHI")
"""Payload bytes, kind, flags, zero, number of the series (0: the frame is a whole message)."""

MORE: Final = 0x01
"""The flag of every frame of a series but its last."""


class FrameKind(IntEnum):
    """What a frame is. The message classes come first and are their own priority: of two that wait,
    the one with the lower value leaves first."""

    URGENT = 0
    """Heartbeats, votes, acknowledgements, pings, cancellations: small and never refused."""

    CALL = 1
    """Requests and the answers to them, but for what reads bring."""

    BULK = 2
    """Log entries to followers and the answers of reads."""

    TRANSFER = 3
    """Snapshots: whatever is left over."""

    WINDOW = 16
    """How much of a class its receiver has dealt with; see `credit`."""

    GREETING = 17
    """The proofs that begin a connection; nothing else comes before they are complete."""

    PING = 19
    """A question for a sign of life, `?`, or the answer to it, `!`."""

    FAREWELL = 18
    """The reason why the sender ends the connection, in one sentence of UTF-8."""


CLASSES: Final = (FrameKind.URGENT, FrameKind.CALL, FrameKind.BULK, FrameKind.TRANSFER)


class FrameError(Exception):
    """The other side sent what this version does not know or allow; the connection is over."""


class Frame(NamedTuple):
    """One frame as it arrived."""

    kind: FrameKind
    more: bool
    series: int
    payload: bytes


def encode_frame(kind: FrameKind, payload: bytes, *, series: int = 0, more: bool = False) -> bytes:
    """The bytes of one frame. The caller keeps the payload within PAYLOAD_BYTES_MAX."""
    assert len(payload) <= PAYLOAD_BYTES_MAX, "a longer message is a series"
    return HEADER.pack(len(payload), kind, MORE if more else 0, 0, series) + payload


class FrameReader:
    """Cuts the bytes of one connection into frames, however they arrive."""

    def __init__(self, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        """`payload_bytes_max` is lower while the other side has proved nothing."""
        self._payload_bytes_max = payload_bytes_max
        self._held = bytearray()
        self._wanted = HEADER.size
        self._data = b""
        self._position = 0
        """Up to where `_data` was cut: what is behind it was not looked at yet."""
        self.completed = 0
        """Frames that were complete so far."""

    @property
    def held_bytes(self) -> int:
        """Bytes that were cut into no frame yet."""
        return len(self._held) + len(self._data) - self._position

    @property
    def may_have_more(self) -> bool:
        """Whether `cut` has not been asked up to the end of what was added."""
        return self._position < len(self._data)

    def lift_bound(self) -> None:
        """Read frames of every size that the format has, from the next one on."""
        self._payload_bytes_max = PAYLOAD_BYTES_MAX

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes. Raises what `cut` raises."""
        self.add(data)
        while (frame := self.cut()) is not None:
            yield frame

    def add(self, data: bytes) -> None:
        """Keep bytes that arrived, for `cut`."""
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return
            data = bytes(self._held)
            self._held.clear()
        elif self.may_have_more:
            data = self._data[self._position :] + data
        self._data, self._position = data, 0

    def cut(self) -> Frame | None:
        """The next frame that is complete, judged by the bound of this moment. Raises FrameError
        at the first header that is not one of this version, before its payload is kept; nothing
        may be added after that."""
        data, position = self._data, self._position
        end = len(data)
        if position >= end:
            return None  # what is held is short of what it was found to need
        start = position + _HEADER_BYTES
        if start <= end:
            size, kind, flags, zero, series = _read_header(data, position)
            if flags or zero or series or size > self._payload_bytes_max or kind not in _KINDS:
                try:
                    self._check(size, kind, flags, zero, series)
                except FrameError:
                    self._data, self._position = b"", 0
                    raise
            if start + size <= end:
                self._position = start + size
                self.completed += 1
                return Frame(_KINDS[kind], bool(flags), series, data[start : start + size])
            self._wanted = _HEADER_BYTES + size
        else:
            self._wanted = _HEADER_BYTES
        self._held += memoryview(data)[position:]
        self._data, self._position = b"", 0
        return None

    def _check(self, size: int, kind: int, flags: int, zero: int, series: int) -> None:
        if size > self._payload_bytes_max:
            raise FrameError(f"a frame of {size} bytes, {self._payload_bytes_max} are allowed")
        if kind not in _KINDS:
            raise FrameError(f"a frame of the unknown kind {kind}")
        if flags not in (0, MORE) or zero != 0:
            raise FrameError(f"a frame with unknown flags {flags:#x} {zero:#x}")
        if kind not in CLASSES and (series or flags):
            raise FrameError(f"a series of frames of kind {FrameKind(kind).name}")
        if flags and not series:
            raise FrameError("a series without a number")


_KINDS: Final = {int(kind): kind for kind in FrameKind}
_HEADER_BYTES: Final = HEADER.size
_read_header: Final = HEADER.unpack_from
