"""Reading for the scrub: how much in a turn, how fast, and how much may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.model.content import Chunk, Row, Visit
from svc_cluster.replica.scrub_reader import (
    JOBS_MAX,
    ROW_BYTES_MIN,
    SLICE_BYTES,
    SLICE_SECONDS,
    ScrubReader,
)
from tests.simulation.loop import SimLoop, run

RATE = 1024 * 1024


class Clock:
    """The loop's, on which a look may take time as well."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.taken = 0.0

    def monotonic(self) -> float:
        return self._loop.time() + self.taken

    def wall_ms(self) -> TimestampMs:
        raise AssertionError("no use is made of it")


class View:
    """Counts how it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def get(self, key: bytes) -> bytes | None:
        raise AssertionError("the visits are given")

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        raise AssertionError("the visits are given")

    def close(self) -> None:
        self.closed += 1


class Rig:
    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.clock = Clock(loop)
        self.faults: list[BaseException] = []
        self.turns: list[int] = []
        """Rows of each turn."""
        self._rows = 0
        self.reader = ScrubReader(
            loop,
            self.clock,
            get_logger("test"),
            lambda turn: guarded(lambda: self._counted(turn), self.faults.append),
            RATE,
        )

    def _counted(self, turn: object) -> None:
        assert callable(turn)
        before = self._rows
        turn()
        self.turns.append(self._rows - before)

    def visits(self, count: int, row_bytes: int, seconds: float = 0.0) -> Iterator[Visit]:
        for number in range(count):
            self._rows += 1
            self.clock.taken += seconds
            yield Visit(Row(number.to_bytes(8, "big"), b"h"), row_bytes)


def test_a_turn_ends_with_the_row_that_is_enough_of_bytes_or_of_time() -> None:
    """Small rows count for more than they are."""

    async def main(loop: SimLoop) -> None:
        for row_bytes, seconds, wanted in (
            (50_000, 0.0, 3),
            (1, 0.0, SLICE_BYTES // ROW_BYTES_MIN),
            (10 * SLICE_BYTES, 0.0, 1),
            (1, SLICE_SECONDS * 0.6, 2),
        ):
            rig, done = Rig(loop), loop.create_future()
            rig.reader.read(View(), rig.visits(300, row_bytes, seconds), 2**40, done.set_result)
            await done
            assert set(rig.turns[:-1]) == {wanted}, (row_bytes, seconds)
            assert not rig.faults

    run(main)


def test_the_rate_holds_for_all_that_is_asked_together() -> None:
    """Three chunks of a MiB take three seconds at a MiB a second, to a slice."""

    async def main(loop: SimLoop) -> None:
        rig, begun = Rig(loop), loop.time()
        waiting = []
        for _ in range(3):
            done = loop.create_future()
            rig.reader.read(View(), rig.visits(64, 16 * 1024), 2**40, done.set_result)
            waiting.append(done)
        await asyncio.gather(*waiting)
        assert 3.0 - 2 * SLICE_BYTES / RATE <= loop.time() - begun <= 3.0
        assert rig.reader.read_bytes == 3 * RATE

    run(main)


def test_no_more_waits_than_has_room_and_a_stop_closes_all() -> None:
    """Each holds a view of the store; nobody is told anything behind a stop."""

    async def main(loop: SimLoop) -> None:
        rig = Rig(loop)
        told: list[Chunk | None] = []
        views = [View() for _ in range(JOBS_MAX)]
        for view in views:
            assert not rig.reader.is_full
            rig.reader.read(view, rig.visits(1000, 10_000), 2**40, told.append)
        assert rig.reader.is_full
        await asyncio.sleep(0.5)
        rig.reader.stop()
        await asyncio.sleep(100.0)
        assert [view.closed for view in views] == [1] * JOBS_MAX
        assert told == []
        assert rig.reader.is_full

    run(main)


def test_what_cannot_be_read_ends_alone() -> None:
    """The next one is read; the process and the group go on."""

    async def main(loop: SimLoop) -> None:
        rig, views = Rig(loop), [View(), View()]
        told: list[int | None] = []

        def broken() -> Iterator[Visit]:
            yield Visit(None, 1)
            raise KeyError("a bug")

        def take(chunk: Chunk | None) -> None:
            told.append(None if chunk is None else chunk.rows)

        rig.reader.read(views[0], broken(), 2**40, take)
        rig.reader.read(views[1], rig.visits(5, 1), 2**40, take)
        await asyncio.sleep(10.0)
        assert told == [None, 5]
        assert [view.closed for view in views] == [1, 1]
        assert not rig.faults

    run(main)
