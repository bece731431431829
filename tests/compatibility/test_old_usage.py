"""A directory with more than 31 days of minutes of use goes through the upgrade to version 3."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from tests.compatibility.fleet import Fleet, admin
from tests.compatibility.programs import NOW, Program

BASIN, STREAM = "old-basin", "s"
DAY_S: Final = 86_400
DEADLINE_S: Final = 60.0
CLOCK: Final = SystemClock()
WRITTEN: Final = {-40: 3, -33: 5, -30: 7, -12: 11, 0: 13}
"""Bodies in bytes, by the day that they were appended on."""
SHIFTED: Final = """
import pathlib
from svc_cluster.base.clock import SystemClock
from svc_cluster.replica.formation_rounds import Formation
Formation._begins_at = lambda formation: 0
wall_ms = SystemClock.wall_ms
place = pathlib.Path({place!r})
SystemClock.wall_ms = lambda clock: wall_ms(clock) + int(place.read_text()) * 86_400_000
"""


@dataclass(frozen=True)
class Shifted(Program):
    """A program whose clock is so many days away as a file says when it asks, and whose cluster
    begins at the first version, as clusters of before did."""

    patch: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        own = super().environment
        return {**own, "PYTHONPATH": f"{self.patch}:{own['PYTHONPATH']}"}


def at_day(place: Path, day: int) -> None:
    """Whole at once: processes read it at any time."""
    aside = place.with_suffix(".new")
    aside.write_text(str(day))
    aside.replace(place)


async def by_day(url: str, day: int) -> dict[int, float]:
    """Bytes appended to the basin, by the day from now on which they were, in the 89 days that end
    now by the processes' clock."""
    now = CLOCK.wall_ms() // 1000
    end = now + day * DAY_S
    query = f"set=append-throughput&interval=day&start={end - 89 * DAY_S}&end={end}"
    api = ApiClient(url)
    try:
        answer = await api.http.request("GET", f"/v1/metrics/{BASIN}?{query}", {})
        assert answer.status == 200, answer.body
        found: dict[int, float] = {}
        for one in answer.json()["values"]:
            for at, value in one.get("accumulation", {}).get("values", []):
                near = min(WRITTEN, key=lambda d: abs(now + d * DAY_S - DAY_S / 2 - at))
                found[near] = found.get(near, 0.0) + value
        return found
    finally:
        api.close()


async def append(url: str, size: int) -> None:
    api = ApiClient(url)
    try:

        async def ask() -> Any:
            return await api.append(BASIN, STREAM, [AppendRecord(b"x" * size)])

        await api.insist(CLOCK, ask, accept=frozenset({200}), deadline_s=DEADLINE_S)
    finally:
        api.close()


async def until(url: str, day: int, wanted: dict[int, float]) -> None:
    """Until this is told of the days: gateways report once in a while."""
    end = CLOCK.monotonic() + DEADLINE_S
    while (found := await by_day(url, day)) != wanted:
        assert CLOCK.monotonic() < end, (found, wanted)
        await asyncio.sleep(0.1)


def test_what_was_used_goes_through_the_upgrade(tmp_path: Path) -> None:
    """Counted under version 2 on five days of the last 41, some beyond what version 2 keeps; after
    the finalize, a restart and ten more days all that was kept then is told, by the day."""
    place, patch = tmp_path / "day", tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(SHIFTED.format(place=str(place)))
    at_day(place, min(WRITTEN))
    program = Shifted(NOW.release, NOW.place, patch)

    async def main() -> None:
        fleet = Fleet(tmp_path / "fleet", nodes=1)
        try:
            fleet.start_node(1, program)
            fleet.start_gateway(program)
            await fleet.ready(1)
            api = ApiClient(fleet.url)
            await api.make(CLOCK, BASIN, None, DEADLINE_S)
            await api.make(CLOCK, BASIN, STREAM, DEADLINE_S)
            api.close()
            metered = {day: float(size + 8) for day, size in WRITTEN.items()}
            kept: dict[int, float] = {}
            for day, size in WRITTEN.items():
                at_day(place, day)
                await append(fleet.url, size)
                kept = {d: n for d, n in metered.items() if day - 31 < d <= day}
                await until(fleet.url, day, kept)
            status, told = admin(fleet, 1, program, "upgrade", "finalize", "--yes")
            assert status == 0, told
            await until(fleet.url, 0, kept)
            fleet.stop("node-1")
            at_day(place, 10)
            fleet.start_node(1, program)
            await fleet.ready(1)
            await append(fleet.url, 1)
            later = await by_day(fleet.url, 10)
            assert {day: later[day] for day in (-30, -12)} == {-30: 15.0, -12: 19.0}
        except BaseException:
            print(fleet.log("node-1")[-3000:], fleet.log("gateway")[-3000:])
            raise
        finally:
            fleet.end()

    asyncio.run(main())
