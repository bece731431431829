"""Which snapshots a node sends, one after the other, and how much log a group keeps meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, LogIndex, NodeId

TRANSFERS_MAX: Final = 2
"""Transfers from a node at one time; whoever comes later waits in order. The disks and the network
are for clients first, and each transfer holds the log of its group."""

HOLD_SECONDS: Final = 600.0
"""How long a transfer keeps its group's log from being trimmed, from its beginning on."""

HOLD_BYTES: Final = 256 * 1024 * 1024
"""How much log a transfer may keep in memory. Behind either bound the peer starts anew."""

BUSY_BYTES_PER_SECOND: Final = 32 * 1024 * 1024
"""What all transfers from a node read together while its log takes entries."""

BUSY_SECONDS: Final = 1.0
"""For so long behind the last look that found entries waiting for the disk it counts as busy."""

Transfer = tuple[GroupId, NodeId]
"""Whose state goes to whom."""


class TransferQueue:
    """Who is next. A transfer is known from `ask` to `forget`."""

    def __init__(self) -> None:
        self._waiting: deque[Transfer] = deque()
        self._known: set[Transfer] = set()
        self._running: set[Transfer] = set()

    @property
    def running(self) -> int:
        return len(self._running)

    def ask(self, transfer: Transfer) -> None:
        """May be repeated: what is known keeps its place."""
        if transfer not in self._known:
            self._known.add(transfer)
            self._waiting.append(transfer)

    def begin(self) -> Transfer | None:
        """The next one, which runs from now on; None when there is none or no room."""
        if not self._waiting or len(self._running) >= TRANSFERS_MAX:
            return None
        transfer = self._waiting.popleft()
        self._running.add(transfer)
        return transfer

    def ended(self, transfer: Transfer) -> None:
        """There is room for another; this one is not taken again before `forget`."""
        self._running.discard(transfer)

    def forget(self, transfer: Transfer) -> None:
        self._known.discard(transfer)


class SnapshotPace:
    """This keeps the transfers from a node from taking its disks and its processor from appends.
    What they read counts, sent or not."""

    def __init__(self, clock: Clock, has_appends: Callable[[], bool]) -> None:
        """`has_appends`: whether any wait for the log at this moment."""
        self._clock = clock
        self._has_appends = has_appends
        self._busy_at = self._free_at = float("-inf")

    def took(self, size: int) -> None:
        """So many bytes were read."""
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now) + size / BUSY_BYTES_PER_SECOND

    def delay(self) -> float:
        """For how many seconds nothing more may be read."""
        now = self._clock.monotonic()
        if self._has_appends():
            self._busy_at = now
        if now - self._busy_at > BUSY_SECONDS:
            self._free_at = now  # what was read while nobody waited is nobody's loss
        return max(self._free_at - now, 0.0)

    async def wait(self) -> None:
        """Return once more may be read."""
        if (delay := self.delay()) > 0:
            await asyncio.sleep(delay)


class Log(Protocol):
    """What is to be known of a group's log."""

    def match_index(self, peer: NodeId) -> LogIndex: ...

    def index_keeping_bytes(self, size: int) -> LogIndex: ...


@dataclass(slots=True)
class _Hold:
    log_index: LogIndex
    began: float
    is_sent: bool = False


class LogHolds:
    """This keeps logs for peers that are being sent a snapshot, and until these have caught up.
    What was trimmed behind a snapshot's place would make it worthless on arrival."""

    def __init__(self) -> None:
        self._holds: dict[GroupId, dict[NodeId, _Hold]] = {}

    def begin(self, group_id: GroupId, peer: NodeId, log_index: LogIndex, now: float) -> None:
        """A snapshot that stands for `log_index` is sent from `now` (monotonic seconds) on. A peer
        that is still catching up from an earlier one may refuse it, so that one's place stays."""
        holds = self._holds.setdefault(group_id, {})
        known = holds.get(peer)
        if known is not None and known.is_sent:
            known.began = now
        else:
            holds[peer] = _Hold(log_index, now)

    def sent(self, group_id: GroupId, peer: NodeId) -> None:
        """The peer has it; now it needs what came behind."""
        hold = self._holds.get(group_id, {}).get(peer)
        if hold is not None:
            hold.is_sent = True

    def release(self, group_id: GroupId, peer: NodeId) -> None:
        """It came to nothing."""
        holds = self._holds.get(group_id, {})
        if peer in holds and not holds[peer].is_sent:
            del holds[peer]

    def release_all(self, group_id: GroupId) -> None:
        """The group is not led from here any more."""
        self._holds.pop(group_id, None)

    def limit(self, group_id: GroupId, log: Log, wanted: LogIndex, now: float) -> LogIndex:
        """How far the log may be trimmed that without transfers would be trimmed to `wanted`."""
        holds = self._holds.get(group_id)
        if not holds:
            return wanted
        allowed = wanted
        for peer, hold in list(holds.items()):
            reached = max(hold.log_index, log.match_index(peer))
            if now - hold.began > HOLD_SECONDS or (hold.is_sent and reached >= wanted):
                del holds[peer]
            else:
                allowed = min(allowed, reached)
        if not holds:
            del self._holds[group_id]
        return max(allowed, min(wanted, log.index_keeping_bytes(HOLD_BYTES)))
