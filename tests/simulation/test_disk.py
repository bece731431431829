"""The simulated disk keeps what it confirmed and nothing that nobody may count on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.simulation.disk import SECTOR, SimDisk, SimFile
from tests.simulation.loop import SimLoop, SimulationError, run


@dataclass
class _Seen:
    events: list[str] = field(default_factory=list)

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.events.append(what)


def test_done_comes_later_and_in_order() -> None:
    """Submissions take time and are confirmed in the order in which they were made."""

    async def main(loop: SimLoop) -> list[str]:
        disk, seen = SimDisk(loop, random.Random(1)), _Seen()
        file = disk.create("log", 4096)
        for number in range(20):
            disk.submit([(file, number, bytes([number]))], seen.note(str(number)))
        assert not seen.events
        await asyncio.sleep(10)
        return seen.events

    assert run(main) == [str(number) for number in range(20)]


def test_confirmed_data_survives_every_crash() -> None:
    """What was durable before the crash is there after it, whatever was under way."""

    async def main(loop: SimLoop) -> None:
        for seed in range(200):
            rng = random.Random(seed)
            disk = SimDisk(loop, rng)
            file = disk.create("log", 64 * SECTOR)
            disk.submit([(file, 0, b"a" * 8 * SECTOR)], lambda: None)
            await asyncio.sleep(2)
            disk.submit([(file, 8 * SECTOR, b"b" * 8 * SECTOR)], lambda: None)
            after = disk.crash(rng).open("log")
            assert after.pread(8 * SECTOR, 0) == b"a" * 8 * SECTOR
            assert after.pread(48 * SECTOR, 16 * SECTOR) == bytes(48 * SECTOR)

    run(main)


def test_unconfirmed_writes_are_torn_at_sectors_in_most_crashes() -> None:
    """All, none, and any subset of sectors occur; a sector is never half written."""

    async def main(loop: SimLoop) -> tuple[int, int, int]:
        torn = whole = lost = 0
        for seed in range(300):
            rng = random.Random(seed)
            disk = SimDisk(loop, rng)
            file = disk.create("log", 64 * SECTOR)
            disk.submit([(file, 100, b"b" * 16 * SECTOR)], lambda: None)
            data = disk.crash(rng).open("log").pread(64 * SECTOR, 0)
            kept = data.count(b"b")
            whole += kept == 16 * SECTOR
            lost += kept == 0
            torn += 0 < kept < 16 * SECTOR
            for at in range(SECTOR, 16 * SECTOR, SECTOR):
                assert data[at : at + SECTOR] in (b"b" * SECTOR, bytes(SECTOR))
        return torn, whole, lost

    torn, whole, lost = run(main)
    assert torn > 100 and whole > 20 and lost > 20


def test_later_submissions_may_arrive_before_earlier_ones() -> None:
    """Within one window there is no order: a caller that relies on it is caught."""

    async def main(loop: SimLoop) -> int:
        reordered = 0
        for seed in range(400):
            rng = random.Random(seed)
            disk = SimDisk(loop, rng)
            file = disk.create("log", 8 * SECTOR)
            other = disk.create("other", 8 * SECTOR)
            disk.submit([(other, 0, b"x")], lambda: None)
            for number in range(8):
                disk.submit([(file, number * SECTOR, b"b" * SECTOR)], lambda: None)
            await asyncio.sleep(0.03)
            data = disk.crash(rng).open("log").pread(8 * SECTOR, 0)
            marks = [data[at : at + 1] == b"b" for at in range(0, 8 * SECTOR, SECTOR)]
            reordered += any(later > earlier for earlier, later in pairwise(marks))
        return reordered

    assert run(main) > 20


def test_a_crashed_disk_calls_nobody_back() -> None:
    """Confirmations of a dead process never fire."""

    async def main(loop: SimLoop) -> list[str]:
        disk, seen = SimDisk(loop, random.Random(1)), _Seen()
        file = disk.create("log", 4096)
        disk.submit([(file, 0, b"a")], seen.note("done"))
        disk.submit_create("next", 4096, lambda _file: seen.events.append("created"))
        disk.crash(random.Random(1))
        disk.submit([(file, 0, b"a")], seen.note("done"))
        await asyncio.sleep(10)
        return seen.events

    assert run(main) == []


def test_a_file_under_way_is_absent_short_or_whole() -> None:
    """An unconfirmed create may leave anything; a confirmed one leaves the file."""

    async def main(loop: SimLoop) -> set[int]:
        sizes = set()
        for seed in range(200):
            rng = random.Random(seed)
            disk = SimDisk(loop, rng)
            disk.submit_create("next", 4 * SECTOR, lambda _file: None)
            after = disk.crash(rng)
            sizes.add(after.open("next").size() if "next" in after.list_names() else -1)
        disk = SimDisk(loop, random.Random(1))
        made: list[SimFile] = []
        disk.submit_create("next", 4 * SECTOR, made.append)
        await asyncio.sleep(2)
        assert made[0].size() == 4 * SECTOR
        assert disk.crash(random.Random(1)).open("next").size() == 4 * SECTOR
        return sizes

    sizes = run(main)
    assert -1 in sizes and 0 in sizes and 4 * SECTOR in sizes and len(sizes) > 3


def test_an_input_output_error_ends_the_process_without_a_word() -> None:
    """A failed sync is never confirmed and nothing is retried."""

    async def main(loop: SimLoop) -> tuple[list[str], list[str]]:
        fatal: list[str] = []
        disk, seen = SimDisk(loop, random.Random(1), on_fatal=fatal.append), _Seen()
        file = disk.create("log", 4096)
        disk.switches.fail_next_sync = True
        disk.submit([(file, 0, b"a")], seen.note("done"))
        disk.submit([(file, 1, b"a")], seen.note("done"))
        await asyncio.sleep(10)
        return seen.events, fatal

    assert run(main) == ([], ["input/output error"])


def test_a_full_disk_says_so() -> None:
    """No byte is free while the switch is on; files in place can still be written."""

    async def main(loop: SimLoop) -> list[str]:
        disk, seen = SimDisk(loop, random.Random(1), capacity_bytes=8192), _Seen()
        file = disk.create("log", 4096)
        assert disk.free_bytes() == 4096
        disk.switches.full = True
        assert disk.free_bytes() == 0
        with pytest.raises(OSError, match="no space"):
            SimDisk(loop, random.Random(1), on_fatal=seen.events.append, capacity_bytes=1).create(
                "more", 4096
            )
        disk.submit([(file, 0, b"a")], seen.note("done"))
        await asyncio.sleep(10)
        return seen.events

    assert run(main) == ["no space left on device", "done"]


def test_bits_flip_and_writes_go_astray_at_rest() -> None:
    """Damage shows in reads and survives a restart."""

    async def main(loop: SimLoop) -> None:
        disk = SimDisk(loop, random.Random(1))
        file = disk.create("log", 4096)
        disk.write_sync([(file, 0, b"abcd")])
        disk.flip("log", 1, bit=0)
        assert file.pread(4, 0) == b"accd"
        disk.misdirect("log", 0, 4, 512)
        assert disk.crash(random.Random(1)).open("log").pread(4, 512) == b"accd"

    run(main)


def test_a_blocking_write_comes_after_what_was_submitted() -> None:
    """`write_sync` carries out the queue first, so that nothing older overwrites it."""

    async def main(loop: SimLoop) -> list[str]:
        disk, seen = SimDisk(loop, random.Random(1)), _Seen()
        file = disk.create("log", 4096)
        for number in range(5):
            disk.submit([(file, 0, b"old")], seen.note(str(number)))
        disk.write_sync([(file, 0, b"new")])
        await asyncio.sleep(10)
        assert disk.crash(random.Random(1)).open("log").pread(3, 0) == b"new"
        return seen.events

    assert run(main) == ["0", "1", "2", "3", "4"]


def test_a_file_closed_under_its_write_is_a_fault() -> None:
    """The operating system would write to whatever has the descriptor by then. Closed behind its
    write it is none, and opened again it takes writes."""

    async def closed_before(loop: SimLoop) -> None:
        disk = SimDisk(loop, random.Random(1))
        file = disk.create("log", 4096)
        disk.submit([(file, 0, b"x")], lambda: None)
        file.close()
        await asyncio.sleep(10)

    async def closed_behind(loop: SimLoop) -> bytes:
        disk = SimDisk(loop, random.Random(1))
        file = disk.create("log", 4096)
        disk.submit([(file, 0, b"x")], lambda: None)
        await asyncio.sleep(10)
        file.close()
        again = disk.open("log")
        disk.submit([(again, 1, b"y")], lambda: None)
        await asyncio.sleep(10)
        return again.pread(2, 0)

    with pytest.raises(SimulationError, match="log was closed under a write to it"):
        run(closed_before)
    assert run(closed_behind) == b"xy"


def test_a_reserved_file_is_there_once_that_is_told() -> None:
    """Before it may be there, cut, or with half of its head; afterwards all of it is."""

    async def main(loop: SimLoop) -> set[str]:
        found = set()
        head = b"h" * 4 * SECTOR
        for seed in range(200):
            rng = random.Random(seed)
            disk = SimDisk(loop, rng)
            made: asyncio.Future[object] = loop.create_future()
            disk.submit_reserve("room", 16 * SECTOR, head, made.set_result)
            if seed % 2:
                await made
                file = disk.crash(rng).open("room")
                assert file.pread(16 * SECTOR, 0) == head + bytes(12 * SECTOR)
                continue
            after = disk.crash(rng)
            data = after.open("room").pread(16 * SECTOR, 0) if "room" in after.files else None
            found.add(
                "absent"
                if data is None
                else "cut"
                if len(data) < 16 * SECTOR
                else "whole"
                if data.startswith(head)
                else "torn"
            )
        return found

    assert run(main) == {"absent", "cut", "whole", "torn"}


def test_no_room_is_told_and_kills_nobody() -> None:
    """A reservation on a full disk comes to nothing."""

    async def main(loop: SimLoop) -> tuple[object, list[str]]:
        disk = SimDisk(loop, random.Random(1))
        disk.switches.full = True
        told: asyncio.Future[object] = loop.create_future()
        disk.submit_reserve("room", SECTOR, b"", told.set_result)
        return await told, disk.list_names()

    assert run(main) == (None, [])


def test_a_renewal_is_there_once_that_is_told() -> None:
    """Before it either name may stand over either head; what is behind the head stays."""

    async def main(loop: SimLoop) -> set[tuple[str, bytes]]:
        found = set()
        for seed in range(300):
            rng = random.Random(seed)
            disk, done = SimDisk(loop, rng), asyncio.Event()
            file = disk.create("old", 4 * SECTOR)
            disk.write_sync([(file, 0, b"a" * 4 * SECTOR)])
            disk.submit_renew(file, "new", b"b" * SECTOR, lambda _, done=done: done.set())  # type: ignore[misc]
            if seed % 2:
                await done.wait()
                assert disk.list_names() == ["new"]
            after = disk.crash(rng)
            (name,) = after.list_names()
            data = after.open(name).pread(4 * SECTOR, 0)
            assert data[SECTOR:] == b"a" * 3 * SECTOR
            if seed % 2:
                assert (name, data[:1]) == ("new", b"b")
            else:
                found.add((name, data[:1]))
        return found

    assert run(main) == {("old", b"a"), ("old", b"b"), ("new", b"a"), ("new", b"b")}
