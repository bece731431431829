"""Which peers have lost part of what they promised, and from when on a snapshot may repair them.

A recovering replica forgot votes and acknowledgements, so a leader may repair it only when it is
sure to be the newest leader that the lost promises can speak of. It is when, after the peer asked,
every other whole replica has answered it in its own term. The argument: README.md of this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from svc_cluster.base.ids import LogIndex, NodeId


@dataclass(frozen=True, slots=True)
class Repair:
    """What a snapshot for a recovering peer must be."""

    recovery: int
    """The number under which the peer asked."""
    least_index: LogIndex
    """The peer may have acknowledged entries up to here: the snapshot must reach as far."""
    confirmed: bool
    """Whether a snapshot may be sent yet."""


@dataclass(slots=True)
class _Asking:
    recovery: int
    least_index: LogIndex
    sequence: int
    """Answers to messages with a later number were given after the peer had asked."""
    answered: set[NodeId] = field(default_factory=set)


class Repairs:
    """The recovering peers of one leadership."""

    def __init__(self, peers: Sequence[NodeId], quorum: int) -> None:
        """`quorum` of `peers` and this node make a majority."""
        self._peers = frozenset(peers)
        # so many whole replicas meet every quorum in which a recovering one has taken part
        self._others_needed = len(peers) + 1 - quorum
        self._asking: dict[NodeId, _Asking] = {}

    def __contains__(self, peer: NodeId) -> bool:
        return peer in self._asking

    def __len__(self) -> int:
        return len(self._asking)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(sorted(self._asking))

    def clear(self) -> None:
        self._asking.clear()

    def ask(self, peer: NodeId, recovery: int, last_index: LogIndex, sequence: int) -> bool:
        """`peer` asks while the leader's log ends at `last_index` and `sequence` is the number of
        the last message sent. Returns whether that is news."""
        known = self._asking.get(peer)
        if known is not None and known.recovery == recovery:
            return False
        self._asking[peer] = _Asking(recovery, last_index, sequence)
        return True

    def answered(self, peer: NodeId, sequence: int) -> None:
        """`peer` is whole, and answered the message numbered `sequence` in this term."""
        for asking in self._asking.values():
            if sequence > asking.sequence:
                asking.answered.add(peer)

    def forget(self, peer: NodeId) -> bool:
        """`peer` is whole, or gone. Returns whether it was recovering."""
        return self._asking.pop(peer, None) is not None

    def of(self, peer: NodeId) -> Repair | None:
        asking = self._asking.get(peer)
        if asking is None:
            return None
        whole = self._peers - self._asking.keys()
        confirmed = len(whole) >= self._others_needed and whole <= asking.answered
        return Repair(asking.recovery, asking.least_index, confirmed)
