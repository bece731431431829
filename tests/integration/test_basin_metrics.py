"""What a node's page says of single basins: which are named, what is counted, and what it costs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from svc_cluster.base.basin_families import OTHER, BasinRow
from svc_cluster.base.ids import GroupId
from svc_cluster.cli.processes.basin_rows import BasinRows
from svc_cluster.settings_bounds import METRICS_BASINS
from tests.integration.conversation import Pair, pair
from tests.integration.test_memory import append, metrics_of
from tests.turn_bound import TURN_BOUND_SECONDS

MANY = 1_000
NAMED = METRICS_BASINS[1]
ATTEMPTS = 5


def by_name(rows: list[BasinRow]) -> dict[str, BasinRow]:
    found = {row.name: row for row in rows}
    assert len(found) == len(rows), "each name has one row"
    return found


async def basins(two: Pair, *names: str) -> list[GroupId]:
    """Basins with a stream `s` each, in the order in which they were made."""
    for name in names:
        await two.stream(name, "s")
    host = two.node.host
    found = {
        basin.state.basin.name: group for group, basin in host.basins.items() if basin.state.basin
    }
    return [found[name] for name in names]


def test_a_basin_has_its_own_counts_and_the_page_has_its_name(tmp_path: Path) -> None:
    """Two appends and a read of one basin, one append of another: each has what was its own, and
    the sample of the page is that."""

    async def main() -> None:
        async with pair(tmp_path) as two:
            first, second = await basins(two, "basin-one", "basin-two")
            for group in (first, first, second):
                assert (await append(two, group, 1000)).WhichOneof("result") == "append"
            await two.client.check_tail("basin-one", "s")
            metrics, shown, reads = metrics_of(two, tmp_path)
            shown.expose()

            def value(name: str, basin: str) -> float | None:
                return metrics.registry.get_sample_value(name, {"basin": basin})

            for basin, appends in (("basin-one", 2), ("basin-two", 1)):
                assert value("svc_basin_appends_total", basin) == appends
                assert value("svc_basin_appended_records_total", basin) == appends
                bytes_of = value("svc_basin_appended_bytes_total", basin) or 0
                assert 1000 * appends <= bytes_of < 1100 * appends
                assert value("svc_basin_streams", basin) == 1
                assert value("svc_basin_stored_bytes", basin) == bytes_of
                assert value("svc_basin_led", basin) == 1
                count = value("svc_basin_commit_duration_seconds_count", basin) or 0
                seconds = value("svc_basin_commit_duration_seconds_sum", basin) or 0
                assert count >= appends
                assert 0 < seconds < 60
            assert value("svc_basin_appends_total", OTHER) is None
            reads.close()

    asyncio.run(main())


def test_so_many_basins_are_named_and_the_others_are_one_row(tmp_path: Path) -> None:
    """The two that came first have their names. What the third counted stays with the others when
    it gets a name of its own because one has gone, so that no counter falls."""

    async def main() -> None:
        async with pair(tmp_path) as two:
            names = ("basin-one", "basin-two", "basin-three")
            groups = await basins(two, *names)
            here = dict(two.node.host.basins)
            rows = BasinRows(lambda: here, 2)
            for group in groups:
                await append(two, group, 100)
            found = by_name(rows.rows())
            assert found.keys() == {"basin-one", "basin-two", OTHER}
            assert [found[name].counts.appends for name in found] == [1, 1, 1]
            assert (found[OTHER].led, found[OTHER].streams) == (1, 1)
            del here[groups[0]]
            await append(two, groups[2], 100)
            found = by_name(rows.rows())
            assert found.keys() == {"basin-two", "basin-three", OTHER}
            assert found["basin-three"].counts.appends == 1, "the one since the look before"
            assert found[OTHER].counts.appends == 1
            assert found[OTHER].led == 0
            assert by_name(BasinRows(lambda: here, 0).rows()).keys() == {OTHER}

    asyncio.run(main())


def test_no_step_of_the_page_keeps_the_loop(tmp_path: Path) -> None:
    """With a thousand basins, as many of them named as may be, each step stays below the bound of a
    turn in at least one of a few attempts."""

    async def main() -> float:
        async with pair(tmp_path) as two:
            await basins(two, "basin-one")
            host = two.node.host
            (one,) = host.basins.values()
            many = {GroupId(1000 + number): one for number in range(MANY)}
            metrics, shown, reads = metrics_of(two, tmp_path)
            metrics.basins_by_name.rows = BasinRows(lambda: many, NAMED).rows
            longest: list[float] = []
            for _ in range(ATTEMPTS):
                steps = shown.expose_steps()
                turns: list[float] = []
                page = b""
                while not page:
                    begun = time.thread_time()
                    try:
                        next(steps)
                    except StopIteration as done:
                        page = done.value
                    turns.append(time.thread_time() - begun)
                assert page.count(b"svc_basin_appends_total{") == NAMED + 1
                longest.append(max(turns))
            reads.close()
            return min(longest)

    assert asyncio.run(main()) < TURN_BOUND_SECONDS
