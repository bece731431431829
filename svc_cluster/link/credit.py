"""How much one side of a conversation may have under way, by class.

A side counts the bytes of a class from the moment they are queued; the other side tells how many
it has dealt with. The difference is what memory they cost somewhere, and it never exceeds the
credit: a receiver that stops reading costs its sender one credit and no more.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from svc_cluster.link.frame import CLASSES, FrameError, FrameKind

MIB: Final = 1024 * 1024

CREDIT_BYTES: Final[Mapping[FrameKind, int]] = {
    FrameKind.URGENT: 2 * MIB,
    FrameKind.CALL: 8 * MIB,
    FrameKind.BULK: 4 * MIB,
    FrameKind.TRANSFER: 4 * MIB,
}
"""Bytes that may be queued or under way. A message larger than the credit of its class may only be
sent when nothing else of the class is."""

MESSAGE_BYTES_MAX: Final[Mapping[FrameKind, int]] = {
    FrameKind.URGENT: 64 * 1024,
    FrameKind.CALL: 3 * MIB,
    FrameKind.BULK: 3 * MIB,
    FrameKind.TRANSFER: 3 * MIB,
}
"""Bytes of one message, all its frames together; both sides check it. With a quarter of the credit,
which may be dealt with and not reported yet, each fits the credit: none waits for ever."""

_WINDOW: Final = struct.Struct("<BQ")


class SendCredit:
    """What is left of the credit of one class on the sending side."""

    __slots__ = ("_credit", "dealt_with", "left", "queued")

    def __init__(self, credit: int) -> None:
        self._credit = credit
        self.queued = 0
        """Bytes ever queued."""

        self.left = 0
        """Bytes that were cut into frames for the socket: nobody can have dealt with others."""

        self.dealt_with = 0
        """Bytes that the receiver has told to be done with."""

    @property
    def under_way(self) -> int:
        return self.queued - self.dealt_with

    @property
    def room(self) -> int:
        """Bytes that may be queued now; 0 or less: none."""
        return self._credit - self.under_way

    def allows(self, size: int) -> bool:
        under_way = self.queued - self.dealt_with
        return under_way == 0 or under_way + size <= self._credit

    def told(self, dealt_with: int) -> None:
        """The receiver reports. Raises FrameError for a report that cannot be true: of less than
        before, or of bytes that have not left yet, whose memory it would hide."""
        if not self.dealt_with <= dealt_with <= self.left:
            raise FrameError(f"{dealt_with} bytes dealt with of {self.left}")
        self.dealt_with = dealt_with


class ReceiveCredit:
    """What the other side still may send of one class."""

    __slots__ = ("_arrived_max", "_credit", "_reported", "arrived", "dealt_with")

    def __init__(self, credit: int, message_max: int) -> None:
        self._credit = credit
        self._arrived_max = max(credit, message_max)
        self._reported = 0
        self.arrived = 0
        self.dealt_with = 0

    def arrive(self, size: int) -> None:
        """Count bytes of a frame. Raises FrameError when the sender keeps to no bound."""
        self.arrived += size
        if self.arrived - self.dealt_with > self._arrived_max:
            raise FrameError("more than the credit of the class")

    def deal_with(self, size: int) -> bool:
        """Count what costs nothing any more. Returns whether the sender should hear: when a quarter
        of the credit was used since it did."""
        self.dealt_with += size
        return (self.dealt_with - self._reported) * 4 >= self._credit

    def report(self) -> int:
        self._reported = self.dealt_with
        return self.dealt_with


def send_credits() -> dict[FrameKind, SendCredit]:
    return {kind: SendCredit(CREDIT_BYTES[kind]) for kind in CLASSES}


def receive_credits() -> dict[FrameKind, ReceiveCredit]:
    return {kind: ReceiveCredit(CREDIT_BYTES[kind], MESSAGE_BYTES_MAX[kind]) for kind in CLASSES}


def encode_window(kind: FrameKind, dealt_with: int) -> bytes:
    return _WINDOW.pack(kind, dealt_with)


def decode_window(payload: bytes) -> tuple[FrameKind, int]:
    """Raises FrameError for anything but a window of a message class."""
    if len(payload) != _WINDOW.size:
        raise FrameError(f"a window of {len(payload)} bytes")
    kind, dealt_with = _WINDOW.unpack(payload)
    if kind not in CLASSES:
        raise FrameError(f"a window of the class {kind}")
    return FrameKind(kind), dealt_with
