"""Invariants of consensus, checked over what every live replica says of itself.

Cheap enough to run many times a virtual second: each look costs what is new since the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol


class InvariantError(Exception):
    """A promise of the service is broken. The name of the invariant comes first."""


class GroupProbe(Protocol):
    """What one replica says of itself at one moment."""

    @property
    def group_id(self) -> int: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def term(self) -> int: ...

    @property
    def commit_index(self) -> int: ...

    @property
    def applied_index(self) -> int: ...

    @property
    def base_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...

    @property
    def digest(self) -> Hashable:
        """Of the applied state; None when it is not known at this moment."""
        ...

    def term_at(self, log_index: int) -> int | None: ...


@dataclass(slots=True)
class Probe:
    """A probe with its facts in it."""

    group_id: int
    is_leader: bool
    term: int
    commit_index: int
    applied_index: int
    base_index: int
    last_index: int
    digest: Hashable
    term_at: Callable[[int], int | None]


@dataclass(slots=True)
class _Replica:
    """What was last seen of one replica of one node."""

    incarnation: int = -1
    term: int = 0
    led_term: int = 0
    commit_index: int = 0
    applied_index: int = 0
    commit_checked: int = 0
    log_checked: int = 0
    log_checked_term: int | None = None


@dataclass(slots=True)
class _Group:
    leaders: dict[int, int] = field(default_factory=dict)
    """term -> node"""
    committed_terms: dict[int, int] = field(default_factory=dict)
    """log index -> term of the entry committed there"""
    committed_by: list[tuple[int, int]] = field(default_factory=list)
    """(term of the observer, commit index), both growing: leaders of later terms have it all."""
    previous_terms: dict[tuple[int, int], int] = field(default_factory=dict)
    """(log index, term) of an entry -> term of the entry before it"""
    digests: dict[int, tuple[Hashable, int]] = field(default_factory=dict)
    """applied index -> (digest, node that had it first)"""
    replicas: dict[int, _Replica] = field(default_factory=dict)


class RaftChecker:
    """One for a whole cluster."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}
        self.looks = 0
        self.is_harmed: Callable[[int, int], bool] = lambda node, group_id: False
        """Whether the rows of that replica were changed behind its back, and are not mended: what
        it makes of an entry that reads them is not what the others make of it."""

    @property
    def elections(self) -> int:
        """How many (group, term) pairs had a leader."""
        return sum(len(group.leaders) for group in self._groups.values())

    def observe(self, node: int, incarnation: int, probes: Iterable[GroupProbe]) -> None:
        """Look at one live node. Raises InvariantError."""
        for probe in probes:
            self.looks += 1
            group = self._groups.setdefault(probe.group_id, _Group())
            replica = group.replicas.setdefault(node, _Replica())
            where = f"group {probe.group_id} node {node} incarnation {incarnation}"
            self._monotone(replica, incarnation, probe, where)
            self._one_leader(group, node, probe, where)
            self._log_matching(group, replica, probe, where)
            self._committed(group, replica, probe, where)
            self._complete_leader(group, probe, where)
            if not self.is_harmed(node, probe.group_id):
                self._same_state(group, node, probe, where)

    def forget_replica(self, node: int, group_id: int) -> None:
        """What the node had of the group was destroyed: what it gets later is another replica."""
        if group_id in self._groups:
            self._groups[group_id].replicas.pop(node, None)

    def forget_disk(self, node: int) -> None:
        """The node's disk was replaced by an empty one: it may know nothing."""
        for group in self._groups.values():
            group.replicas.pop(node, None)

    def _monotone(self, replica: _Replica, incarnation: int, probe: GroupProbe, where: str) -> None:
        # a term that was never promised to anybody may be lost in a crash; one that was led is
        # durable
        floor = replica.term if replica.incarnation == incarnation else replica.led_term
        if probe.term < floor:
            raise InvariantError(f"term-never-regresses: {where}: {floor} -> {probe.term}")
        if probe.is_leader:
            replica.led_term = probe.term
        if replica.incarnation == incarnation:
            if probe.commit_index < replica.commit_index:
                raise InvariantError(
                    f"commit-monotone: {where}: {replica.commit_index} -> {probe.commit_index}"
                )
            if probe.applied_index < replica.applied_index:
                raise InvariantError(
                    f"applied-monotone: {where}: {replica.applied_index} -> {probe.applied_index}"
                )
        else:
            replica.commit_checked = replica.log_checked = 0
        if probe.applied_index > probe.commit_index:
            raise InvariantError(
                f"applied-within-commit: {where}: {probe.applied_index} > {probe.commit_index}"
            )
        replica.incarnation = incarnation
        replica.term = probe.term
        replica.commit_index = probe.commit_index
        replica.applied_index = probe.applied_index

    def _one_leader(self, group: _Group, node: int, probe: GroupProbe, where: str) -> None:
        if probe.is_leader:
            other = group.leaders.setdefault(probe.term, node)
            if other != node:
                raise InvariantError(
                    f"one-leader-per-term: {where}: node {other} leads term {probe.term} too"
                )

    def _log_matching(
        self, group: _Group, replica: _Replica, probe: GroupProbe, where: str
    ) -> None:
        """Entries of the same index and term have the same predecessor, so, all the way down, the
        same history. Only what changed since the last look is compared."""
        last = probe.last_index
        start = replica.log_checked
        if start > last or probe.term_at(start) != replica.log_checked_term:
            start = probe.commit_index
        start = max(start, probe.base_index)
        previous = probe.term_at(start)
        for log_index in range(start + 1, last + 1):
            term = probe.term_at(log_index)
            if previous is not None and term is not None:
                known = group.previous_terms.setdefault((log_index, term), previous)
                if known != previous:
                    raise InvariantError(
                        f"log-matching: {where}: entry ({log_index}, term {term}) follows term "
                        f"{previous} here and term {known} elsewhere"
                    )
                if previous > term:
                    raise InvariantError(f"log-terms-grow: {where}: at {log_index}")
            previous = term
        replica.log_checked, replica.log_checked_term = last, previous

    def _committed(self, group: _Group, replica: _Replica, probe: GroupProbe, where: str) -> None:
        start = max(replica.commit_checked, probe.base_index)
        for log_index in range(start + 1, probe.commit_index + 1):
            term = probe.term_at(log_index)
            if term is None:
                continue
            known = group.committed_terms.setdefault(log_index, term)
            if known != term:
                raise InvariantError(
                    f"committed-for-ever: {where}: entry {log_index} of term {term} is committed "
                    f"here, one of term {known} elsewhere"
                )
        replica.commit_checked = max(replica.commit_checked, probe.commit_index)
        seen = group.committed_by
        if not seen or probe.commit_index > max(index for _, index in seen[-8:]):
            seen.append((probe.term, probe.commit_index))

    def _complete_leader(self, group: _Group, probe: GroupProbe, where: str) -> None:
        """A leader has every entry that was known committed in an earlier term."""
        if not probe.is_leader:
            return
        for term, commit_index in reversed(group.committed_by):
            if term >= probe.term:
                continue
            if commit_index > probe.last_index:
                raise InvariantError(
                    f"leader-completeness: {where}: leads term {probe.term} with "
                    f"{probe.last_index} entries; {commit_index} were committed in term {term}"
                )
            mine = probe.term_at(commit_index)
            known = group.committed_terms.get(commit_index)
            if mine is not None and known is not None and mine != known:
                raise InvariantError(
                    f"leader-completeness: {where}: entry {commit_index} of term {mine}, "
                    f"committed was term {known}"
                )
            return

    def _same_state(self, group: _Group, node: int, probe: GroupProbe, where: str) -> None:
        if probe.digest is None:
            return
        known, other = group.digests.setdefault(probe.applied_index, (probe.digest, node))
        if known != probe.digest:
            raise InvariantError(
                f"same-index-same-state: {where}: at {probe.applied_index} the state differs from "
                f"that of node {other}"
            )
