"""What a prune deletes beside somebody who publishes, by which clock, and in which time."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.backup.prune import BackupRetention, Pruned, prune
from svc_cluster.backup.publish import PRUNE_SECONDS_MAX
from svc_cluster.backup.vault import CHUNKS, CLAIMS, MANIFESTS, PARTS, PROGRESS, PRUNING
from svc_cluster.base.ids import StreamId
from tests.unit.backup.memory_objects import KilledError
from tests.unit.backup.scene import Scene

DAY_MS = 24 * 3600 * 1000
DAY_SECONDS = 86_400
SEVEN = BackupRetention(7, None)


def interrupted(scene: Scene, *, is_first: bool = False) -> set[str]:
    """One backup, unless the next one `is_first`, and another one that was killed; two days have
    gone by since. Returns the chunks that nothing but its notes names."""
    basin = scene.filled()
    if not is_first:
        scene.backup()
    before = set(scene.objects.objects)
    for number in range(10):
        basin.append(StreamId(1), b"more%d" % number * 50, count=1, at_ms=40_000 + number)
    scene.objects.dies_at = 2 * (scene.objects.operations + 14)
    with pytest.raises(KilledError):
        scene.backup()
    scene.objects.dies_at = None
    scene.clock.now_ms += 2 * DAY_MS
    kept = {name for name in set(scene.objects.objects) - before if name.startswith(CHUNKS)}
    assert kept
    return kept


@pytest.mark.parametrize("is_first", [False, True])
def test_a_backup_that_is_published_between_two_looks_of_a_prune_is_seen(is_first: bool) -> None:
    """It puts its manifest and takes its claim back between a look for the one and one for the
    other, and has looked for marks before there was one."""
    scene = Scene()
    kept = interrupted(scene, is_first=is_first)
    real_list, real_put = scene.objects.list, scene.objects.put_new
    checks, looked, published = asyncio.Event(), asyncio.Event(), asyncio.Event()
    claimed: list[str] = []

    def who() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def put_new(name: str, data: bytes) -> bool:
        if name.startswith(CLAIMS):
            claimed.append(name)
        return await real_put(name, data)

    async def listed(prefix: str) -> list[object]:
        found = await real_list(prefix)
        if who() == "create" and claimed and prefix == PARTS:
            checks.set()
            await looked.wait()
        elif who() == "prune" and prefix in (CLAIMS, MANIFESTS) and not looked.is_set():
            looked.set()
            await published.wait()
        return list(found)

    scene.objects.put_new = put_new  # type: ignore[method-assign]
    scene.objects.list = listed  # type: ignore[method-assign, assignment]

    async def create() -> Manifest:
        made = await scene.create()
        published.set()
        return made

    async def main() -> tuple[Manifest, Pruned]:
        creating = asyncio.create_task(create(), name="create")
        await checks.wait()
        work = prune(await scene.vault(), scene.clock, SEVEN, DAY_SECONDS)
        pruning = asyncio.create_task(work, name="prune")
        return await creating, await pruning

    made, done = asyncio.run(main())
    assert (made.number, done.backups, done.is_whole) == (1 if is_first else 2, (), True)
    assert kept <= set(scene.objects.objects)
    assert scene.findings(made) == []


def test_a_claim_that_is_taken_back_while_it_is_read_stops_nobody() -> None:
    """Its owner has published, or given up."""
    scene = Scene()
    scene.filled()
    made = scene.backup()
    claim = f"{CLAIMS}0000000002-aabbccdd"
    real = scene.objects.get

    async def get(name: str) -> bytes | None:
        if name == claim:
            await scene.objects.delete(name)
        return await real(name)

    async def main() -> Pruned:
        vault = await scene.vault()
        await vault.write(claim, b"about to be gone")
        scene.objects.get = get  # type: ignore[method-assign]
        return await prune(vault, scene.clock, SEVEN, 0)

    assert asyncio.run(main()) == Pruned((), 0, 0, is_whole=True)
    assert scene.findings(made) == []


def test_a_backup_that_is_published_while_a_prune_reads_for_longer_than_a_mark_counts_stays() -> (
    None
):
    """The mark stands in nobody's way then, so that what has been read is not all there is."""
    scene = Scene()
    kept = interrupted(scene)
    real = scene.objects.get
    made: list[Manifest] = []

    async def get(name: str) -> bytes | None:
        found = await real(name)
        if name.startswith(PARTS) and not made:
            scene.objects.get = real  # type: ignore[method-assign]
            scene.clock.now_ms += PRUNE_SECONDS_MAX * 1000 + 1
            made.append(await scene.create())
        return found

    async def main() -> Pruned:
        vault = await scene.vault()
        scene.objects.get = get  # type: ignore[method-assign]
        return await prune(vault, scene.clock, SEVEN, DAY_SECONDS)

    done = asyncio.run(main())
    assert (done.backups, done.is_whole, done.unclear) == ((), True, ())
    assert kept <= set(scene.objects.objects)
    assert scene.findings(made[0]) == []
    assert not any(name.startswith(PRUNING) for name in scene.objects.objects)


def grown(scene: Scene) -> None:
    """Six backups; the first ones have contents of their own."""
    basin = scene.filled()
    for number in range(6):
        basin.append(StreamId(1), b"x", count=1, at_ms=50_000 + number)
        basin.trim(StreamId(2), 3 * number)
        scene.backup()


async def pruned(scene: Scene, retention: BackupRetention, grace_seconds: float = 0) -> Pruned:
    return await prune(await scene.vault(), scene.clock, retention, grace_seconds)


def test_a_place_that_is_slow_to_read_is_pruned_as_well() -> None:
    """What reading takes is not taken from the time for deleting."""
    scene = Scene()
    grown(scene)
    real = scene.objects.get

    async def get(name: str) -> bytes | None:
        scene.clock.now_ms += 40_000
        return await real(name)

    scene.objects.get = get  # type: ignore[method-assign]
    done = asyncio.run(pruned(scene, BackupRetention(2, None)))
    assert done.backups == (1, 2, 3, 4)
    assert done.is_whole
    assert done.objects == 4


def test_what_cannot_be_deleted_in_time_is_left_for_the_next_prune() -> None:
    """It ends while its mark stands, and says that there is more; repeated, it comes to an end."""
    reference = Scene()
    grown(reference)
    wanted = asyncio.run(pruned(reference, BackupRetention(1, None)))
    assert wanted.objects > 5
    scene = Scene()
    grown(scene)
    real = scene.objects.delete
    began_ms: list[int] = []

    async def delete(name: str) -> None:
        if name.startswith((CHUNKS, PARTS)):
            marks = [mark for mark in scene.objects.objects if mark.startswith(PRUNING)]
            began_ms.append(max(scene.objects.modified_ms[mark] for mark in marks))
            assert scene.clock.now_ms - began_ms[-1] <= PRUNE_SECONDS_MAX * 1000 / 2
            scene.clock.now_ms += 100_000
        await real(name)

    scene.objects.delete = delete  # type: ignore[method-assign]
    first = asyncio.run(pruned(scene, BackupRetention(1, None)))
    assert (first.backups, first.objects, first.is_whole) == ((1, 2, 3, 4, 5), 4, False)
    deleted = first.objects
    while not (done := asyncio.run(pruned(scene, BackupRetention(1, None)))).is_whole:
        assert done.objects == 4
        deleted += done.objects
    assert deleted + done.objects == wanted.objects == len(began_ms)


@pytest.mark.parametrize("ahead_days", [-40, 40])
def test_the_clock_of_who_prunes_decides_nothing(ahead_days: int) -> None:
    """Whether it is forty days ahead or behind: backups that are minutes old stay, and go once they
    are as old as was said by the store's clock."""
    scene = Scene()
    grown(scene)
    retention = BackupRetention(None, 30 * DAY_MS)
    scene.objects.is_ahead_by_ms = -ahead_days * DAY_MS
    scene.clock.now_ms += ahead_days * DAY_MS
    assert asyncio.run(pruned(scene, retention)).backups == ()
    scene.clock.now_ms += 31 * DAY_MS
    assert asyncio.run(pruned(scene, retention)).backups == (1, 2, 3, 4, 5)


def test_a_young_note_keeps_an_old_chunk() -> None:
    """An attempt has found it there, and counts on it."""
    scene = Scene()
    kept = interrupted(scene)
    for name in scene.objects.objects:
        if name.startswith(PROGRESS):
            scene.objects.modified_ms[name] = scene.clock.now_ms
    asyncio.run(pruned(scene, SEVEN, DAY_SECONDS))
    assert kept <= set(scene.objects.objects)
    scene.clock.now_ms += 2 * DAY_MS
    asyncio.run(pruned(scene, SEVEN, DAY_SECONDS))
    assert not kept & set(scene.objects.objects)
