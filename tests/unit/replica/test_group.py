"""One replica of a group of one, over a real log and a store that can stall or break."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import Generation, GroupId, NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.log_ops import CreateReplica
from svc_cluster.base.write_set import WriteSet
from svc_cluster.raft.group import Tick
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.group import GroupReplica, Services
from svc_cluster.replica.machine import BasinMachine
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.storage.memory_store import MemoryStore
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.wal.settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from svc_cluster.stream.state import BasinState
from tests.unit.raft.harness import GROUP, Node, payload
from tests.unit.storage.fakes import FakeDisk

ONE = NodeId(1)
GENERATION = Generation(1)


class FaultyStore(MemoryStore):
    """`fault`, while it is set, is what every write raises."""

    fault: Exception | None = None

    def write(self, write_set: WriteSet) -> None:
        if self.fault is not None:
            raise self.fault
        super().write(write_set)


class NoPeers:
    """The network of a cluster of one."""

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        raise AssertionError("a group of one has no peers")


class Rig:
    """The replica, and time and disk in the test's hands."""

    def __init__(self, *, read_before_state: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.faults: list[BaseException] = []
        self.disk = FakeDisk()
        self.store = FaultyStore(loop, random.Random(1))
        wal = Wal.open(self.disk, 1, WalSettings(segment_bytes=1 << 22))
        wal.append(GROUP, [CreateReplica(GENERATION)], None)
        services = Services(
            node_id=ONE,
            loop=loop,
            clock=SystemClock(),
            wal=wal,
            store=self.store,
            peers=NoPeers(),
            log=get_logger("test"),
        )
        self.group = GroupReplica(
            engine=Node(1, [1]).group,
            machine=BasinMachine(BasinState(PrefixedReader(self.store, GENERATION))),
            generation=GENERATION,
            services=services,
            on_applied=lambda plan: None,
            on_leadership=lambda: None,
            on_snapshot_wanted=lambda peer: None,
            on_fault=self.faults.append,
            read_before_state=read_before_state,
        )
        self._now = 10.0

    async def settle(self) -> None:
        """Let some ticks pass, with everything they bring about."""
        for _ in range(10):
            self._now += 0.3
            self.group.step(Tick(self._now))
            for _ in range(5):
                await asyncio.sleep(0)
                self.disk.run()

    async def serving(self) -> Rig:
        await self.settle()
        assert self.group.is_serving
        return self


def played(body: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(body())


@pytest.mark.parametrize("repaired", [True, False])
def test_a_read_waits_for_the_state_store_not_for_the_commit_index(repaired: bool) -> None:
    """An entry is committed and the store has not taken it yet: a read that began after it is not
    answered before it is in the store (the state-applied rule of H4)."""

    async def body() -> None:
        rig = await Rig(read_before_state=not repaired).serving()
        rig.store.fault = StoreStalledError("the store is stalled")
        at = rig.group.propose(payload("x"), 1e9, lambda outcomes, error: None)
        await rig.settle()
        assert rig.group.engine.commit_index == at
        assert rig.group.applied_index < at
        answers: list[ServiceError | None] = []
        rig.group.linearize(answers.append)
        await rig.settle()
        assert (answers == []) is repaired
        rig.store.fault = None
        async with asyncio.timeout(5):
            while rig.group.applied_index < at:
                await asyncio.sleep(0.001)
        assert answers == [None]
        assert rig.faults == []

    played(body)


def test_a_failed_apply_ends_the_replica_instead_of_leaving_it_behind() -> None:
    """An exception out of apply reports the fault exactly once and answers who waits: the process
    is then ended and recovers from its log, where it would otherwise go on for ever with a state
    that stands still."""

    async def body() -> None:
        rig = await Rig().serving()
        rig.store.fault = OSError(5, "the store cannot be written")
        errors: list[ServiceError | None] = []
        rig.group.propose(payload("x"), 1e9, lambda outcomes, error: errors.append(error))
        await rig.settle()
        assert rig.faults == [rig.store.fault]
        assert rig.group.stopped
        assert [error is not None and error.may_have_taken_effect for error in errors] == [True]

    played(body)
