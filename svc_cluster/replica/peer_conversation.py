"""What goes to one peer over its conversation of Raft: what overtakes what, and what waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.base.ids import GroupId, LogIndex
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.codec.peer_message import (
    MEMBER_OVERHEAD_BYTES,
    encode_envelope,
    encode_message,
    payload_bytes,
)
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.session import NodeSession
from svc_cluster.raft.messages import AppendRequest, PeerMessage
from svc_cluster.replica.portions import portions

ROOM_BYTES: Final = CREDIT_BYTES[FrameKind.BULK] // 2
"""Entries under way to one peer, of all groups together, behind which no group sends more."""

ENVELOPE_BYTES_MAX: Final = MESSAGE_BYTES_MAX[FrameKind.URGENT] - 64
"""The largest size of the small messages of one turn that leave as one, without head and clock."""

log = get_logger("peer_conversation")

_PEER_HEAD: Final = encode(Verb.PEER, 0)

_ENVELOPE_BYTES: Final = 64
"""What an envelope has beside its messages, at most: its head, and the clock."""


class PeerLink(Protocol):
    """The part of a connector that is needed here."""

    @property
    def held_bytes(self) -> int: ...

    @property
    def is_up(self) -> bool: ...

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None: ...

    def has_credit(self, kind: FrameKind, size: int) -> bool: ...

    def under_way(self, kind: FrameKind) -> int: ...

    def is_waiting(self, kind: FrameKind, flow: int) -> bool: ...

    def dealt_with(self, kind: FrameKind, size: int) -> None: ...

    def redirect(self, address: str, other: str = "") -> None: ...

    def reset(self, reason: str) -> None: ...

    def knock(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class _WaitingMessage:
    """One message that waits for credit."""

    group_id: GroupId
    message: AppendRequest
    size: int
    """About its bytes."""


class PeerConversation:
    """What goes to one peer: which message may overtake which, and what waits for credit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int | None]) -> None:
        """`clock` tells the wall clock in Unix milliseconds, or None where it is not told."""
        self.calls = NodeSession(loop)
        self._loop = loop
        self._clock = clock
        self._link: PeerLink | None = None
        self._urgent: list[bytes] = []
        self._urgent_bytes = 0
        self._bulk: deque[_WaitingMessage] = deque()
        """What follows upon entries of its group, in order, until the peer has credit for it."""
        self._last: dict[GroupId, _WaitingMessage] = {}
        """The last message there of each group that has one."""
        self._bulk_bytes = 0
        self._behind: dict[GroupId, LogIndex] = {}
        """For each group that had entries under way: the place that the latest of them follow."""
        self._flush_scheduled = False
        self._was_full = False
        self.on_room: Callable[[], None] = lambda: None
        self.send_failures = 0
        self.sent_bytes = 0
        self._lost = Seldom()

    def attach(self, link: PeerLink) -> None:
        self._link = link
        self.calls.attach(link)

    @property
    def waiting_bytes(self) -> int:
        """About how much waits here for credit."""
        return self._bulk_bytes

    @property
    def held_bytes(self) -> int:
        """About how much waits here for credit, or has left and is not dealt with."""
        link = self._link
        return self._bulk_bytes + (0 if link is None else link.under_way(FrameKind.BULK))

    @property
    def has_room(self) -> bool:
        """Whether a group may hand over more entries."""
        link = self._link
        return link is None or link.under_way(FrameKind.BULK) + self._bulk_bytes < ROOM_BYTES

    def send(self, group_id: GroupId, message: PeerMessage) -> None:
        """Queue a message of this turn of the event loop."""
        if isinstance(message, AppendRequest) and self._is_bulk(group_id, message):
            for part in portions(message):
                self._wait(group_id, part)
            if message.entries:
                self._behind[group_id] = message.previous_index
            self._was_full |= not self.has_room
        else:
            member = encode_message(group_id, message)
            size = len(member) + MEMBER_OVERHEAD_BYTES
            if self._urgent_bytes + size > ENVELOPE_BYTES_MAX:
                self._send_urgent()
            self._urgent.append(member)
            self._urgent_bytes += size
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _is_bulk(self, group_id: GroupId, message: AppendRequest) -> bool:
        """Whether it has entries, or would be refused by the peer if it came before those that are
        on their way to it."""
        if message.entries:
            return True
        behind = self._behind.get(group_id)
        if behind is None or message.previous_index <= behind:
            return False
        link = self._link
        if group_id in self._last or (link and link.is_waiting(FrameKind.BULK, group_id)):
            return True
        del self._behind[group_id]
        return False

    def _wait(self, group_id: GroupId, part: AppendRequest) -> None:
        """A heartbeat behind a heartbeat of its group takes that one's place: it says all that the
        other said. So a peer that stands still has one of each group waiting for it, not one of
        each tick and of each read."""
        last = self._last.get(group_id)
        if last is not None and not last.message.entries and not part.entries:
            last.message = part
            return
        size = payload_bytes(part)
        self._last[group_id] = waiting = _WaitingMessage(group_id, part, size)
        self._bulk.append(waiting)
        self._bulk_bytes += size

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._send_urgent()
        self._send_bulk()

    def _send_urgent(self) -> None:
        members, self._urgent = self._urgent, []
        self._urgent_bytes = 0
        if members:
            self._hand_over(FrameKind.URGENT, 0, members)

    def _send_bulk(self) -> None:
        while self._bulk:
            first = self._bulk[0]
            group_id, message = first.group_id, first.message
            size = first.size + _ENVELOPE_BYTES
            if self._link is not None and not self._link.has_credit(FrameKind.BULK, size):
                return  # not encoded until it may leave: it may wait long
            try:
                self._hand_over(FrameKind.BULK, group_id, [encode_message(group_id, message)])
            except NoCreditError:
                return
            except Exception as fault:
                # it would be in the way of all other groups for ever; its own asks for it again
                self._say_lost(group_id, fault)
            self._bulk.popleft()
            if self._last[group_id] is first:
                del self._last[group_id]
            self._bulk_bytes -= first.size

    def _say_lost(self, group_id: GroupId, fault: Exception) -> None:
        self.send_failures += 1
        count = self._lost.note(self._loop.time())
        if count is not None:
            log.error("message_not_made", group_id=group_id, count=count, exc_info=fault)

    def _hand_over(self, kind: FrameKind, flow: int, members: list[bytes]) -> None:
        """Raises NoCreditError for bulk; anything else that cannot leave is dropped, because the
        group repeats what matters."""
        data = encode_envelope(_PEER_HEAD, members, self._clock())
        try:
            if self._link is None:
                raise LinkLostError(sent=False)
            self._link.send(kind, flow, data)
        except LinkLostError:
            self.send_failures += 1
        except NoCreditError:
            if kind is FrameKind.BULK:
                raise
            self.send_failures += 1
        else:
            self.sent_bytes += len(data)

    # -- what the link tells

    def room(self, kind: FrameKind, size: int) -> None:
        """The peer is done with more of what it was sent."""
        if kind is not FrameKind.BULK:
            return
        self._send_bulk()
        if self._was_full and self.has_room:
            self._was_full = False
            self._loop.call_soon(self.on_room)

    def part(self) -> None:
        """End this conversation; another one follows."""
        if self._link is not None:
            self._link.reset("who has which place has changed")

    def link_down(self) -> None:
        """Nothing of what waits means anything to the next conversation."""
        self._urgent, self._urgent_bytes = [], 0
        self._bulk.clear()
        self._last.clear()
        self._bulk_bytes = 0
        self._behind.clear()
        self._was_full = False
        self.calls.link_down()
