"""What one side of a conversation still has to send, and in which order it leaves.

Of two classes the more urgent goes first; within a class flows take turns, one slice each. A flow
is whatever must stay in order and must not stand in another's way: a group between nodes, a caller
between gateway and node. Nothing here knows a socket.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from svc_cluster.link.credit import MESSAGE_BYTES_MAX, send_credits
from svc_cluster.link.frame import CLASSES, FrameKind, encode_frame

SLICE_BYTES: Final = 256 * 1024
"""Bytes of a message after which another flow of its class has its turn; one frame's payload."""

SERIES_NUMBER_MAX: Final = 0xFFFFFFFF
"""Numbers of series begin again behind it."""

TRANSFER_TURN: Final = 4
"""While bulk waits, one slice in so many belongs to transfers: they may be slow, never stuck."""


class NoCreditError(Exception):
    """The other side has not dealt with what it got before: nothing of this message was queued."""


class Outbox:
    """Messages by class and flow; `take` cuts the next frames from them."""

    def __init__(self) -> None:
        self.credits = send_credits()
        self._notices: deque[bytes] = deque()
        self._flows: dict[FrameKind, dict[int, deque[_Message]]] = {kind: {} for kind in CLASSES}
        self._turns: dict[FrameKind, deque[int]] = {kind: deque() for kind in CLASSES}
        self._series = 1
        """The number of the next one."""
        self._bulk_slices = 0
        self.queued_bytes = 0
        """Bytes of payload that have not been taken yet."""

    @property
    def is_empty(self) -> bool:
        return not self._notices and not self.queued_bytes

    def push(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Queue a message behind the others of its class and flow. Raises NoCreditError."""
        size = len(payload)
        assert 0 < size <= MESSAGE_BYTES_MAX[kind], "the sender bounds its messages"
        credit = self.credits[kind]
        if not credit.allows(size):
            raise NoCreditError
        credit.queued += size
        self.queued_bytes += size
        flows = self._flows[kind]
        waiting = flows.get(flow)
        if waiting is None:
            flows[flow] = waiting = deque()
            self._turns[kind].append(flow)
        waiting.append(_Message(payload))

    def is_waiting(self, kind: FrameKind, flow: int) -> bool:
        """Whether something of this flow, or its last slice, is still here."""
        return flow in self._flows[kind]

    def notice(self, frame: bytes) -> None:
        """Queue a frame of the link itself; it leaves before everything else. One that waits
        already says it for both: who asks for signs of life and reads none costs one."""
        if frame not in self._notices:
            self._notices.append(frame)

    def take(self, budget: int) -> list[bytes]:
        """Cut frames until they have `budget` bytes or nothing is left. It is at least one if there
        is any, so that a small budget cannot stop the conversation."""
        out: list[bytes] = []
        taken = 0
        while self._notices:
            frame = self._notices.popleft()
            out.append(frame)
            taken += len(frame)
        while self.queued_bytes and (taken < budget or not out):
            frame = self._cut(self._next_class())
            out.append(frame)
            taken += len(frame)
        return out

    def _next_class(self) -> FrameKind:
        turns = self._turns
        if turns[FrameKind.URGENT]:
            return FrameKind.URGENT
        if turns[FrameKind.CALL]:
            return FrameKind.CALL
        if turns[FrameKind.BULK] and turns[FrameKind.TRANSFER]:
            self._bulk_slices += 1
            return FrameKind.BULK if self._bulk_slices % TRANSFER_TURN else FrameKind.TRANSFER
        return FrameKind.BULK if turns[FrameKind.BULK] else FrameKind.TRANSFER

    def _cut(self, kind: FrameKind) -> bytes:
        turns, flows = self._turns[kind], self._flows[kind]
        flow = turns.popleft()
        waiting = flows[flow]
        message = waiting[0]
        size = len(message.payload)
        if message.sent == 0 and size <= SLICE_BYTES:
            frame = encode_frame(kind, message.payload)
            self.queued_bytes -= size
            self.credits[kind].left += size
            waiting.popleft()
        else:
            if not message.series:
                message.series = self._next_series()
            end = min(message.sent + SLICE_BYTES, size)
            part = message.payload[message.sent : end]
            frame = encode_frame(kind, part, series=message.series, more=end < size)
            self.queued_bytes -= end - message.sent
            self.credits[kind].left += end - message.sent
            message.sent = end
            if end == size:
                waiting.popleft()
        if waiting:
            turns.append(flow)
        else:
            del flows[flow]
        return frame

    def _next_series(self) -> int:
        number = self._series
        # 0 is no series; the one that had this number before is over long since
        self._series = number % SERIES_NUMBER_MAX + 1
        return number


class _Message:
    __slots__ = ("payload", "sent", "series")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.sent = 0
        self.series = 0
