"""A few replicas of one group in memory: each message and each sync is a step of the test."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import (
    AppendEntries,
    Configure,
    LogEntry,
    LogOp,
    RecoveredLog,
    SetCommit,
    SetHardState,
    TrimPrefix,
    TruncateSuffix,
)
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import (
    Durable,
    Message,
    PeerDown,
    PeerUp,
    ReadState,
    Ready,
    Role,
    Tick,
)
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    PeerMessage,
    PreVoteResponse,
    VoteGranted,
)
from svc_cluster.raft.raft_settings import RaftSettings

GROUP = GroupId(7)


def payload(text: str) -> bytes:
    return b"\x09" + text.encode()


def entry(log_index: int, term: int, text: str = "") -> LogEntry:
    return LogEntry(LogIndex(log_index), Term(term), payload(text or f"{log_index}/{term}"))


def log_of(
    *terms: int,
    term: int | None = None,
    voted_for: int | None = None,
    commit_index: int = 0,
    base: tuple[int, int] = (0, 0),
) -> RecoveredLog:
    """A durable log whose entries behind `base` have these terms."""
    entries = [entry(base[0] + slot, t) for slot, t in enumerate(terms, start=1)]
    newest = max((base[1], *terms))
    return RecoveredLog(
        GROUP,
        Generation(1),
        LogIndex(base[0]),
        Term(base[1]),
        Term(newest if term is None else term),
        None if voted_for is None else NodeId(voted_for),
        LogIndex(max(commit_index, base[0])),
        entries,
    )


def replay(recovered: RecoveredLog, ops: list[LogOp]) -> None:
    """What a write-ahead log does to a group's durable state, operation by operation."""
    for op in ops:
        match op:
            case AppendEntries():
                assert op.entries[0].log_index == recovered.last_index + 1
                recovered.entries.extend(op.entries)
            case TruncateSuffix():
                del recovered.entries[op.first_removed - recovered.base_index - 1 :]
            case SetHardState():
                recovered.term, recovered.voted_for = op.term, op.voted_for
            case SetCommit():
                recovered.commit_index = op.commit_index
            case TrimPrefix():
                del recovered.entries[: op.log_index - recovered.base_index]
                recovered.base_index, recovered.base_term = op.log_index, op.term
            case Configure():
                _configure(recovered, op)
            case other:
                raise AssertionError(f"the engine does not write {other}")


def _configure(recovered: RecoveredLog, op: Configure) -> None:
    del recovered.entries[op.last_index - recovered.base_index :]
    before = 0 if recovered.configuration is None else recovered.configuration.number
    assert op.configuration.number > before, "configurations follow one another"
    assert op.term >= recovered.term, "terms never go back"
    recovered.configuration = op.configuration
    recovered.term, recovered.voted_for = op.term, None
    if op.last_index >= op.configuration.seal_index:
        recovered.commit_index = max(recovered.commit_index, op.configuration.seal_index)
    recovered.commit_index = LogIndex(min(recovered.commit_index, op.last_index))


def copy_of(recovered: RecoveredLog) -> RecoveredLog:
    return RecoveredLog(
        recovered.group_id,
        recovered.generation,
        recovered.base_index,
        recovered.base_term,
        recovered.term,
        recovered.voted_for,
        recovered.commit_index,
        list(recovered.entries),
        recovered.damaged,
        recovered.configuration,
    )


class Node:
    """One replica and its disk. Nothing is synced until `sync` is called."""

    def __init__(
        self,
        node_id: int,
        members: list[int],
        recovered: RecoveredLog | None = None,
        *,
        applied_index: int = 0,
        settings: RaftSettings | None = None,
    ) -> None:
        self.node_id = NodeId(node_id)
        self.members = [NodeId(member) for member in members]
        self.disk = recovered or RecoveredLog(GROUP, Generation(1))
        self.settings = settings or RaftSettings()
        self.applied: list[LogEntry] = []
        self.applied_index = applied_index
        self.full: set[NodeId] = set()
        """Peers to which the way has no room for entries, of any group."""
        self.start()

    def start(self) -> None:
        self.group = EngineGroup(
            group_id=GROUP,
            node_id=self.node_id,
            members=self.members,
            recovered=copy_of(self.disk),
            applied_index=LogIndex(self.applied_index),
            rng=random.Random(int(self.node_id)),
            settings=self.settings,
            has_room=lambda peer: peer not in self.full,
        )
        self.unsynced: list[Ready] = []
        self.sent: list[tuple[NodeId, PeerMessage]] = []
        self.read_states: list[ReadState] = []
        self.snapshot_wanted: list[NodeId] = []
        for peer in self.members:
            if peer != self.node_id:
                self.group.step(PeerUp(peer))

    def tick(self, now: float, grace: float = 0.0) -> None:
        self.group.step(Tick(now, grace))
        self.drain()

    def receive(self, sender: int, body: PeerMessage) -> None:
        self.group.step(Message(NodeId(sender), body))
        self.drain()

    def drain(self) -> None:
        while (ready := self.group.ready()) is not None:
            if ready.log_ops:
                self.unsynced.append(ready)
            self.sent.extend(ready.messages)
            for committed in ready.committed:
                assert committed.log_index == self.applied_index + 1
                self.applied_index += 1
                self.applied.append(committed)
            self.read_states.extend(ready.read_states)
            self.snapshot_wanted.extend(ready.snapshot_wanted)

    def sync(self) -> None:
        """Everything handed out so far reaches the disk."""
        batches, self.unsynced = self.unsynced, []
        for ready in batches:
            replay(self.disk, ready.log_ops)
        if batches:
            self.group.step(Durable(batches[-1].number))
            self.drain()

    def crash(self, surviving_ops: int = 0) -> None:
        """Lose what was not synced but for its first operations, and start again."""
        ops = [op for ready in self.unsynced for op in ready.log_ops]
        replay(self.disk, ops[:surviving_ops])
        self.start()

    def take_sent(self) -> list[tuple[NodeId, PeerMessage]]:
        sent, self.sent = self.sent, []
        return sent

    def applied_texts(self) -> list[str]:
        return [e.payload[1:].decode() for e in self.applied if e.payload[0] == 9]


class Cluster:
    """Nodes 1..n with perfect links in order and a disk that syncs whenever the test settles."""

    def __init__(self, count: int, *, settings: RaftSettings | None = None) -> None:
        members = list(range(1, count + 1))
        self.now = 100.0
        self.nodes = {
            NodeId(member): Node(member, members, settings=settings) for member in members
        }
        self.cut: set[tuple[int, int]] = set()
        """Directed links that lose everything."""

    def settle(self) -> None:
        """Deliver messages and sync until nothing happens any more."""
        queue: deque[tuple[NodeId, NodeId, PeerMessage]] = deque()
        for _ in range(10_000):
            for node in self.nodes.values():
                node.drain()
                node.sync()
                queue.extend((node.node_id, to, body) for to, body in node.take_sent())
            if not queue:
                return
            sender, to, body = queue.popleft()
            if (sender, to) not in self.cut:
                self.nodes[to].receive(sender, body)
        raise AssertionError("the nodes never stop talking")

    def advance(self, seconds: float, step: float = 0.05, grace: float = 0.0) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += step
            for node in self.nodes.values():
                node.tick(self.now, grace)
            self.settle()

    def elect(self) -> Node:
        """Let time pass until one node leads."""
        for _ in range(400):
            self.advance(0.05)
            leaders = [node for node in self.nodes.values() if node.group.can_propose]
            if leaders:
                return max(leaders, key=lambda node: node.group.term)
        raise AssertionError("no leader was elected")

    def isolate(self, node_id: int) -> None:
        for other in self.nodes:
            if other != node_id:
                self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()

    def disconnect(self, one: int, other: int) -> None:
        self.nodes[NodeId(one)].group.step(PeerDown(NodeId(other)))
        self.nodes[NodeId(other)].group.step(PeerDown(NodeId(one)))


def append(
    term: int,
    previous: tuple[int, int],
    *terms: int,
    commit_index: int = 0,
    read_sequence: int = 1,
) -> AppendRequest:
    """A leader's message: behind `previous` (index, term) come entries of these terms."""
    entries = tuple(entry(previous[0] + slot, t) for slot, t in enumerate(terms, start=1))
    return AppendRequest(
        Term(term),
        LogIndex(previous[0]),
        Term(previous[1]),
        LogIndex(commit_index),
        entries,
        read_sequence,
    )


def ack(term: int, index: int, read_sequence: int = 0) -> AppendResponse:
    """A follower has everything up to `index` on its disk."""
    next_index = LogIndex(index + 1)
    return AppendResponse(Term(term), next_index, True, False, read_sequence)


def answers(node: Node) -> list[AppendResponse]:
    """What the node has answered to its leader since the last look."""
    return [body for _, body in node.take_sent() if isinstance(body, AppendResponse)]


def terms_of(node: Node) -> list[int]:
    group = node.group
    indexes = range(group.base_index + 1, group.last_index + 1)
    return [term for index in indexes if (term := group.term_at(LogIndex(index))) is not None]


def become_leader(node: Node, now: float, voters: Sequence[int]) -> float:
    """Let `node` win an election by the votes of `voters`; returns the time it took place.

    The leader's first entry is handed out and, like all else, not synced.
    """
    node.tick(now)
    now += node.settings.election_max + 0.05
    node.tick(now)
    next_term = Term(node.group.term + 1)
    for voter in voters:
        node.receive(voter, PreVoteResponse(node.group.term, next_term, granted=True))
    node.sync()
    for voter in voters:
        node.receive(voter, VoteGranted(next_term))
    assert node.group.role is Role.LEADER
    return now
