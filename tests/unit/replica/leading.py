"""One replica of three, whole, with the two others in the test's hands."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.base.log_ops import CreateReplica, LogEntry, RecoveredLog
from svc_cluster.model.record import AppendAck, StoredBatch
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Message, PeerUp, Role, Tick
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    PeerMessage,
    PreVoteResponse,
    VoteGranted,
)
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from tests.memory_store import MemoryStore
from tests.unit.storage.fakes import FakeDisk
from tests.unit.stream.support import BASIN, NOW, batch

GROUP = GroupId(7)
GENERATION = Generation(1)
ME = NodeId(1)
OTHERS = (NodeId(2), NodeId(3))
STREAM = "s"
FAR = 1e12
"""A deadline that is never over: monotonic seconds."""

Answer = tuple[AppendAck | None, ServiceError | None]


class _Peers:
    def __init__(self) -> None:
        self.sent: list[tuple[NodeId, PeerMessage]] = []
        self.on_sent: Callable[[PeerMessage], None] = lambda message: None

    held_bytes = 0

    def names(self, feature: str, peer: NodeId) -> bool:
        return False

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        self.sent.append((peer, message))
        self.on_sent(message)


class Rig:
    """Node 1. Its own disk syncs whenever the test settles; nothing is acknowledged by itself."""

    def __init__(self, clock: Clock | None = None, segment_bytes: int = 1 << 22) -> None:
        loop = asyncio.get_running_loop()
        self.disk = FakeDisk()
        self.peers = _Peers()
        self.faults: list[BaseException] = []
        wal = Wal.open(self.disk, 1, WalSettings(segment_bytes=segment_bytes))
        wal.append(GROUP, [CreateReplica(GENERATION)], None)
        self.replica = BasinReplica(
            make_engine=self._engine,
            generation=GENERATION,
            services=GroupServices(
                node_id=ME,
                loop=loop,
                clock=SystemClock() if clock is None else clock,
                wal=wal,
                store=MemoryStore(loop, random.Random(1)),
                peers=self.peers,
                log=get_logger("test"),
            ),
            record=lambda: None,
            on_sealed=lambda record: None,
            on_snapshot_wanted=lambda peer: None,
            on_fault=self.faults.append,
        )
        self.group = self.replica.group
        self.now = 10.0
        for peer in OTHERS:
            self.group.step(PeerUp(peer))
        self.group.step(Tick(self.now))

    def _engine(self, applied_index: LogIndex) -> EngineGroup:
        return EngineGroup(
            group_id=GROUP,
            node_id=ME,
            members=[ME, *OTHERS],
            recovered=RecoveredLog(GROUP, GENERATION),
            applied_index=applied_index,
            rng=random.Random(1),
            settings=RaftSettings(),
        )

    @property
    def term(self) -> Term:
        return self.group.engine.term

    async def settle(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)
            self.disk.run()

    async def hear(self, sender: int, body: PeerMessage) -> None:
        self.group.step(Message(NodeId(sender), body))
        await self.settle()

    async def lead(self) -> None:
        """Win an election by the vote of node 3. Nothing of the new term is committed yet."""
        self.now += RaftSettings().election_max + 0.05
        self.group.step(Tick(self.now))
        await self.settle()
        next_term = Term(self.term + 1)
        await self.hear(3, PreVoteResponse(self.term, next_term, granted=True))
        await self.hear(3, VoteGranted(next_term))
        assert self.group.engine.role is Role.LEADER

    async def answer(self, *, up_to: LogIndex | None = None) -> None:
        """Node 3 answers the last message it was sent, and has the log up to there (by default all
        of it)."""
        sequence = max(
            body.read_sequence
            for peer, body in self.peers.sent
            if peer == NodeId(3) and isinstance(body, AppendRequest)
        )
        have = self.group.engine.last_index if up_to is None else up_to
        await self.hear(3, AppendResponse(self.term, LogIndex(have + 1), True, False, sequence))

    async def serving(self, *streams: str) -> Rig:
        """Lead, and have a basin with these streams (by default one), all of it committed."""
        await self.lead()
        await self.answer()
        sequencer = self.replica.sequencer
        await self.change(lambda now_ms: sequencer.bootstrap(BASIN, BasinConfig(), NOW))
        for name in streams or (STREAM,):
            await self.change(partial(sequencer.create_stream, name, None))
        assert self.group.is_serving
        return self

    async def change(self, decision: Callable[[TimestampMs], Any]) -> None:
        """Have a change of the basin committed."""
        done: list[Any] = []
        self.replica.appender.change(decision, FAR, lambda *result: done.append(result))
        await self.settle()
        await self.answer()
        assert done
        assert done[0][1] is None

    def submit(
        self,
        match_seq_num: int | None = None,
        deadline: float = FAR,
        *,
        of: StoredBatch | None = None,
        requests: int = 1,
    ) -> list[Answer]:
        """Queue a batch, of one record unless it is given; what it is answered appears in the
        list."""
        answers: list[Answer] = []
        self.replica.appender.append(
            STREAM,
            batch() if of is None else of,
            match_seq_num,
            None,
            deadline,
            lambda ack, error: answers.append((ack, error)),
            requests=requests,
        )
        return answers

    async def append(self, match_seq_num: int | None = None, deadline: float = FAR) -> list[Answer]:
        """The same, and let it be proposed."""
        answers = self.submit(match_seq_num, deadline)
        await self.settle()
        return answers

    async def follow(self, leader: int, *payloads: bytes, behind: int, commit_index: int) -> None:
        """Another node leads the next term, and puts its entries behind the index `behind`."""
        engine = self.group.engine
        term = Term(self.term + 1)
        previous_term = engine.term_at(LogIndex(behind))
        assert previous_term is not None
        entries = tuple(
            LogEntry(LogIndex(index), term, payload)
            for index, payload in enumerate(payloads, start=behind + 1)
        )
        await self.hear(
            leader,
            AppendRequest(
                term, LogIndex(behind), previous_term, LogIndex(commit_index), entries, 1
            ),
        )
        assert engine.role is Role.FOLLOWER


def played(body: Callable[[Rig], Coroutine[None, None, None]]) -> None:
    """Run `body` with a replica that serves."""

    async def main() -> None:
        rig = await Rig().serving()
        await body(rig)
        assert rig.faults == []

    asyncio.run(main())
