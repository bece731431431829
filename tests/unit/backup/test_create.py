"""Taking backups: what is in them, what is moved, and what an interruption leaves."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError, WrongKeyError
from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.backup.object_sealing import Sealed
from svc_cluster.backup.restored_basin import BasinWish, RestoredBasin
from svc_cluster.backup.vault import check_key, vault_file
from svc_cluster.base.ids import LogIndex, NodeId, StreamId, Term, TimestampMs
from svc_cluster.catalog.catalog_commands import DeleteBasin, RegisterNode
from svc_cluster.model import versions
from svc_cluster.stream import keys, rows
from svc_cluster.stream.commands import Seal
from tests.unit.backup.memory_cluster import AT_MS, MemoryCluster, Rows
from tests.unit.backup.memory_objects import KilledError
from tests.unit.backup.scene import Scene

RESTORED_PLACE = (keys.APPLIED_KEY,)


def same_but_the_place(left: Rows, right: Rows) -> None:
    """All rows, but for where in the log they stand."""
    a = {key: value for key, value in left.rows.items() if key not in RESTORED_PLACE}
    b = {key: value for key, value in right.rows.items() if key not in RESTORED_PLACE}
    assert a == b


def group(scene: Scene, name: str = "first-basin") -> int:
    return int(scene.cluster.group_of(name))


@pytest.mark.parametrize("sealed", [True, False])
def test_what_is_restored_is_what_was_backed_up_row_by_row(sealed: bool) -> None:
    """Sealed or not: every row of the basin, and no trace of it outside the seal."""
    scene = Scene(sealed=sealed)
    basin = scene.filled()
    made = scene.backup()
    assert [entry.basin for entry in made.basins] == ["first-basin"]
    assert made.basins[0].records == 60
    assert scene.findings(made) == []
    for files in scene.restored(made, nodes=3):
        same_but_the_place(files.groups[group(scene)], basin.rows)
    stored = b"".join(scene.objects.objects.values())
    assert (b"first-basin" in stored) is False  # compressed or sealed
    assert scene.cluster.finished_ms == [made.finished_at_ms]
    assert not any(name.startswith("progress/") for name in scene.objects.objects)


def test_a_second_backup_moves_what_is_new_and_nothing_else() -> None:
    """One batch more: it is read, and the one ahead of it, by which the stream is known again. None
    more: nothing is, and the part is the same one."""
    scene = Scene()
    basin = scene.filled()
    scene.backup()
    basin.append(StreamId(1), b"new", count=1, at_ms=20_000)
    scene.cluster.read_batches = 0
    second = scene.backup()
    assert scene.cluster.read_batches == 2
    same_but_the_place(scene.restored(second)[0].groups[group(scene)], basin.rows)
    third = scene.backup()
    assert scene.cluster.read_batches == 2
    assert third.basins == second.basins
    assert third.number == 3


def test_a_cluster_of_other_data_directories_shares_no_records_with_earlier_backups() -> None:
    """It was restored from a backup, say, and has gone on differently at the same positions: with
    as many bytes at the same times, so that nothing but the directories tells."""
    scene = Scene()
    scene.filled()
    scene.backup()
    other = MemoryCluster(incarnations="cd")
    basin = other.add("first-basin")
    for name in ("one", "two"):
        stream_id = basin.create(name)
        for number in range(10):
            body = f"{name.upper()}/{number}".encode() * 10
            basin.append(stream_id, body, count=3, at_ms=10_000 + number)
    basin.append(StreamId(2), b"later", count=1, at_ms=10_010)
    scene.cluster = other
    made = scene.backup()
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)
    other.decide(RegisterNode(NodeId(3), "e" * 32, "n3:1"))
    basin.append(StreamId(1), b"more", count=1, at_ms=2)
    other.read_batches = 0
    scene.backup()
    assert other.read_batches == 2, "a node more does not make it another cluster"


def test_what_was_kept_by_a_killed_backup_of_another_cluster_is_not_used() -> None:
    """The same as above, of chunks that no manifest names yet."""
    scene = Scene()
    scene.filled()
    scene.objects.dies_at = 2 * 7
    with pytest.raises(KilledError):
        scene.backup()
    assert any(name.startswith("progress/") for name in scene.objects.objects)
    scene.objects.dies_at = None
    scene.cluster = MemoryCluster(incarnations="cd")
    basin = scene.cluster.add("first-basin")
    stream_id = basin.create("one")
    for number in range(10):
        basin.append(stream_id, f"other/{number}".encode() * 10, count=3, at_ms=1)
    made = scene.backup()
    assert scene.cluster.read_batches == 10, "they are not even compared"
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


def test_a_backup_killed_anywhere_is_completed_by_repeating_it() -> None:
    """Before and behind each change that it makes: no backup, or a whole one; and the next attempt
    makes one that is the basin. What was kept is not fetched again."""
    reference = Scene()
    reference.filled()
    reference.backup()
    last = 2 * reference.objects.operations
    saved = 0
    for dies_at in range(1, last + 1):
        scene = Scene()
        basin = scene.filled()
        scene.objects.dies_at = dies_at
        with pytest.raises(KilledError):
            scene.backup()
        scene.objects.dies_at = None

        async def there(scene: Scene = scene) -> list[Manifest]:
            if await vault_file(scene.objects) is None:
                return []
            vault = await scene.vault()
            return [await vault.manifest(number) for number in await vault.numbers()]

        for made in asyncio.run(there()):
            assert scene.findings(made) == []
        scene.cluster.read_batches = 0
        made = scene.backup()
        saved += scene.cluster.read_batches < 20
        assert scene.findings(made) == []
        same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)
    assert saved > last // 2


def test_an_answer_that_ends_early_is_gone_on_with() -> None:
    """Each batch is read once, wherever it was cut."""
    for cut in range(20):
        scene = Scene()
        basin = scene.filled()
        scene.cluster.ends_after = cut
        made = scene.backup()
        assert scene.cluster.read_batches == 20
        same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


def test_records_trimmed_while_they_are_read_are_not_missing() -> None:
    """The stream begins behind them then, as it does in the cluster; whole ones may be gone too."""
    for trimmed in (1, 3, 14, 30):
        scene = Scene()
        basin = scene.filled()
        scene.cluster.before_records = partial(basin.trim, StreamId(1), trimmed)
        made = scene.backup()
        assert scene.findings(made) == []
        found = scene.restored(made)[0].groups[group(scene)]
        least = trimmed // 3 * 3
        batches = [key for key, _ in found.scan(*keys.batches_range(StreamId(1)))]
        assert len(batches) == (30 - least) // 3


def test_records_that_a_node_lacks_end_the_backup_by_name() -> None:
    """A replica that has lost a batch is not backed up as if it never had been there."""
    for lost in (3, 15, 30):
        scene = Scene()
        basin = scene.filled()
        del basin.rows.rows[keys.batch_key(StreamId(1), lost - 1)]
        with pytest.raises(DamagedError, match="stream 1: the node does not have the records"):
            scene.backup()
        assert asyncio.run(scene.objects.list("manifests/")) == []


def test_another_cluster_is_refused_by_name() -> None:
    """Two clusters in one place would be two backups that mix."""
    scene = Scene()
    scene.filled()
    scene.backup()
    scene.cluster = MemoryCluster("cluster-z")
    with pytest.raises(
        BackupError, match="backups of the cluster cluster-a, and this is cluster-z"
    ):
        scene.backup()


def test_two_backups_at_one_time_do_not_become_one() -> None:
    """The later one is told, and completes when it is repeated."""
    scene = Scene()
    basin = scene.filled()

    async def both() -> list[Manifest | BaseException]:
        return list(await asyncio.gather(scene.create(), scene.create(), return_exceptions=True))

    results = asyncio.run(both())
    made = [each for each in results if isinstance(each, Manifest)]
    told = [each for each in results if isinstance(each, BackupError)]
    assert len(made) + len(told) == 2
    assert len({each.number for each in made}) == len(made) >= 1
    again = scene.backup()
    same_but_the_place(scene.restored(again)[0].groups[group(scene)], basin.rows)


def test_a_basin_that_nobody_hands_out_ends_the_backup_unless_it_is_deleted_by_then() -> None:
    """It is named; and one whose deletion the catalog knows is said not to be in the backup."""
    scene = Scene()
    basin = scene.filled()
    scene.cluster.add("second-basin")
    del scene.cluster.basins[group(scene, "second-basin")]
    with pytest.raises(BackupError, match="second-basin cannot be read"):
        scene.backup()

    def is_deleted() -> None:
        scene.cluster.before_records = lambda: None
        scene.cluster.decide(DeleteBasin("second-basin", TimestampMs(AT_MS)))

    scene.cluster.before_records = is_deleted
    basin.append(StreamId(1), b"more", count=1, at_ms=50_000)
    made = scene.backup()
    assert [entry.basin for entry in made.basins] == ["first-basin"]
    assert made.missed == ("second-basin",)


@pytest.mark.parametrize("was_there", [False, True], ids=["first backup", "incremental"])
def test_a_basin_that_is_being_deleted_is_not_in_the_backup(was_there: bool) -> None:
    """Its catalog row was read before the deletion, its rows behind the seal: it would be restored
    as a basin that is there and takes no write. It is named as missed."""
    scene = Scene()
    scene.filled()
    second = scene.cluster.add("second-basin")
    second.append(second.create("s"), b"kept", count=1, at_ms=20_000)
    if was_there:
        assert [entry.basin for entry in scene.backup().basins] == ["first-basin", "second-basin"]
    second.does(Seal(TimestampMs(AT_MS)))
    made = scene.backup()
    assert [entry.basin for entry in made.basins] == ["first-basin"]
    assert made.missed == ("second-basin",)


def test_a_sealed_basin_of_an_older_backup_is_restored_as_one_that_takes_writes() -> None:
    """A release before took such a basin. What its catalog says is there is to be usable."""
    scene = Scene()
    basin = scene.filled()
    as_it_was = rows.decode_basin(basin.rows.rows[keys.BASIN_KEY])
    made = scene.backup()
    sealed = msgspec.structs.replace(as_it_was, sealed_at_ms=TimestampMs(AT_MS))
    found = RestoredBasin(
        *("first-basin", [(keys.BASIN_KEY, rows.encode_basin(sealed))], {}),
        BasinWish("first-basin"),
    )
    restored = dict(found.rows(LogIndex(1), Term(1), 7))
    assert rows.decode_basin(restored[keys.BASIN_KEY]) == as_it_was
    assert made.missed == ()


def test_a_backup_of_two_active_versions_is_none() -> None:
    """The version rises behind the look at the catalog: a basin may hold rows that the version in
    the manifest's catalog does not have. Repeated it is whole, and of the version that is now."""
    scene = Scene()
    basin = scene.filled()
    scene.cluster.before_records = scene.cluster.raise_version
    rise = f"rose from {versions.FIRST} to {versions.NEWEST} while it was taken: repeat the backup"
    with pytest.raises(BackupError, match=rise):
        scene.backup()
    assert not any(name.startswith("manifests/") for name in scene.objects.objects)
    assert scene.cluster.finished_ms == []
    scene.cluster.before_records = lambda: None
    files = scene.restored(scene.backup())[0]
    same_but_the_place(files.groups[group(scene)], basin.rows)
    assert files.made.active_version == versions.NEWEST


def test_a_wrong_key_is_refused_by_name_and_opens_nothing() -> None:
    """Both keys are named; and without the check nothing is read either."""
    scene = Scene()
    scene.filled()
    made = scene.backup()
    other = Sealed(bytes(32))
    file = asyncio.run(vault_file(scene.objects))
    assert file is not None
    with pytest.raises(WrongKeyError, match=f"{file.key_id}.*{other.key_id}"):
        check_key(file, other.key_id, "memory")
    scene.wrapping = other
    findings = scene.findings(made)
    assert len(findings) == 2
    assert all("is damaged" in finding for finding in findings)


def test_chunks_that_are_gone_are_taken_anew() -> None:
    """By the next backup, whether the basin has changed or not; what is there is not read again."""
    for changes in (False, True):
        scene = Scene()
        basin = scene.filled()
        scene.backup()
        lost = sorted(name for name in scene.objects.objects if name.startswith("chunks/"))[0]
        del scene.objects.objects[lost]
        if changes:
            basin.append(StreamId(1), b"more", count=1, at_ms=50_000)
        scene.cluster.read_batches = 0
        made = scene.backup()
        assert 0 < scene.cluster.read_batches < 20
        assert scene.findings(made) == []
        same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


def test_a_damaged_object_is_replaced_by_a_full_backup() -> None:
    """Its name is its content's: the same content puts it right, for the earlier backup as well."""
    scene = Scene()
    scene.filled()
    first = scene.backup()
    name = next(name for name in scene.objects.objects if name.startswith("chunks/"))
    stored = bytearray(scene.objects.objects[name])
    stored[len(stored) // 2] ^= 1
    scene.objects.objects[name] = bytes(stored)
    assert len(scene.findings(first)) == 1
    second = scene.backup(is_full=True)
    assert scene.findings(second) == scene.findings(first) == []
