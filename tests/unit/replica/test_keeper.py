"""Records expire, deleted streams are purged and empty ones deleted when that is due."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest

from svc_cluster.base.ids import Generation, NodeId, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.base.log_ops import CreateReplica
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.model.record import StoredBatch
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, Retention
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Tick
from svc_cluster.replica import keeper
from svc_cluster.replica.append import Decision
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.keeper import StreamKeeper
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from svc_cluster.stream import keys, retention
from svc_cluster.stream.rows import StreamState
from tests.memory_store import MemoryStore
from tests.unit.raft.harness import GROUP, Node
from tests.unit.replica.test_group import NoPeers
from tests.unit.storage.fakes import FakeDisk
from tests.unit.stream.support import batch

ONE = NodeId(1)
RETENTION_S = 100


def _scheduled(keeper: StreamKeeper) -> int:
    """Streams that have a due time."""
    return len(keeper._timetable) + len(keeper._soon)


class ManualClock:
    """Both clocks, in the test's hands."""

    def __init__(self) -> None:
        self.seconds = 10.0
        self.wall_offset_ms = 0

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(1_000_000 + self.wall_offset_ms + round(self.seconds * 1000))


class Rig:
    """A basin's only replica over a real log; `live` lets time pass."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.disk = FakeDisk()
        self.store = MemoryStore(loop, random.Random(1))
        wal = Wal.open(self.disk, 1, WalSettings(segment_bytes=1 << 22))
        wal.append(GROUP, [CreateReplica(Generation(1))], None)
        services = GroupServices(
            node_id=ONE,
            loop=loop,
            clock=self.clock,
            wal=wal,
            store=self.store,
            peers=NoPeers(),
            log=get_logger("test"),
        )
        record = BasinRecord("basin-one", GROUP, (ONE,), BasinConfig(), TimestampMs(1))
        self.basin = BasinReplica(
            make_engine=self._engine,
            generation=Generation(1),
            services=services,
            record=lambda: record,
            on_sealed=lambda sealed: None,
            on_snapshot_wanted=lambda peer: None,
            on_fault=lambda fault: pytest.fail(str(fault)),
        )

    @staticmethod
    def _engine(applied_index: int) -> EngineGroup:
        return Node(1, [1]).group

    async def live(self, seconds: float) -> None:
        """Time passes, half a second at a time, as housekeeping has it."""
        for _ in range(round(seconds * 2)):
            self.clock.seconds += 0.5
            self.basin.group.step(Tick(self.clock.seconds))
            self.basin.keeper.work()
            await self.settle()

    async def settle(self) -> None:
        """Everything that can happen without time does."""
        for _ in range(8):
            await asyncio.sleep(0)
            self.disk.run()

    async def until(self, holds: Callable[[], bool]) -> None:
        """The keeper's own turns go by the loop's timers, which are real."""
        async with asyncio.timeout(30):
            while not holds():
                self.basin.keeper.work()
                await asyncio.sleep(0.001)
                self.disk.run()

    async def ready(self) -> Rig:
        await self.live(2)
        self.basin.reconcile()
        await self.settle()
        assert self.basin.state.basin is not None
        return self

    async def change(self, sequence: Decision) -> None:
        failures: list[object] = []
        self.basin.appender.change(sequence, 1e9, lambda outcome, error: failures.append(error))
        await self.settle()
        assert failures == [None]

    async def create(self, name: str, *, age_s: int | None = RETENTION_S, empty_s: int = 0) -> None:
        config = PartialStreamConfig(
            retention=Retention(age_s), delete_on_empty_min_age_seconds=empty_s
        )
        sequencer = self.basin.sequencer
        await self.change(lambda now_ms: sequencer.create_stream(name, config, now_ms))

    async def append(self, name: str, given: StoredBatch | None = None) -> None:
        failures: list[object] = []
        self.basin.appender.append(
            name, given or batch(1), None, None, 1e9, lambda ack, error: failures.append(error)
        )
        await self.settle()
        assert failures == [None]

    async def delete(self, name: str) -> None:
        await self.change(lambda now_ms: self.basin.sequencer.delete_stream(name, now_ms))

    def stream(self, name: str) -> StreamState | None:
        return self.basin.state.stream_by_name(name)

    def trim_point(self, name: str) -> int:
        stream = self.stream(name)
        assert stream is not None
        return stream.trim_point


def played(body: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(body())


def test_records_expire_within_a_second_of_their_age_and_not_before() -> None:
    """Each batch by its own arrival; the stream is not looked at in between."""

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s")
        await rig.append("s")
        await rig.live(10)
        await rig.append("s")
        await rig.live(RETENTION_S - 11)
        assert rig.trim_point("s") == 0
        await rig.live(2)
        assert rig.trim_point("s") == 1
        await rig.live(8)
        assert rig.trim_point("s") == 1
        await rig.live(2)
        assert rig.trim_point("s") == 2
        assert _scheduled(rig.basin.keeper) == 0, "nothing is due of an empty stream"

    played(body)


def test_many_streams_expire_together() -> None:
    """A thousand streams of one age: all are empty soon after it, however many a turn looks at."""

    async def body() -> None:
        rig = await Rig().ready()
        names = [f"s{number}" for number in range(1000)]
        for name in names:
            await rig.create(name)
            await rig.append(name)
        rig.clock.seconds += RETENTION_S + 1
        await rig.until(lambda: all(rig.trim_point(name) == 1 for name in names))

    played(body)


def test_a_long_backlog_expires_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one step does not cover is not left until the next round of anything."""
    monkeypatch.setattr(retention, "RETENTION_STEP_BATCHES_MAX", 2)

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s")
        for _ in range(20):
            await rig.append("s")
        rig.clock.seconds += RETENTION_S + 1
        await rig.until(lambda: rig.trim_point("s") == 20)

    played(body)


def test_a_deleted_stream_is_purged_after_its_time_and_its_name_is_free() -> None:
    """It is shown as being deleted for a moment, not for a minute."""

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s")
        await rig.append("s")
        await rig.delete("s")
        await rig.live(keeper.PURGE_SECONDS - 1)
        stream = rig.stream("s")
        assert stream is not None
        assert stream.deleted_at_ms is not None
        await rig.live(2)
        assert rig.stream("s") is None
        assert _scheduled(rig.basin.keeper) == 0
        await rig.create("s")
        assert rig.stream("s") != stream

    played(body)


@pytest.mark.parametrize("step_ms", [-900_000, -2_000])
def test_a_clock_that_goes_back_keeps_no_deleted_stream(step_ms: int) -> None:
    """The wait before the purge goes on by a clock that does not."""

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s")
        await rig.delete("s")
        await rig.live(3)
        assert rig.stream("s") is not None
        rig.clock.wall_offset_ms += step_ms
        await rig.live(keeper.PURGE_SECONDS + 0.5)
        assert rig.stream("s") is None

    played(body)


def test_a_stream_is_deleted_when_it_has_been_empty_for_its_minimum_age() -> None:
    """Not while it has records, and from the last append on."""

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s", age_s=20, empty_s=30)
        await rig.live(10)
        await rig.append("s")
        await rig.live(28)
        stream = rig.stream("s")
        assert stream is not None
        assert (stream.trim_point, stream.deleted_at_ms) == (1, None)
        await rig.live(3)
        stream = rig.stream("s")
        assert stream is not None
        assert stream.deleted_at_ms is not None
        await rig.live(keeper.PURGE_SECONDS + 1)
        assert rig.stream("s") is None

    played(body)


def test_a_new_leader_works_out_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are in memory: those of streams of long ago are found again, page by page."""
    monkeypatch.setattr(keeper, "STREAMS_PER_TURN", 3)

    async def body() -> None:
        rig = await Rig().ready()
        names = [f"s{number:02}" for number in range(20)]
        for name in names:
            await rig.create(name)
            await rig.append(name)
        await rig.delete("s07")
        rig.basin.keeper.leadership_changed()
        assert _scheduled(rig.basin.keeper) == 0
        rig.clock.seconds += RETENTION_S + 1
        alive = [name for name in names if name != "s07"]
        await rig.until(lambda: all(rig.trim_point(name) == 1 for name in alive))
        await rig.until(lambda: rig.stream("s07") is None)

    played(body)


def test_records_that_never_expire_cost_nothing() -> None:
    """Appends to a stream of endless retention put nothing on the timetable."""

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s", age_s=None)
        await rig.live(1)
        for _ in range(5):
            await rig.append("s")
        assert _scheduled(rig.basin.keeper) == 0

    played(body)


def test_nothing_expires_where_a_batch_is_missing_and_that_is_told() -> None:
    """Others have the batch; the replica is to be repaired by them, not to decide for them."""

    async def body() -> None:
        rig = await Rig().ready()
        await rig.create("s")
        for _ in range(3):
            await rig.append("s")
        stream = rig.stream("s")
        assert stream is not None
        gone = WriteSet()
        gone.delete(keys.batch_key(stream.stream_id, 1))
        rig.store.write(gone.prefixed(generation_prefix(Generation(1))))
        reasons: list[str] = []
        rig.basin.group.on_diverged = reasons.append
        await rig.live(RETENTION_S + 2)
        assert rig.trim_point("s") == 0
        assert len(reasons) == 1
        assert "are missing" in reasons[0]

    played(body)
