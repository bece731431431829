"""Puts the frames of message classes together again, within the bounds that the sender has too."""

from __future__ import annotations

from typing import Final

from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX, receive_credits
from svc_cluster.link.frame import CLASSES, Frame, FrameError, FrameKind
from svc_cluster.link.outbox import SLICE_BYTES

SERIES_MAX: Final = sum(
    max(CREDIT_BYTES[kind], MESSAGE_BYTES_MAX[kind]) // SLICE_BYTES for kind in CLASSES
)
"""Series that may be incomplete at once: a message is only cut when it is longer than a slice, so
that the credits bound their number for every sender that follows the rules."""

SERIES_FRAMES_MAX: Final = 1024
"""Frames of one series: what each of them costs beside its payload is bounded too. A sender that
follows the rules needs a dozen."""


class Inbox:
    """Series that are under way, and what of each class was dealt with."""

    def __init__(self) -> None:
        self.credits = receive_credits()
        self._series: dict[int, _Series] = {}
        """The one that began first is the first."""
        self._begun = 0
        self.held_bytes = 0
        """Bytes of incomplete series: bounded by the credits."""

    @property
    def oldest(self) -> int | None:
        """Return which series is the first of those that are incomplete; None: none is. They are
        counted as they began, all of this conversation."""
        return next((series.ordinal for series in self._series.values()), None)

    def take_whole(self, kind: FrameKind, payload: bytes) -> bytes:
        """Return the message that is one frame. Raises what `take` raises."""
        size = len(payload)
        if not size:
            raise FrameError("a frame without content")
        self.credits[kind].arrive(size)
        if size > MESSAGE_BYTES_MAX[kind]:
            raise FrameError(f"a message of {size} bytes")
        return payload

    def take(self, frame: Frame) -> bytes | None:
        """Return the message that `frame` completes, or None. Raises FrameError for more than the
        sender was allowed, an empty frame, or a series that does not go together."""
        if not frame.series:
            return self.take_whole(frame.kind, frame.payload)
        if not frame.payload:
            raise FrameError("a frame without content")
        self.credits[frame.kind].arrive(len(frame.payload))
        series = self._series.get(frame.series)
        if series is None:
            if not frame.more:
                raise FrameError("the end of a series that has no beginning")
            if len(self._series) >= SERIES_MAX:
                raise FrameError(f"more than {SERIES_MAX} series at once")
            self._begun += 1
            series = self._series[frame.series] = _Series(frame.kind, self._begun)
        if series.kind is not frame.kind:
            raise FrameError("a series of two classes")
        if len(series.parts) >= SERIES_FRAMES_MAX:
            raise FrameError(f"a series of more than {SERIES_FRAMES_MAX} frames")
        series.parts.append(frame.payload)
        series.size += len(frame.payload)
        if series.size > MESSAGE_BYTES_MAX[frame.kind]:
            raise FrameError(f"a message of more than {MESSAGE_BYTES_MAX[frame.kind]} bytes")
        if frame.more:
            self.held_bytes += len(frame.payload)
            return None
        del self._series[frame.series]
        self.held_bytes -= series.size - len(frame.payload)
        return b"".join(series.parts)


class _Series:
    __slots__ = ("kind", "ordinal", "parts", "size")

    def __init__(self, kind: FrameKind, ordinal: int) -> None:
        self.kind = kind
        self.ordinal = ordinal
        self.parts: list[bytes] = []
        self.size = 0
