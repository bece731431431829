"""Deleting backups: by which rules, what with them, and what when it is interrupted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError
from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.backup.objects import ObjectInfo
from svc_cluster.backup.prune import BackupRetention, Pruned, doomed, prune, unnamed
from svc_cluster.backup.publish import PRUNE_SECONDS_MAX
from svc_cluster.base.ids import StreamId
from tests.unit.backup.memory_objects import KilledError
from tests.unit.backup.scene import Scene
from tests.unit.backup.test_create import group, same_but_the_place

DAY_MS = 24 * 3600 * 1000
BACKUPS = tuple((number, number * DAY_MS) for number in range(1, 11))
NOW_MS = 11 * DAY_MS


@pytest.mark.parametrize(
    ("keep", "older_than_days", "left"),
    [
        (3, None, [8, 9, 10]),
        (1, None, [10]),
        (20, None, list(range(1, 11))),
        (None, 4, [7, 8, 9, 10]),
        (None, 0, [10]),
        (2, 4, [7, 8, 9, 10]),
        (6, 4, [5, 6, 7, 8, 9, 10]),
    ],
)
def test_a_backup_goes_once_no_rule_keeps_it_and_the_last_one_never(
    keep: int | None, older_than_days: int | None, left: list[int]
) -> None:
    """By count, by age, and by both: what either keeps stays."""
    older_than_ms = None if older_than_days is None else older_than_days * DAY_MS
    going = doomed(BACKUPS, BackupRetention(keep, older_than_ms), NOW_MS)
    assert [number for number, _ in BACKUPS if number not in going] == left


def test_only_what_nothing_names_and_is_old_enough_goes() -> None:
    """One of each kind."""
    objects = [ObjectInfo("chunks/a", 1, 10), ObjectInfo("chunks/b", 1, 10)]
    young = ObjectInfo("chunks/c", 1, 20)
    assert unnamed([*objects, young], {"chunks/a"}, 20) == [objects[1]]


def pruned(scene: Scene, keep: int, grace_seconds: float = 0) -> Pruned:
    async def work() -> Pruned:
        return await prune(
            await scene.vault(), scene.clock, BackupRetention(keep, None), grace_seconds
        )

    return asyncio.run(work())


def three_backups(scene: Scene) -> None:
    """Each has something that the others have not, and much that they share."""
    basin = scene.filled()
    for number in range(3):
        basin.append(StreamId(1), b"%d" % number * 200, count=1, at_ms=30_000 + number)
        basin.trim(StreamId(2), 9 * number)
        scene.backup()


def whole(scene: Scene, numbers: list[int]) -> None:
    async def look() -> None:
        vault = await scene.vault()
        assert await vault.numbers() == numbers

    asyncio.run(look())
    for number in numbers:
        assert scene.findings(asyncio.run(manifest(scene, number))) == []


async def manifest(scene: Scene, number: int) -> Manifest:
    return await (await scene.vault()).manifest(number)


def test_what_a_kept_backup_names_stays_and_the_rest_goes() -> None:
    """Chunks that are shared stay; those of trimmed records alone go with the last that names
    them."""
    scene = Scene()
    three_backups(scene)
    before = set(scene.objects.objects)
    done = pruned(scene, 2)
    assert done.backups == (1,)
    assert done.is_whole
    whole(scene, [2, 3])
    pruned(scene, 1)
    whole(scene, [3])
    gone = before - set(scene.objects.objects)
    assert {name.partition("/")[0] for name in gone} == {"manifests", "parts", "chunks"}
    again = pruned(scene, 1)
    assert (again.backups, again.objects) == ((), 0)
    assert not any(name.startswith("pruning/") for name in scene.objects.objects)


def test_a_prune_killed_anywhere_leaves_whole_backups_and_is_completed_by_repeating_it() -> None:
    """Before and behind each of its changes."""
    reference = Scene()
    three_backups(reference)
    begun = reference.objects.operations
    pruned(reference, 1)
    wanted = set(reference.objects.objects)
    for dies_at in range(2 * begun + 1, 2 * reference.objects.operations + 1):
        scene = Scene()
        three_backups(scene)
        scene.objects.dies_at = dies_at
        with pytest.raises(KilledError):
            pruned(scene, 1)
        scene.objects.dies_at = None
        numbers = asyncio.run(_numbers(scene))
        assert numbers[-1] == 3
        whole(scene, numbers)
        scene.clock.now_ms += PRUNE_SECONDS_MAX * 1000 + 1
        pruned(scene, 1)
        whole(scene, [3])
        kinds = {name.partition("/")[0] for name in scene.objects.objects}
        assert kinds == {"vault", "manifests", "parts", "chunks"}
        assert len(scene.objects.objects) == len(wanted)


async def _numbers(scene: Scene) -> list[int]:
    return await (await scene.vault()).numbers()


class PrunedOnce:
    """Everything that no backup names is pruned ahead of the put of this number."""

    def __init__(self, scene: Scene, place: int) -> None:
        self._scene = scene
        self._real = scene.objects.put_new
        self._left = place
        scene.objects.put_new = self.put_new  # type: ignore[method-assign]

    async def put_new(self, name: str, data: bytes) -> bool:
        self._left -= 1
        if self._left == 0:
            scene = self._scene
            self.end()
            scene.clock.now_ms += 1
            await prune(await scene.vault(), scene.clock, BackupRetention(1, None), 0)
            scene.clock.now_ms += PRUNE_SECONDS_MAX * 1000 + 1
        return await self._real(name, data)

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def end(self) -> None:
        self._scene.objects.put_new = self._real  # type: ignore[method-assign]


def test_a_backup_that_is_taken_while_somebody_prunes_is_whole_or_none() -> None:
    """A prune ahead of each object that a backup puts: what the backup builds on may be gone, and
    then there is none; repeated, it is one."""
    made_whole = refused = 0
    for place in range(1, 60):
        scene = Scene()
        basin = scene.filled()
        scene.backup()
        basin.append(StreamId(1), b"more" * 50, count=1, at_ms=40_000)
        pruning = PrunedOnce(scene, place)
        try:
            made = scene.backup()
        except DamagedError:
            refused += 1
            made = scene.backup()
        else:
            made_whole += 1
        pruning.end()
        assert scene.findings(made) == []
        same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)
        if not pruning.is_over:
            break
    assert refused > 0
    assert made_whole > 0


def test_no_backup_begins_or_ends_while_somebody_may_be_pruning() -> None:
    """Its mark is enough; one that is older than any prune lasts stands in nobody's way."""
    scene = Scene()
    scene.filled()
    scene.backup()
    mark = "pruning/0123456789abcdef"
    asyncio.run(scene.objects.put_new(mark, b""))
    scene.clock.now_ms -= 60_000
    with pytest.raises(BackupError, match="somebody prunes"):
        scene.backup()
    scene.objects.modified_ms[mark] -= PRUNE_SECONDS_MAX * 1000
    scene.backup()
    whole(scene, [1, 2])
    assert replace(pruned(scene, 5), freed_bytes=0) == Pruned((), 0, 0, is_whole=True)


@pytest.mark.parametrize("is_ahead_by_ms", [-DAY_MS, DAY_MS])
def test_ages_are_told_by_the_clock_of_the_store(is_ahead_by_ms: int) -> None:
    """Whether it is a day behind ours or ahead of it: a mark of now holds a backup up, at its
    begin and at its end, an old one does not; what an interrupted backup has kept stays for its
    grace; nothing is left of the question what time it is."""
    scene = Scene()
    scene.objects.is_ahead_by_ms = is_ahead_by_ms
    basin = scene.filled()
    scene.backup()
    basin.append(StreamId(1), b"more" * 50, count=1, at_ms=40_000)
    mark = "pruning/0123456789abcdef"
    asyncio.run(scene.objects.put_new(mark, b""))
    scene.clock.now_ms -= 60_000
    held = set(scene.objects.objects)
    with pytest.raises(BackupError, match="somebody prunes"):
        scene.backup()
    assert set(scene.objects.objects) == held
    scene.objects.modified_ms[mark] -= PRUNE_SECONDS_MAX * 1000 + 1
    scene.objects.dies_at = 2 * (scene.objects.operations + 8)
    with pytest.raises(KilledError):
        scene.backup()
    scene.objects.dies_at = None
    kept = {name for name in scene.objects.objects if name.startswith(("chunks/", "progress/"))}
    assert kept > held & kept
    pruned(scene, 1, grace_seconds=3600)
    assert kept <= set(scene.objects.objects)
    assert not any(name.startswith(("pruning/", "clock/")) for name in scene.objects.objects)
    made = scene.backup()
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


@pytest.mark.parametrize("is_ahead_by_ms", [-DAY_MS, DAY_MS])
def test_a_mark_that_is_put_while_a_backup_works_keeps_it_from_being_one(
    is_ahead_by_ms: int,
) -> None:
    """Whatever the clock of the store says; its claim is taken back."""
    scene = Scene()
    scene.objects.is_ahead_by_ms = is_ahead_by_ms
    scene.filled()
    put = scene.objects.put_new

    async def marked(name: str, data: bytes) -> bool:
        if name.startswith("claims/"):
            await put("pruning/0123456789abcdef", b"")
        return await put(name, data)

    scene.objects.put_new = marked  # type: ignore[method-assign]
    with pytest.raises(BackupError, match="somebody prunes"):
        scene.backup()
    names = set(scene.objects.objects)
    assert not any(name.startswith(("manifests/", "claims/")) for name in names)
    assert asyncio.run(_numbers(scene)) == []


def test_what_an_interrupted_backup_has_kept_stays_for_as_long_as_was_said() -> None:
    """Its chunks are named by nothing but its notes."""
    scene = Scene()
    basin = scene.filled()
    scene.objects.dies_at = 2 * 9
    with pytest.raises(KilledError):
        scene.backup()
    scene.objects.dies_at = None
    held = set(scene.objects.objects)
    pruned(scene, 1, grace_seconds=3600)
    assert set(scene.objects.objects) == held
    made = scene.backup()
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)
