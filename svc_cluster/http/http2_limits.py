"""Bounds on what an HTTP/2 client may send: counted frame by frame, before any frame is handled.

The rates are per RATE_SECONDS and connection. A client that exceeds one is told to be calm
(ENHANCE_YOUR_CALM) and its connection ends; ordinary clients stay far below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STREAMS_MAX: Final = 100
"""Requests under way on one connection. One more is refused, and may be tried again."""

HEADER_LIST_BYTES_MAX: Final = 32 * 1024
"""The largest size of a request's headers, counted as RFC 9113 does: 32 for each, and name and
value."""

CONTINUATIONS_MAX: Final = 8
"""Frames that continue one block of headers."""

RATE_SECONDS: Final = 10.0
RESETS_MAX: Final = 100
"""Requests that the client has cancelled or made fail, beyond those that were answered."""
SETTINGS_MAX: Final = 100
PINGS_MAX: Final = 1000
EMPTY_DATA_MAX: Final = 100
WINDOW_UPDATES_MAX: Final = 1000
"""Beyond WINDOW_UPDATES_PER_FRAME for each frame of data sent."""
WINDOW_UPDATES_PER_FRAME: Final = 8
"""Some clients give back every 4 KiB of a frame's 16, to the stream and to the connection."""
OTHERS_MAX: Final = 1000
"""Priorities, and frames of types that are ignored."""

FRAMES_AT_ONCE: Final = 64
"""Looked at in one turn of the loop, whatever has come."""
HEAD_FRAMES: Final = 8
"""A frame of a head counts as so many, since it brings a request; and as one more..."""
HEAD_FRAME_BYTES: Final = 16
"""...for each so many bytes: one of them may be a field."""

_PREFACE_BYTES: Final = 24
_HEADER_BYTES: Final = 9
_FRAME_BYTES_MAX: Final = 16384
_DATA, _HEADERS, _RST_STREAM, _SETTINGS = 0x0, 0x1, 0x3, 0x4
_PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0x5, 0x6, 0x7, 0x8, 0x9
_END_STREAM = _ACK = 0x1
_END_HEADERS = 0x4


class TooMuchError(Exception):
    """The client exceeds a bound; the text says which."""


class FrameTooLongError(Exception):
    """Longer than the server has allowed; the library would wait for all of it first."""


class Rate:
    """A Rate tells about how many events there were in the last RATE_SECONDS. It counts this
    span's, and of the last span's the part that is not over."""

    __slots__ = ("_before", "_begun", "_count")

    def __init__(self, now: float) -> None:
        self._begun = now
        self._count = 0
        self._before = 0

    def add(self, now: float) -> None:
        self._turn(now)
        self._count += 1

    def value(self, now: float) -> float:
        self._turn(now)
        return self._count + self._before * (1 - (now - self._begun) / RATE_SECONDS)

    def _turn(self, now: float) -> None:
        spans = int((now - self._begun) // RATE_SECONDS)
        if spans:
            self._before = self._count if spans == 1 else 0
            self._count = 0
            self._begun += spans * RATE_SECONDS


class FrameMeter:
    """Walks over the frames of one connection as their bytes arrive.

    GOAWAY frames are noted and taken out: a client that opens no more streams still wants the
    answers it is waiting for, and the library would end the connection.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds. The bytes begin with the connection preface."""
        self._clock = clock
        now = clock()
        self._rates = {
            kind: (Rate(now), limit, text)
            for kind, limit, text in (
                (_SETTINGS, SETTINGS_MAX, "SETTINGS frames"),
                (_PING, PINGS_MAX, "PING frames"),
                (_DATA, EMPTY_DATA_MAX, "DATA frames without data"),
                (_WINDOW_UPDATE, WINDOW_UPDATES_MAX, "WINDOW_UPDATE frames"),
                (-1, OTHERS_MAX, "frames without a use"),
            )
        }
        self._resets = Rate(now)
        self._completed = Rate(now)
        self._sent = Rate(now)
        self._partial = b""
        self._left = _PREFACE_BYTES
        self._dropping = False
        self._continuations = 0
        self._block_open = False
        self._in_head = False
        self._head_bytes = 0
        self.settings_seen = False
        self.leaving = False
        """The client has said that it will open no more streams."""
        self._fed = 0
        """Frames of this turn, as they count."""
        self.rest = b""
        """What `feed` has not looked at: too many frames have come at once."""

    @property
    def head_open(self) -> bool:
        """Whether a block of headers has begun and not ended, or perhaps so."""
        return self._block_open or (self._in_head and self._left > 0) or bool(self._partial)

    @property
    def head_bytes(self) -> int:
        """Return the bytes so far of the block of headers that has begun and not ended; 0 where
        there is none."""
        return self._head_bytes if self.head_open else 0

    def feed(self, data: bytes) -> bytes:
        """Count the frames that begin in `data`, at most FRAMES_AT_ONCE, so that there may be a
        `rest`, which is to be fed next. What is returned is for the library.

        Raises TooMuchError and FrameTooLongError before anything of the frame that exceeds a
        bound is passed on.
        """
        kept: list[bytes] = []
        place = self._fed = 0
        end = len(data)
        while place < end and (self._left or self._fed < FRAMES_AT_ONCE):
            if self._left:
                taken = min(self._left, end - place)
                if not self._dropping:
                    kept.append(data[place : place + taken])
                self._left -= taken
                if self._in_head:
                    self._head_bytes += taken
                place += taken
                continue
            header = self._partial + data[place : place + _HEADER_BYTES - len(self._partial)]
            place += len(header) - len(self._partial)
            if len(header) < _HEADER_BYTES:
                self._partial = header
                break
            self._partial = b""
            self._begin(header)
            if not self._dropping:
                kept.append(header)
        self.rest = data[place:]
        return b"".join(kept)

    def _begin(self, header: bytes) -> None:
        self._left = int.from_bytes(header[:3])
        kind, flags = header[3], header[4]
        self._in_head = kind in (_HEADERS, _CONTINUATION)
        self._fed += 1
        if self._in_head:
            self._fed += HEAD_FRAMES + self._left // HEAD_FRAME_BYTES
        self._dropping = kind == _GOAWAY
        if self._left > _FRAME_BYTES_MAX:
            raise FrameTooLongError
        if kind in (_HEADERS, _PUSH_PROMISE):
            self._block_open = not flags & _END_HEADERS
            self._continuations = 0
            self._head_bytes = 0
        elif kind == _CONTINUATION:
            self._continuations += 1
            if self._continuations > CONTINUATIONS_MAX:
                raise TooMuchError("CONTINUATION frames")
            if flags & _END_HEADERS:
                self._block_open = False
        elif kind == _DATA:
            if self._left == 0 and not flags & _END_STREAM:
                self.count_empty_data()
        elif kind == _RST_STREAM:
            self.count_reset()
        elif kind == _GOAWAY:
            self.leaving = True
            self._count(-1)
        elif kind in (_SETTINGS, _PING):
            self.settings_seen = self.settings_seen or kind == _SETTINGS
            if not flags & _ACK or self._left:
                self._count(kind)
        elif kind == _WINDOW_UPDATE:
            self._count(kind, WINDOW_UPDATES_PER_FRAME * self._sent.value(self._clock()))
        else:
            self._count(-1)

    def _count(self, kind: int, beyond: float = 0.0) -> None:
        rate, limit, text = self._rates[kind]
        now = self._clock()
        rate.add(now)
        if rate.value(now) > limit + beyond:
            raise TooMuchError(text)

    def count_empty_data(self) -> None:
        """A frame of padding alone counts too. Raises TooMuchError."""
        self._count(_DATA)

    def count_reset(self) -> None:
        """A request ended by the client's RST_STREAM, or by ours for a fault of the client's.
        Raises TooMuchError."""
        now = self._clock()
        self._resets.add(now)
        if self._resets.value(now) - self._completed.value(now) > RESETS_MAX:
            raise TooMuchError("requests cancelled")

    def count_completed(self) -> None:
        """A request was answered to its end."""
        self._completed.add(self._clock())

    def count_sent(self) -> None:
        """A frame of data was sent."""
        self._sent.add(self._clock())
