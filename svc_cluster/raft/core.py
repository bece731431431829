"""PySyncObj 0.3.17 with everything it does to the world taken away. Its only importer.

No sockets, no threads, no files, no clock and no chance of its own: messages go to a function,
the journal is a `LogView`, time and randomness are set before each call. Private names of the
library are used only here, are listed in `_PRIVATE`, and their presence is checked for every group.
Which of them and why: docs/adr/0001.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pysyncobj.syncobj as library
from pysyncobj.config import SyncObjConf
from pysyncobj.journal import Journal
from pysyncobj.node import Node
from pysyncobj.serializer import SERIALIZER_STATE
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.log_journal import LogJournal
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.raft_settings import RaftSettings

EXPECTED_VERSION: Final = "0.3.17"
_NEVER: Final = 2**62
_CLOCK_STEP: Final = 1e-7
"""Seconds that pass with each look at the clock, so that a loop bounded by time ends."""

_MODULE_NAMES: Final = ("createJournal", "monotonicTime", "random")
_METHODS: Final = (
    "_applyCommand",
    "_checkCommandsToApply",
    "_getLeader",
    "_isLeader",
    "_SyncObj__applyLogEntries",
    "_SyncObj__doApplyCommand",
    "_SyncObj__generateRaftTimeout",
    "_SyncObj__getCurrentLogIndex",
    "_SyncObj__getEntries",
    "_SyncObj__getPrevLogIndexTerm",
)
_JOURNAL: Final = (
    "add",
    "clear",
    "deleteEntriesFrom",
    "deleteEntriesTo",
    "getCurrentTerm",
    "getRaftCommitIndex",
    "getVotedForNodeId",
    "onOneSecondTimer",
    "setCurrentTerm",
    "setRaftCommitIndex",
)
"""What the library asks of a journal, beside its length and its items."""
_PRIVATE: Final = (
    "_SyncObj__commandsQueue",
    "_SyncObj__conf",
    "_SyncObj__lastResponseTime",
    "_SyncObj__newAppendEntriesTime",
    "_SyncObj__raftCommitIndex",
    "_SyncObj__raftCurrentTerm",
    "_SyncObj__raftElectionDeadline",
    "_SyncObj__raftLastApplied",
    "_SyncObj__raftLog",
    "_SyncObj__raftMatchIndex",
    "_SyncObj__raftNextIndex",
    "_SyncObj__serializer",
    "_poller",
)

CoreMessage = dict[str, Any]


class _Ambient:
    """The clock and the dice of the group that is being called."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rng = random.Random(0)

    def read_clock(self) -> float:
        self.now += _CLOCK_STEP
        return self.now

    def random(self) -> float:
        return self.rng.random()


def _check_library() -> None:
    if VERSION != EXPECTED_VERSION:
        raise RuntimeError(f"PySyncObj {EXPECTED_VERSION} is required, found {VERSION}")
    missing = [name for name in _MODULE_NAMES if not hasattr(library, name)]
    missing += [name for name in _METHODS if not hasattr(library.SyncObj, name)]
    for journal in (Journal, LogJournal):
        missing += [name for name in _JOURNAL if not hasattr(journal, name)]
    if missing:
        raise RuntimeError(f"PySyncObj lacks {', '.join(missing)}")


_check_library()
_AMBIENT: Final = _Ambient()
library.monotonicTime = _AMBIENT.read_clock
library.random = _AMBIENT
library.createJournal = lambda journal: journal


class _PeerNode(int, Node):  # type: ignore[misc]  # the library has no types
    """A node is its number: it hashes and compares as that, without a call in Python each time.
    Sets of nodes have the same order everywhere."""

    def __init__(self, node_id: NodeId) -> None:
        Node.__init__(self, node_id)

    __hash__ = int.__hash__
    __eq__ = int.__eq__
    __ne__ = int.__ne__
    __str__ = int.__repr__
    __repr__ = int.__repr__


class _Pipe(Transport):  # type: ignore[misc]
    """Hands the library's messages to a function and others' messages to the library."""

    def __init__(self, send: Callable[[NodeId, CoreMessage], None]) -> None:
        super().__init__(None, None, [])
        self._send = send

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: _PeerNode, message: CoreMessage) -> bool:
        self._send(node.id, message)
        return True

    def receive(self, node: _PeerNode, message: CoreMessage) -> None:
        self._onMessageReceived(node, message)

    def connected(self, node: _PeerNode) -> None:
        self._onNodeConnected(node)

    def disconnected(self, node: _PeerNode) -> None:
        self._onNodeDisconnected(node)


class _NoSnapshots:
    """In place of the library's snapshot writer, which pickles."""

    def checkSerializing(self) -> tuple[int, None]:
        return SERIALIZER_STATE.NOT_SERIALIZING, None

    def getTransmissionData(self, _node: _PeerNode) -> None:
        return None

    def cancelTransmisstion(self, _node: _PeerNode) -> None:
        return None


class _NoPoller:
    def poll(self, _timeout: float) -> None:
        return None


class _SyncObj(library.SyncObj):  # type: ignore[misc]
    """The library without its state machine, which unpickles."""

    def _SyncObj__doApplyCommand(self, _command: bytes) -> None:
        raise AssertionError("nothing is applied in here")

    def _SyncObj__applyLogEntries(self) -> bool:
        """Called by the library in each round, behind the commit index. What it would apply is
        handed out by `Delivery`; here it counts as applied."""
        self._SyncObj__raftLastApplied = self._SyncObj__raftCommitIndex
        return False

    # The library asks these many times a round, each time by making a tuple of an entry, or a slice
    # of the log: the same answers out of the log itself.

    def _SyncObj__getCurrentLogIndex(self) -> int:
        log: LogView = self._SyncObj__raftLog.log
        return log.last_index

    def _SyncObj__getPrevLogIndexTerm(self, next_index: int) -> tuple[int | None, int | None]:
        log: LogView = self._SyncObj__raftLog.log
        term = log.term_at(next_index - 1)
        return (None, None) if term is None else (next_index - 1, term)

    def _SyncObj__getEntries(
        self, from_index: int | None, count: int | None = None, bytes_max: int | None = None
    ) -> Any:
        journal: LogJournal = self._SyncObj__raftLog
        if count == 1 and from_index is not None:
            slot = from_index - journal.log.base_index
            return [journal[slot]] if 0 <= slot < len(journal) else []
        return super()._SyncObj__getEntries(from_index, count, bytes_max)


class Core:
    """The consensus engine of one group. `enter` comes before every other call of an event."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        members: Sequence[NodeId],
        log: LogView,
        rng: random.Random,
        settings: RaftSettings,
        send: Callable[[NodeId, CoreMessage], None],
    ) -> None:
        """`send` is called from inside the other methods."""
        self._rng = rng
        self._nodes = {member: _PeerNode(member) for member in sorted(members)}
        self._pipe = _Pipe(send)
        self._connected: set[NodeId] = set()
        """Those that the library takes for connected."""
        self.state = 0
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,
            raftMinTimeout=settings.election_min,
            raftMaxTimeout=settings.election_max,
            appendEntriesPeriod=settings.heartbeat,
            leaderFallbackTimeout=settings.leader_fallback,
            appendEntriesBatchSizeBytes=settings.append_batch_bytes,
            connectionTimeout=settings.election_max * 10,
            commandsWaitLeader=False,
            dynamicMembershipChange=False,
            journalFile=LogJournal(log, settings.append_entries_max),
            logCompactionMinEntries=_NEVER,
            logCompactionMinTime=_NEVER,
            useFork=False,
            onStateChanged=self._on_state,
        )
        self.enter(0.0)
        others = [node for member, node in self._nodes.items() if member != node_id]
        self._sync: Any = _SyncObj(self._nodes[node_id], others, conf, transport=self._pipe)
        missing = [name for name in _PRIVATE if not hasattr(self._sync, name)]
        if missing:
            raise RuntimeError(f"PySyncObj lacks {', '.join(missing)}")
        self._sync._SyncObj__serializer = _NoSnapshots()
        self._sync._poller = _NoPoller()
        self._sync._SyncObj__raftLastApplied = log.commit_index

    @property
    def is_leader(self) -> bool:
        return self.state == 2

    @property
    def is_candidate(self) -> bool:
        return self.state == 1

    @property
    def term(self) -> Term:
        term: Term = self._sync._SyncObj__raftCurrentTerm
        return term

    @property
    def commit_index(self) -> LogIndex:
        commit_index: LogIndex = self._sync._SyncObj__raftCommitIndex
        return commit_index

    @property
    def leader(self) -> NodeId | None:
        node = self._sync._getLeader()
        return None if node is None else NodeId(node.id)

    @property
    def queue_length(self) -> int:
        """Proposals that are not in the log."""
        return len(self._sync._SyncObj__commandsQueue._FastQueue__queue)

    def enter(self, now: float) -> None:
        """Whatever is called next happens at `now` (seconds) and with this group's randomness."""
        _AMBIENT.now = now
        _AMBIENT.rng = self._rng

    def tick(self, *, flush: bool) -> None:
        """One round of the engine: election, commit index, heartbeats. `flush` sends now."""
        sync = self._sync
        if flush:
            sync._SyncObj__newAppendEntriesTime = 0
        sync.doTick()

    def receive(self, sender: NodeId, message: CoreMessage) -> None:
        self._pipe.receive(self._nodes[sender], message)

    def show_ack(self, peer: NodeId, log_index: LogIndex) -> None:
        """Count what `peer` acknowledged earlier; it is no sign of life."""
        times = self._sync._SyncObj__lastResponseTime
        node = self._nodes[peer]
        before = times.get(node)
        self.receive(peer, next_node_idx(LogIndex(log_index + 1), success=True, reset=False))
        if before is not None:
            times[node] = before

    def count_as_heard(self) -> None:
        """A leader begins to wait for its peers' answers now."""
        times = self._sync._SyncObj__lastResponseTime
        times.update(dict.fromkeys(times, _AMBIENT.now))

    def propose(self, payload: bytes) -> None:
        """Append to the leader's log."""
        self._sync._applyCommand(payload, None)
        self._sync._checkCommandsToApply()

    def connect(self, peer: NodeId) -> None:
        if peer not in self._connected:
            self._connected.add(peer)
            self._pipe.connected(self._nodes[peer])

    def disconnect(self, peer: NodeId) -> None:
        """Also ends a loop that is sending to `peer`."""
        self._connected.discard(peer)
        self._pipe.disconnected(self._nodes[peer])

    def next_index(self, peer: NodeId) -> LogIndex:
        return LogIndex(self._sync._SyncObj__raftNextIndex[self._nodes[peer]])

    def raise_next_index(self, peer: NodeId, log_index: LogIndex) -> None:
        """Never send again what is below `log_index`, unless the peer asks for it."""
        indexes = self._sync._SyncObj__raftNextIndex
        node = self._nodes[peer]
        indexes[node] = max(indexes[node], log_index)

    def fall_back_after(self, seconds: float) -> None:
        """A leader that no quorum answers for so long steps down."""
        self._sync._SyncObj__conf.leaderFallbackTimeout = seconds

    def election_due(self, now: float) -> bool:
        return bool(self._sync._SyncObj__raftElectionDeadline < now)

    @property
    def handover_pending(self) -> bool:
        """The leader has asked this node to take over."""
        return bool(self._sync._SyncObj__raftElectionDeadline == 0)

    def postpone_election(self, now: float) -> None:
        timeout: float = self._sync._SyncObj__generateRaftTimeout()
        self._sync._SyncObj__raftElectionDeadline = now + timeout

    def campaign(self) -> None:
        """Raise the term and ask for votes, if any peer can be sent to."""
        self._sync._SyncObj__raftElectionDeadline = -1.0
        self.tick(flush=False)

    def transfer_leadership(self, to: NodeId) -> None:
        self._sync.transferLeadership(self._nodes[to])

    def step_down(self, term: Term, seen_at: NodeId) -> None:
        """Follow a newer term: as a candidate's request that cannot be granted."""
        message = {
            "type": "request_vote",
            "term": term,
            "last_log_term": -1,
            "last_log_index": 0,
        }
        self.receive(seen_at, message)

    def _on_state(self, _old: int, new: int) -> None:
        self.state = new


def next_node_idx(next_index: LogIndex, *, success: bool, reset: bool) -> CoreMessage:
    return {
        "type": "next_node_idx",
        "next_node_idx": next_index,
        "success": success,
        "reset": reset,
    }
