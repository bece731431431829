"""What a restore makes of a backup: renamed, cut, on other nodes; and what it refuses."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError, NewerFormatError
from svc_cluster.backup.backup_manifest import GroupPart, Manifest, decode, encode
from svc_cluster.backup.restore import (
    RestoredNode,
    Wishes,
    check_known,
    check_spoken,
    kept_and_not,
    restore,
)
from svc_cluster.backup.restore import identity as restore_identity
from svc_cluster.backup.seed import begin, end
from svc_cluster.base.ids import NodeId, StreamId, TimestampMs
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.cli.processes.start_checks import check_data_dir
from svc_cluster.codec.entry_version import Known
from svc_cluster.model import versions
from svc_cluster.model.formation import FormationRecord
from svc_cluster.model.stream_config import StreamConfig
from svc_cluster.replica.formation_file import FILE_NAME, SLOT_BYTES, FormationFile
from svc_cluster.replica.identity import IdentityError, NodeIdentity, open_identity
from svc_cluster.settings_errors import DirectoryError
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.restoring import is_half_restored
from svc_cluster.stream import keys
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import CreateStream, DeleteStream
from tests.unit.backup.memory_cluster import AT_MS, Rows
from tests.unit.backup.scene import Scene
from tests.unit.backup.test_create import group


def test_a_restored_cluster_knows_its_basins_and_no_node() -> None:
    """Each node holds the catalog, the same everywhere, and the basins that it is to have."""
    scene = Scene()
    scene.filled()
    for number in range(4):
        scene.cluster.add(f"basin-number-{number}")
    made = scene.backup()
    given = scene.restored(made, nodes=5)
    catalogs = [files.groups[1].rows for files in given]
    assert all(each == catalogs[0] for each in catalogs)
    catalog = CatalogState(Rows(list(catalogs[0].items())))
    assert catalog.nodes == {}
    assert catalog.applied_index == 1
    assert catalog.next_group_id == scene.cluster.catalog.next_group_id
    assert len(catalog.basins) == 5
    for record in catalog.basins.values():
        assert len(record.replicas) == 3
        holders = {node for node in range(1, 6) if int(record.group_id) in given[node - 1].groups}
        assert holders == set(map(int, record.replicas))
        states = [given[node - 1].groups[int(record.group_id)].rows for node in holders]
        assert all(each == states[0] for each in states)


def test_restores_of_different_backups_have_states_that_differ_at_one_place() -> None:
    """Nodes that were given different ones find out by the digest of the very first index."""
    scene = Scene()
    basin = scene.filled()
    first = scene.backup()
    basin.append(StreamId(1), b"more", count=1, at_ms=50_000)
    second = scene.backup()
    one, two = (scene.restored(made)[0].groups[group(scene)] for made in (first, second))
    states = BasinState(one), BasinState(two)
    assert [each.applied_index for each in states] == [1, 1]
    assert states[0].digest != states[1].digest


def test_a_stream_is_cut_ahead_of_a_position_by_whole_batches() -> None:
    """Batches of three: what is told is where it ends, and all that hangs together follows."""
    for position, tail in ((0, 0), (1, 0), (3, 3), (4, 3), (29, 27), (30, 30), (99, 30)):
        scene = Scene()
        scene.filled()
        made = scene.backup()
        wishes = Wishes(positions={("first-basin", "one"): position})
        found = scene.restored(made, wishes)[0].groups[group(scene)]
        state = BasinState(found)
        one, two = state.stream_by_name("one"), state.stream_by_name("two")
        assert one is not None
        assert two is not None
        assert (one.tail_seq_num, two.tail_seq_num) == (tail, 30)
        batches = list(found.scan(*keys.batches_range(StreamId(1))))
        assert len(batches) == tail // 3
        # appended bytes, and times, as they were then: ten bytes of five characters a batch
        assert one.metered_bytes_appended == tail // 3 * 50
        assert one.last_timestamp_ms == (10_000 + tail // 3 - 1 if tail else 0)
        assert not state.usage.counts or position >= 30
        assert any("ends before record" in line for line in scene.said) is (tail < 30)


def test_everything_is_cut_at_a_time_at_which_streams_may_not_have_been() -> None:
    """A stream that came later is not there, and one that was deleted later is."""
    scene = Scene()
    basin = scene.filled()
    for number in range(4):
        basin.append(StreamId(1), b"later", count=2, at_ms=AT_MS + 1000 * number)
    # a leader whose clock is behind: it came after what is not wanted, so it is not either
    basin.append(StreamId(1), b"later", count=2, at_ms=AT_MS)
    basin.does(DeleteStream(StreamId(2), TimestampMs(AT_MS + 5000)))
    next_id = StreamId(3)
    at_ms = TimestampMs(AT_MS + 4000)
    basin.does(CreateStream(next_id, "three", StreamConfig(), at_ms))
    made = scene.backup()
    found = scene.restored(made, Wishes(until_ms=AT_MS + 1500))[0].groups[group(scene)]
    state = BasinState(found)
    one, two = state.stream_by_name("one"), state.stream_by_name("two")
    assert one is not None
    assert one.tail_seq_num == 34
    assert [key for key, _ in found.scan(*keys.batches_range(StreamId(1)))][-1] == keys.batch_key(
        StreamId(1), 33
    )
    assert two is not None
    assert (two.tail_seq_num, two.deleted_at_ms) == (30, None)
    assert state.stream_by_name("three") is None
    assert "first-basin/three: was not there yet" in scene.said


def test_a_basin_comes_back_under_another_name_without_what_is_the_accounts() -> None:
    """Its records and streams, the new name in both groups, and usage that is counted anew."""
    scene = Scene()
    basin = scene.filled()
    scene.cluster.add("other-basin")
    made = scene.backup()
    wishes = Wishes(basins={"first-basin": "second-name"})
    files = scene.restored(made, wishes)[0]
    assert set(files.groups) == {1, group(scene)}
    assert list(CatalogState(files.groups[1]).basins) == ["second-name"]
    state = BasinState(files.groups[group(scene)])
    assert state.basin is not None
    assert state.basin.name == "second-name"
    assert not state.usage.counts
    stream = state.stream_by_name("one")
    assert stream == basin.state.stream_by_name("one")
    told = kept_and_not(wishes)
    assert any(line.startswith("access tokens: not kept") for line in told)
    assert any(line.startswith("outcomes of requests") for line in told)


@pytest.mark.parametrize("wishes", [Wishes(), Wishes(basins={"first-basin": "second-name"})])
def test_the_active_version_is_that_of_the_backup(wishes: Wishes) -> None:
    """Whatever is taken of it: the basins may hold what came with that version. The directory says
    so from the beginning, and so does the catalog."""
    scene = Scene()
    scene.filled()
    before = scene.restored(scene.backup(), wishes)[0]
    assert before.made.active_version == versions.FIRST
    scene.cluster.raise_version()
    files = scene.restored(scene.backup(), wishes)[0]
    assert files.made.active_version == versions.NEWEST
    assert CatalogState(files.groups[1]).active_version.now == versions.NEWEST


def test_the_backup_of_a_cluster_at_a_later_version_is_refused() -> None:
    """No node of this release would work under it, nor under one that it no longer speaks; what is
    to be done stands in the sentence."""
    check_spoken(versions.NEWEST)
    own = versions.Spoken(2, 3)
    check_spoken(2, own)
    with pytest.raises(NewerFormatError) as later:
        check_spoken(4, own)
    assert str(later.value) == (
        "the backup is of a cluster at version 4, this program speaks versions 2 to 3 (release "
        "0.3): restore it with svc-cluster 0.4 or newer"
    )
    with pytest.raises(NewerFormatError) as earlier:
        check_spoken(2, versions.Spoken(4, 5))
    assert str(earlier.value) == (
        "the backup is of a cluster at version 2, this program speaks versions 4 to 5 (release "
        "0.5): restore it with svc-cluster 0.3, finalize that upgrade, and go on from there"
    )


PLACE = RestoredNode(Path(), "c" * 32, NodeId(1), (NodeId(1), NodeId(2)), 2)


def test_a_restored_directory_says_by_which_restore_and_at_which_version(tmp_path: Path) -> None:
    """The real files: the id of the restore, which is that of the others, an incarnation, which is
    its own, and the active version, so that no older program starts on it."""
    scene = Scene()
    scene.filled()
    scene.cluster.raise_version()
    made = scene.backup()

    async def main() -> tuple[NodeIdentity, FormationRecord]:
        vault = await scene.vault()
        place = replace(PLACE, directory=tmp_path)
        await restore(vault, made, place, Wishes(), scene.said.append)
        disk = RealDisk(tmp_path / "wal", asyncio.get_running_loop())
        try:
            rng = random.Random(1)
            identity = open_identity(disk, PLACE.cluster_id, PLACE.node_id, rng)
            file = FormationFile(disk, identity.incarnation)
            await file.close()
            return identity, file.record
        finally:
            disk.close()

    identity, record = asyncio.run(main())
    assert identity.active_version == versions.NEWEST
    assert record == FormationRecord(restored=restore_identity(made, PLACE, Wishes()))
    assert record.restored in scene.said[-1]


@pytest.mark.parametrize("slot", [0, 1])
def test_a_damaged_slot_leaves_a_restored_directory_what_it_is(tmp_path: Path, slot: int) -> None:
    """Either one alone says by which restore it was made: a directory with a log that said nothing
    would be one that was always there, and vote. With both damaged no node starts on it."""
    scene = Scene()
    scene.filled()
    made = scene.backup()

    def damage(number: int) -> None:
        with (tmp_path / "wal" / FILE_NAME).open("r+b") as out:
            out.seek(number * SLOT_BYTES + 40)
            out.write(b"damage")

    async def main() -> FormationRecord:
        vault = await scene.vault()
        place = replace(PLACE, directory=tmp_path)
        await restore(vault, made, place, Wishes(), scene.said.append)
        disk = RealDisk(tmp_path / "wal", asyncio.get_running_loop())
        try:
            rng = random.Random(1)
            identity = open_identity(disk, PLACE.cluster_id, PLACE.node_id, rng)
            damage(slot)
            file = FormationFile(disk, identity.incarnation)
            await file.close()
            damage(1 - slot)
            with pytest.raises(IdentityError, match="are damaged"):
                FormationFile(disk, identity.incarnation)
            return file.record
        finally:
            disk.close()

    restored = FormationRecord(restored=restore_identity(made, PLACE, Wishes()))
    assert asyncio.run(main()) == restored


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        (Wishes(basins={"no-such-basin": "a-new-name"}), "has no basin no-such-basin"),
        (Wishes(basins={"first-basin": "Not A Name"}), "is no name of a basin"),
        (Wishes(basins={"first-basin": "same-name", "b-b-basin": "same-name"}), "one name"),
        (Wishes(positions={("first-basin", "none"): 3}), "has no stream none"),
        (Wishes(positions={("no-such-basin", "one"): 3}), "has no basin no-such-basin"),
        (Wishes({"first-basin": "first-basin"}, None, {("b-b-basin", "s"): 3}), "b-b-basin/s is"),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_is_refused_by_name(wishes: Wishes, told: str) -> None:
    """Before anything is served."""
    scene = Scene()
    scene.filled()
    scene.cluster.add("b-b-basin")
    made = scene.backup()
    with pytest.raises(BackupError, match=told):
        scene.restored(made, wishes)


def test_every_damaged_or_missing_object_is_named_and_nothing_is_restored_from_it() -> None:
    """Each object of a backup, with one bit turned, cut short, exchanged for another and gone."""
    reference = Scene()
    reference.filled()
    reference.backup()
    names = [name for name in reference.objects.objects if name.startswith(("parts/", "chunks/"))]
    assert len(names) >= 5
    for place in range(len(names)):
        for harm in range(4):
            scene = Scene()
            scene.filled()
            made = scene.backup()
            objects = scene.objects.objects
            found = [name for name in objects if name.startswith(("parts/", "chunks/"))]
            name, other = found[place], found[place - 1]
            data = bytearray(objects[name])
            data[(7 * place) % len(data)] ^= 1 << harm
            harmed = [bytes(data), objects[name][:-1], objects[other], b""][harm]
            objects[name] = harmed
            if not harmed:
                del objects[name]
            findings = scene.findings(made)
            assert findings, (name, harm)
            assert any(name in finding for finding in findings), (name, findings)
            with pytest.raises((DamagedError, NewerFormatError), match=name):
                scene.restored(made)


def test_rows_of_a_newer_release_are_refused() -> None:
    """By their encoding, and by the commands that have made them."""
    known = Known()
    part = GroupPart(1, 2, 1, 1, 1, known.encoding, tuple(known.basin), b"")
    check_known(part)
    for newer in (
        msgspec.structs.replace(part, encoding=known.encoding + 1),
        msgspec.structs.replace(part, kinds=(*part.kinds, "fold_space")),
    ):
        with pytest.raises(NewerFormatError, match="newer release"):
            check_known(newer)
    with pytest.raises(NewerFormatError, match="has format 2"):
        decode("parts/x", encode(msgspec.structs.replace(part, format=2)), GroupPart)


def test_a_directory_is_taken_only_where_it_is_empty_or_half_restored(tmp_path: Path) -> None:
    """A node's data is never deleted; what an interrupted restore has left is."""
    place = tmp_path / "data"
    begin(place, "backup 1")
    assert is_half_restored(place)
    for name in ("wal", "state"):
        (place / name).mkdir()
    (place / "wal" / "left").write_text("of an earlier attempt")
    with pytest.raises(BackupError, match="in use by another process"):
        begin(place, "backup 1")


def test_the_data_of_a_node_is_never_deleted(tmp_path: Path) -> None:
    """Whatever lies there, unless a restore has said that it is its own."""
    (tmp_path / "state").mkdir()
    with pytest.raises(BackupError, match=r"is not empty \(state\)"):
        begin(tmp_path, "backup 1")
    assert (tmp_path / "state").is_dir()
    assert not is_half_restored(tmp_path)
    (tmp_path / "wal").mkdir()
    (tmp_path / "restoring").touch()
    end(tmp_path)
    assert not is_half_restored(tmp_path)


def test_a_backup_without_some_records_is_not_restored() -> None:
    """A part that names too few chunks: every object is as it was written, and records lack."""
    scene = Scene()
    scene.filled()
    made = scene.backup()

    async def without_a_chunk() -> Manifest:
        vault = await scene.vault()
        entry = made.basins[0]
        part = await vault.part(entry)
        fewer = msgspec.structs.replace(part, chunks=part.chunks[1:])
        name = await vault.keep("parts/", encode(fewer))
        return msgspec.structs.replace(made, basins=(msgspec.structs.replace(entry, part=name),))

    harmed = asyncio.run(without_a_chunk())
    assert any("are in no chunk" in finding for finding in scene.findings(harmed))
    with pytest.raises(DamagedError, match="are in no chunk"):
        scene.restored(harmed)


def test_a_node_does_not_start_over_half_a_restore(tmp_path: Path) -> None:
    """Whatever it has: it is told to repeat the restore, and nothing in the directory changes."""
    begin(tmp_path, "backup 1")
    there = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises(DirectoryError, match="is half restored from a backup: repeat"):
        check_data_dir(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == there
