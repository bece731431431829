"""One replica of a group of one, over a real log and a store that can stall or break."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.errors import ServiceError, UnavailableError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, StreamId, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.base.log_ops import CreateReplica, LogEntry
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.stream_config import BasinConfig, StreamConfig
from svc_cluster.raft.group import Tick
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica import group_turns
from svc_cluster.replica.faults import NodeFaultError, ends_the_process
from svc_cluster.replica.group_replica import GroupReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.machine import Planning, basin_machine
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from svc_cluster.stream.apply import Plan
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import BasinCommand, Bootstrap, CreateStream
from tests.at_once import encode_entry
from tests.memory_store import MemoryStore
from tests.unit.raft.harness import GROUP, Node
from tests.unit.storage.fakes import FakeDisk

ONE = NodeId(1)
NOTHING = encode_entry([])
"""An entry without a command."""

NEWER = b"\x09\x02" + bytes(1_000)
"""An entry of the next version."""

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

    held_bytes = 0

    def names(self, feature: str, peer: NodeId) -> bool:
        return False

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        raise AssertionError("a group of one has no peers")


class Rig:
    """The replica, and time and disk in the test's hands."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.faults: list[BaseException] = []
        self.disk = FakeDisk()
        self.store = FaultyStore(loop, random.Random(1))
        wal = Wal.open(self.disk, 1, WalSettings(segment_bytes=1 << 22))
        wal.append(GROUP, [CreateReplica(GENERATION)], None)
        services = GroupServices(
            node_id=ONE,
            loop=loop,
            clock=SystemClock(),
            wal=wal,
            store=self.store,
            peers=NoPeers(),
            log=get_logger("test"),
        )
        self.state = BasinState(PrefixedReader(self.store, GENERATION))
        self.group = GroupReplica(
            engine=Node(1, [1]).group,
            machine=basin_machine(self.state),
            generation=GENERATION,
            services=services,
            on_applied=lambda plan: None,
            on_leadership=lambda: None,
            on_snapshot_wanted=lambda peer: None,
            on_fault=self.faults.append,
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


def test_a_read_waits_for_the_state_store_not_for_the_commit_index() -> None:
    """An entry is committed and the store has not taken it yet: a read that began after it is not
    answered before it is in the store (the state-applied rule of H4)."""

    async def body() -> None:
        rig = await Rig().serving()
        rig.store.fault = StoreStalledError("the store is stalled")
        at = rig.group.propose(NOTHING, 1e9, lambda outcomes, error: None)
        await rig.settle()
        assert rig.group.engine.commit_index == at
        assert rig.group.applied_index < at
        answers: list[ServiceError | None] = []
        rig.group.linearize(answers.append)
        await rig.settle()
        assert answers == []
        rig.store.fault = None
        async with asyncio.timeout(5):
            while rig.group.applied_index < at:
                await asyncio.sleep(0.001)
        assert answers == [None]
        assert rig.faults == []

    played(body)


def test_a_failed_apply_ends_the_replica_instead_of_leaving_it_behind() -> None:
    """A store that cannot be written reports the fault exactly once, as the node's, and answers who
    waits: the process is then ended and recovers from its log, where it would otherwise go on for
    ever with a state that stands still."""

    async def body() -> None:
        rig = await Rig().serving()
        rig.store.fault = OSError(5, "the store cannot be written")
        errors: list[ServiceError | None] = []
        rig.group.propose(NOTHING, 1e9, lambda outcomes, error: errors.append(error))
        await rig.settle()
        (fault,) = rig.faults
        assert isinstance(fault, NodeFaultError)
        assert fault.__cause__ is rig.store.fault
        assert ends_the_process(fault)
        assert rig.group.stopped
        assert [error is not None and error.may_have_taken_effect for error in errors] == [True]

    played(body)


def test_a_long_entry_is_worked_out_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between them the state is the one before, whole; then it is the one behind, whole, and
    whoever proposed it is told once."""
    monkeypatch.setattr(group_turns, "COMMANDS_PER_TURN", 4)

    async def body() -> None:
        rig = await Rig().serving()
        worked_out: list[int] = []
        counted = _counted(rig.group.machine.plan, worked_out)
        rig.group.machine.plan = counted  # type: ignore[method-assign, assignment]
        commands: list[BasinCommand] = [Bootstrap("basin-of-many", BasinConfig(), TimestampMs(1))]
        commands += [
            CreateStream(StreamId(n), f"s{n}", StreamConfig(), TimestampMs(1)) for n in range(1, 20)
        ]
        outcomes: list[Plan | None] = []
        before = rig.group.applied_index
        rig.group.propose(encode_entry(commands), 1e9, lambda told, error: outcomes.append(told))
        seen = set()
        for _ in range(200):
            await asyncio.sleep(0)
            rig.disk.run()
            seen.add(len(worked_out))
            if rig.group.applied_index == before:
                assert rig.state.basin is None
                assert outcomes == []
        assert rig.group.applied_index == before + 1
        assert [told and len(told.outcomes) for told in outcomes] == [20]
        steps = sorted(seen)
        assert steps[-1] >= 20
        assert max(b - a for a, b in pairwise(steps)) <= 4, steps

    played(body)


def _counted(
    plan: Callable[[LogEntry], Planning[Plan]], counted: list[int]
) -> Callable[[LogEntry], Planning[Plan]]:
    def counting(entry: LogEntry) -> Planning[Plan]:
        steps = plan(entry)
        while True:
            try:
                done = next(steps)
            except StopIteration as end:
                worked: Plan = end.value
                return worked
            counted.append(done)
            yield done

    return counting


class _Answers:
    """What callers were told."""

    def __init__(self) -> None:
        self.errors: list[ServiceError | None] = []

    def take(self, outcomes: object, error: ServiceError | None) -> None:
        self.errors.append(error)

    def certainly_nothing(self) -> bool:
        return bool(self.errors) and all(
            isinstance(error, UnavailableError) and not error.may_have_taken_effect
            for error in self.errors
        )


def test_a_fault_in_apply_stops_the_group_and_says_so_truthfully() -> None:
    """The write that met it is unknown; reads and writes that come later are refused without
    effect; the state does not move, and the fault is the group's own."""

    async def body() -> None:
        rig = await Rig().serving()
        applied = rig.group.applied_index

        def broken(entry: LogEntry) -> Planning[Plan]:
            raise ZeroDivisionError("planted")

        rig.group.machine.plan = broken  # type: ignore[method-assign]
        proposed, later, reads = _Answers(), _Answers(), _Answers()
        rig.group.propose(NOTHING, 1e9, proposed.take)
        await rig.settle()
        assert [error and error.may_have_taken_effect for error in proposed.errors] == [True]
        (fault,) = rig.faults
        assert isinstance(fault, ZeroDivisionError)
        assert not ends_the_process(fault)
        assert rig.group.fault == "ZeroDivisionError: planted"
        with pytest.raises(UnavailableError):
            rig.group.propose(NOTHING, 1e9, later.take)
        rig.group.linearize(lambda error: reads.take(None, error))
        await rig.settle()
        assert reads.certainly_nothing()
        assert later.errors == []
        assert rig.group.applied_index == applied
        assert len(rig.faults) == 1

    played(body)


def test_a_replica_parks_before_an_entry_of_a_newer_release(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing of it and of what follows is applied, nothing is served, one error line says why and
    where; what is behind it is logged all the same."""

    async def body() -> None:
        rig = await Rig().serving()
        applied = rig.group.applied_index
        proposed, reads = _Answers(), _Answers()
        at = rig.group.propose(NEWER, 1e9, proposed.take)
        rig.group.propose(NOTHING, 1e9, proposed.take)
        rig.group.linearize(lambda error: reads.take(None, error), at_least=at)
        await rig.settle()
        assert rig.group.parked == f"entry {at}: an entry of version 2"
        assert rig.group.applied_index == applied == at - 1
        assert rig.group.engine.durable_index == at + 1
        assert rig.group.parked_bytes == len(NEWER) + len(NOTHING)
        assert not rig.group.is_serving
        assert not rig.group.stopped
        assert reads.certainly_nothing()
        rig.group.linearize(lambda error: reads.take(None, error))
        assert reads.certainly_nothing()
        with pytest.raises(UnavailableError):
            rig.group.propose(NOTHING, 1e9, proposed.take)
        assert proposed.errors == []
        rig.group.sweep(2e9)
        assert [error and error.may_have_taken_effect for error in proposed.errors] == [True, True]
        assert rig.faults == []

    with caplog.at_level("ERROR"):
        played(body)
    assert [record.getMessage() for record in caplog.records] == ["replica_parked"]


def test_a_look_at_an_index_sees_exactly_what_is_applied_with_it() -> None:
    """Now, or in the turn in which that is applied, before the next entry; past it, there is none;
    and only the last one that was asked for."""

    async def body() -> None:
        rig = await Rig().serving()
        group, seen = rig.group, []

        def look() -> None:
            seen.append(group.applied_index)

        at = group.applied_index
        assert group.when_at(at, look)
        assert seen == [at]
        assert not group.when_at(LogIndex(at - 1), look)
        assert group.when_at(LogIndex(at + 1), lambda: seen.append(LogIndex(0)))
        assert group.when_at(LogIndex(at + 2), look)
        for _ in range(5):
            group.propose(NOTHING, 1e9, lambda outcomes, error: None)
        await rig.settle()
        assert group.applied_index == at + 5
        assert seen == [at, at + 2]

    played(body)


def test_whatever_unsettles_a_group_is_counted() -> None:
    """Who has found the group settled needs not ask again until that number differs. Ticks that
    bring nothing leave it as it is."""

    async def body() -> None:
        rig = await Rig().serving()
        group = rig.group
        await rig.settle()
        assert group.is_settled
        stirs = group.stirs
        await rig.settle()
        assert group.is_settled and group.stirs == stirs
        for begin in (
            lambda: group.propose(NOTHING, 1e9, lambda outcomes, error: None),
            lambda: group.linearize(lambda error: None),
            lambda: group.when_at(LogIndex(group.applied_index + 1), lambda: None),
        ):
            await rig.settle()
            found = [(group.is_settled, group.stirs)]
            begin()
            found.append((group.is_settled, group.stirs))
            assert [is_settled for is_settled, _ in found] == [True, False]
            assert found[0][1] != found[1][1]

    played(body)
