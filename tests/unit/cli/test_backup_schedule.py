"""When backups that repeat themselves begin, and what a failure does to them."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.key_file import make_key
from svc_cluster.backup.prune import BackupRetention
from svc_cluster.base.ids import StreamId
from svc_cluster.cli.backup.backup_commands import last_finished_ms, take
from svc_cluster.cli.backup.backup_places import vault_to_write
from svc_cluster.cli.backup.backup_schedule import RETRY_SECONDS, BackupSchedule, due_in
from tests.unit.backup.memory_objects import StoppedClock
from tests.unit.backup.scene import Scene as BackupScene

HOUR = 3600
NOW_MS = 1_700_000_000_000


class _OverError(Exception):
    """The test has seen enough."""


class Scene:
    """Backups that take a minute each, and a clock that only pauses move."""

    def __init__(self, *, fails: tuple[int, ...] = (), last_at_ms: int | None = None) -> None:
        self.clock = StoppedClock()
        self.last_at_ms = last_at_ms
        self.begun_ms: list[int] = []
        self.said: list[str] = []
        self._fails = fails

    async def last(self) -> int | None:
        return self.last_at_ms

    async def take(self) -> None:
        self.begun_ms.append(self.clock.now_ms)
        if len(self.begun_ms) in self._fails:
            raise BackupError("the place is full")
        self.clock.now_ms += 60_000
        self.last_at_ms = self.clock.now_ms

    async def pause(self, seconds: float) -> None:
        self.clock.now_ms += round(seconds * 1000)
        if len(self.begun_ms) >= 4:
            raise _OverError

    def run(self, every: int) -> list[int]:
        """The seconds between the begins of four backups, that of the first one from the start."""
        start_ms = self.clock.now_ms
        schedule = BackupSchedule(
            self.last, self.take, every, self.clock, self.pause, self.said.append
        )
        with pytest.raises(_OverError):
            asyncio.run(schedule.run())
        moments = [start_ms, *self.begun_ms]
        return [(b - a) // 1000 for a, b in pairwise(moments)]


@pytest.mark.parametrize(
    ("age_s", "due"),
    [(None, 0), (0, HOUR), (600, 3000), (HOUR, 0), (9 * HOUR, 0), (-1, 0), (-86_400, 0)],
)
def test_the_next_one_is_due_so_long_after_the_last_one(age_s: int | None, due: int) -> None:
    """And never later than one interval from now, whatever the clock did."""
    last = None if age_s is None else NOW_MS - age_s * 1000
    assert due_in(last, NOW_MS, HOUR) == due


def test_backups_follow_each_other_and_a_restart_makes_none_too_early() -> None:
    """At once where there is none; behind the end of each; a process that is started again waits
    for what is left."""
    assert Scene().run(HOUR) == [0, HOUR + 60, HOUR + 60, HOUR + 60]
    again = Scene(last_at_ms=NOW_MS - 50 * 60_000)
    assert again.run(HOUR) == [600, HOUR + 60, HOUR + 60, HOUR + 60]
    assert again.said == []


def test_a_clock_that_was_put_back_puts_no_backup_off() -> None:
    """The last one is of next year: the next is taken at once, and the others go by that one."""
    scene = Scene(last_at_ms=NOW_MS + 365 * 86_400_000)
    assert scene.run(HOUR) == [0, HOUR + 60, HOUR + 60, HOUR + 60]


def test_a_failure_is_said_and_tried_again_soon() -> None:
    """Without a loop that never rests, and within the interval where that is shorter."""
    scene = Scene(fails=(1, 2))
    assert scene.run(HOUR) == [0, RETRY_SECONDS, RETRY_SECONDS, HOUR + 60]
    assert scene.said == ["the place is full (the next attempt is in 600 s)"] * 2
    assert Scene(fails=(2,)).run(120) == [0, 180, 120, 180]


def test_an_interval_of_no_length_is_refused() -> None:
    """It would back up without an end."""
    with pytest.raises(BackupError, match="60 or more"):
        Scene().run(30)


def test_a_place_without_a_backup_has_no_last_one(tmp_path: Path) -> None:
    """Neither before the first one is begun nor while it is not finished."""
    place, key_file = str(tmp_path / "place"), tmp_path / "key"

    async def main() -> None:
        assert await last_finished_ms(place, key_file) is None
        await vault_to_write(place, key_file, "main", plain=False)
        assert await last_finished_ms(place, key_file) is None

    asyncio.run(main())


def test_a_key_that_lies_beside_plain_backups_is_no_reason_to_keep_them(tmp_path: Path) -> None:
    """With plain said once for all: what is created so is looked at and pruned so. Without, the
    place is refused as one that may have been exchanged."""
    scene = BackupScene(sealed=False)
    scene.filled()
    place, key_file = str(tmp_path / "place"), tmp_path / "key"
    scene.store = DirectoryStore(Path(place))
    make_key(key_file)

    async def one_more() -> None:
        await scene.create()

    async def main() -> None:
        kept = BackupRetention(1, None)
        for _ in range(2):
            await take(one_more, place, key_file, kept, None, plain=True)
        assert await (await scene.vault()).numbers() == [2]
        assert await last_finished_ms(place, key_file, plain=True) is not None
        with pytest.raises(BackupError, match="may have been exchanged"):
            await last_finished_ms(place, key_file)

    asyncio.run(main())


def test_old_ones_are_deleted_behind_a_backup_and_only_then(tmp_path: Path) -> None:
    """With a rule of what is kept; a backup that fails deletes nothing."""
    scene = BackupScene(sealed=False)
    basin = scene.filled()
    place, key_file = str(tmp_path / "place"), tmp_path / "no key"
    scene.store = DirectoryStore(Path(place))

    async def one_more() -> None:
        basin.append(StreamId(1), b"more" * 50, count=1, at_ms=40_000)
        await scene.create()

    async def failing() -> None:
        raise BackupError("no room")

    async def numbers() -> list[int]:
        return await (await scene.vault()).numbers()

    async def main() -> None:
        for _ in range(3):
            await take(one_more, place, key_file, None, None)
        assert await numbers() == [1, 2, 3]
        with pytest.raises(BackupError, match="no room"):
            await take(failing, place, key_file, BackupRetention(1, None), None)
        assert await numbers() == [1, 2, 3]
        await take(one_more, place, key_file, BackupRetention(2, None), None)
        assert await numbers() == [3, 4]
        made = await (await scene.vault()).chosen(None)
        assert await last_finished_ms(place, key_file) == made.finished_at_ms
        assert await scene.look(made) == []

    asyncio.run(main())
