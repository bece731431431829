"""What earlier backups have is used where the cluster has gone on from it, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError, InterruptedSourceError
from svc_cluster.backup.backup_manifest import GroupEntry, GroupPart
from svc_cluster.backup.continued import went_back
from svc_cluster.backup.coverage import RecordRange
from svc_cluster.backup.row_frames import Row, frame
from svc_cluster.backup.source import GroupContent, GroupUnreachableError, StreamBegins
from svc_cluster.backup.vault import CLAIMS, PROGRESS
from svc_cluster.base.ids import LogIndex, StreamId, Term, TimestampMs
from svc_cluster.catalog.catalog_commands import DeleteBasin
from svc_cluster.stream import keys
from svc_cluster.stream.rows import AppliedRow, encode_applied
from tests.unit.backup.memory_cluster import AT_MS, Basin, MemoryCluster
from tests.unit.backup.memory_objects import KilledError
from tests.unit.backup.scene import Scene
from tests.unit.backup.test_create import group, same_but_the_place


def cluster(word: str, cuts: Sequence[int], same: int = 0) -> tuple[MemoryCluster, Basin]:
    """Always the same data directories: one stream with batches of so many records each, the first
    ones (`same`) whatever the word is; and another stream with one batch."""
    made = MemoryCluster()
    basin = made.add("first-basin")
    first, second = basin.create("one"), basin.create("two")
    basin.append(second, b"two" * 50, count=1, at_ms=9_000)
    for place, count in enumerate(cuts):
        text = "same" if place < same else word
        basin.append(first, f"{text}{place}".encode() * 20, count=count, at_ms=10_000 + place)
    return made, basin


def is_the_basin(scene: Scene, basin: Basin) -> None:
    """The next backup is whole and is what the basin is now."""
    made = scene.backup()
    assert scene.findings(made) == []
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


def went_anew(scene: Scene) -> list[str]:
    return [line for line in scene.said if "records are taken anew" in line]


def test_a_cluster_whose_disks_were_put_back_shares_nothing_behind_that() -> None:
    """It is at an earlier index than the last backup has, with other records at the same places;
    and batches that end elsewhere."""
    for cuts, now in (([3] * 10, [3] * 8), ([3, 3, 10, 1], [3, 3, 2]), ([3, 3, 10], [3])):
        scene = Scene()
        scene.cluster, _ = cluster("old", cuts, same=2)
        scene.backup()
        scene.cluster, basin = cluster("NEW", now, same=2)
        is_the_basin(scene, basin)
        assert len(went_anew(scene)) == 1 and "its data directories were put back" in scene.said[1]


@pytest.mark.parametrize("now", [[3] * 12, [3] * 10 + [1, 1], [5] * 12, [3] * 4 + [1] * 9, [30]])
def test_a_stream_that_has_gone_on_differently_is_read_anew(now: list[int]) -> None:
    """The index is beyond that of the last backup by then: its last batch tells."""
    scene = Scene()
    scene.cluster, _ = cluster("old", [3] * 10, same=4)
    scene.backup()
    scene.cluster, basin = cluster("NEW", now, same=4)
    for number in range(12):
        basin.append(StreamId(2), b"two", count=1, at_ms=20_000 + number)
    is_the_basin(scene, basin)
    assert went_anew(scene) == [
        "first-basin: 1 streams do not go on from what is kept of them: their records are taken "
        "anew"
    ]


def test_what_an_attempt_has_kept_ahead_of_that_is_not_used_behind_it() -> None:
    """Nor by the attempt after one that was killed in its turn: notes that do not go on are gone
    before anything else is noted."""
    for dies in range(6, 40):
        scene = Scene()
        scene.cluster, _ = cluster("old", [3] * 10, same=2)
        scene.objects.dies_at = 2 * 9
        with pytest.raises(KilledError):
            scene.backup()
        assert [name for name in scene.objects.objects if name.startswith(PROGRESS)]
        scene.cluster, basin = cluster("NEW", [3] * 14, same=2)
        scene.objects.dies_at = scene.objects.operations * 2 + dies
        with pytest.raises(KilledError):
            scene.backup()
        scene.objects.dies_at = None
        is_the_basin(scene, basin)


def test_a_base_of_before_is_not_vouched_for_by_notes_of_behind() -> None:
    """An attempt that has dropped the last backup's records was killed: its own go on, those of the
    last backup do not."""
    for dies in range(6, 40):
        scene = Scene()
        scene.cluster, _ = cluster("old", [3] * 10, same=4)
        scene.backup()
        scene.cluster, basin = cluster("NEW", [3] * 4 + [5] * 8, same=4)
        scene.objects.dies_at = scene.objects.operations * 2 + dies
        with pytest.raises(KilledError):
            scene.backup()
        scene.objects.dies_at = None
        is_the_basin(scene, basin)


def applied(log_index: int, term: int, digest: int = 7) -> Row:
    row = AppliedRow(LogIndex(log_index), Term(term), digest)
    return keys.APPLIED_KEY, encode_applied(row)


@pytest.mark.parametrize(
    ("known", "now", "wanted"),
    [
        ((10, 3), (10, 3), False),
        ((10, 3), (11, 3), False),
        ((10, 3), (11, 4), False),
        ((10, 3), (9, 3), True),
        ((10, 3), (9, 4), True),
        ((10, 3), (10, 4), True),
        ((10, 3), (10, 2), True),
        ((10, 3), (11, 2), True),
    ],
)
def test_neither_index_nor_term_goes_back(
    known: tuple[int, int], now: tuple[int, int], wanted: bool
) -> None:
    """Each pair is an applied index and its term."""
    entry = GroupEntry(2, "first-basin", known[0], AT_MS, "parts/x")
    part = GroupPart(1, 2, known[0], known[1], AT_MS, 1, (), frame(*applied(*known)))
    content = GroupContent("cluster-a", 2, now[0], now[1], AT_MS, 1, (), (applied(*now),))
    assert went_back(entry, part, content) == wanted
    assert went_back(entry, None, content) == (now[0] < known[0])


@pytest.mark.parametrize(
    "rows",
    [b"", frame(*applied(10, 3))[:-1], frame(*applied(10, 3, digest=8)), frame(b"\x01", b"basin")],
    ids=["none", "cut", "another", "not there"],
)
def test_a_group_that_is_not_known_to_be_the_same_at_its_index_went_back(rows: bytes) -> None:
    """The last backup's digest of all entries is another one, is cut, or is not there."""
    entry = GroupEntry(2, "first-basin", 10, AT_MS, "parts/x")
    content = GroupContent(
        "cluster-a", 2, 10, 3, AT_MS, 1, (), ((b"", b"before it"), applied(10, 3))
    )
    part = GroupPart(1, 2, 10, 3, AT_MS, 1, (), rows)
    assert went_back(entry, part, content)
    same = GroupPart(1, 2, 10, 3, AT_MS, 1, (), b"".join(frame(*row) for row in content.rows))
    assert not went_back(entry, same, content)


def test_another_history_that_came_to_the_same_index_and_term_is_taken_anew() -> None:
    """The disks were put back, and the next election made the same term as the one before: the last
    record is another one, of the same length and the same moment."""
    scene = Scene()
    scene.cluster, old = cluster("old", [3] * 10, same=9)
    before = scene.backup()
    scene.cluster, basin = cluster("NEW", [3] * 10, same=9)
    assert old.rows.rows != basin.rows.rows
    is_the_basin(scene, basin)
    assert old.state.applied_index == basin.state.applied_index == before.basins[0].applied_index
    assert len(went_anew(scene)) == 1
    assert "its data directories were put back" in went_anew(scene)[0]


def test_the_same_history_at_the_same_index_is_not_read_again() -> None:
    """What another process has of it is the same, byte for byte."""
    scene = Scene()
    scene.cluster, _ = cluster("old", [3] * 10)
    scene.backup()
    scene.cluster, basin = cluster("old", [3] * 10)
    is_the_basin(scene, basin)
    assert scene.cluster.read_batches == 0
    assert "first-basin: nothing has changed" in scene.said


def test_an_unchanged_index_of_another_term_is_a_change() -> None:
    """The group came to the same index on another way."""
    scene = Scene()
    scene.cluster, _ = cluster("old", [3] * 10, same=2)
    scene.backup()
    scene.cluster, basin = cluster("NEW", [3] * 10, same=2)
    real = scene.cluster.content

    async def content(group_id: int) -> GroupContent:
        found = await real(group_id)
        found_anew = {each: getattr(found, each) for each in found.__slots__}
        return GroupContent(**{**found_anew, "applied_term": found.applied_term + 1})

    scene.cluster.content = content  # type: ignore[method-assign]
    is_the_basin(scene, basin)


# -- answers that end early, or are none


class Answers:
    """Stands for the records of a cluster: `change` may alter each answer."""

    def __init__(self, scene: Scene) -> None:
        self.real = scene.cluster.records
        scene.cluster.records = self.records  # type: ignore[method-assign]

    async def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        async for item in self.real(group_id, applied_index, ranges):
            yield item


class Deaf(Answers):
    """Ends so many answers before they have brought anything."""

    def __init__(self, scene: Scene, count: int, basin: str) -> None:
        super().__init__(scene)
        self._scene = scene
        self._left = count
        self._basin = basin

    async def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        self._left -= 1
        if self._left >= 0:
            raise InterruptedSourceError("no replica of the group is here")
        if self._basin:
            self._scene.cluster.decide(DeleteBasin(self._basin, TimestampMs(AT_MS)))
            raise GroupUnreachableError("no replica of the group is here")
        async for item in super().records(group_id, applied_index, ranges):
            yield item


def test_answers_that_bring_nothing_are_borne_as_long_as_the_source_bears_them() -> None:
    """A node that restarts takes more than a few of them."""
    scene = Scene()
    basin = scene.filled()
    Deaf(scene, 50, "")
    is_the_basin(scene, basin)
    basin.append(StreamId(1), b"more", count=1, at_ms=50_000)
    Deaf(scene, 50, "")
    is_the_basin(scene, basin)


def test_a_basin_that_is_deleted_while_its_records_are_read_is_missed() -> None:
    """The others are in the backup; the deleted one is named as not in it."""
    scene = Scene()
    scene.filled()
    scene.cluster.add("second-basin")
    Deaf(scene, 3, "first-basin")
    made = scene.backup()
    assert [entry.basin for entry in made.basins] == ["second-basin"]
    assert made.missed == ("first-basin",)
    assert not any(name.startswith(PROGRESS) for name in scene.objects.objects)


class Spoilt(Answers):
    """Gives what was not asked for, or not there."""

    def __init__(self, scene: Scene, how: str) -> None:
        super().__init__(scene)
        self._basin = scene.cluster.basins[group(scene)]
        self._how = how

    async def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        rows = [row for row in self._basin.rows.rows.items() if row[0][:1] == BATCH]
        first = [row for row in rows if keys.batch_key_parts(row[0])[0] == 1]
        second = [row for row in rows if keys.batch_key_parts(row[0])[0] == 2]
        yield StreamBegins(1, 0, gone=False)
        yield first[0]
        if self._how == "twice":
            yield first[0]
        elif self._how == "beyond":
            for row in first[1:]:
                yield row
        elif self._how == "another stream's":
            yield second[0]


BATCH = keys.batches_range(StreamId(1))[0][:1]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("twice", "records of stream 1 out of their order"),
        ("beyond", "records of stream 1 out of their order"),
        ("another stream's", "a batch of stream 2, and was not asked"),
    ],
)
def test_a_node_that_gives_what_was_not_asked_for_ends_the_backup(how: str, text: str) -> None:
    """A batch again, one beyond the end, or one of another stream than it has named: none of it is
    taken, and there is no backup."""
    scene = Scene()
    basin = scene.filled()
    real = scene.cluster.content

    async def content(group_id: int) -> GroupContent:
        found = await real(group_id)
        if how == "beyond" and group_id == group(scene):
            basin.append(StreamId(1), b"beyond", count=1, at_ms=50_000)
        return found

    scene.cluster.content = content  # type: ignore[method-assign]
    Spoilt(scene, how)
    with pytest.raises(DamagedError, match=text):
        scene.backup()
    assert asyncio.run(scene.objects.list("manifests/")) == []


def test_notes_stay_until_the_backup_is_there() -> None:
    """One that is refused at its very end costs no record once more."""
    scene = Scene()
    scene.filled()
    put = scene.objects.put_new

    async def marked(name: str, data: bytes) -> bool:
        if name.startswith(CLAIMS):
            await put("pruning/0123456789abcdef", b"")
        return await put(name, data)

    scene.objects.put_new = marked  # type: ignore[method-assign]
    with pytest.raises(BackupError, match="somebody prunes"):
        scene.backup()
    chunks = {name for name in scene.objects.objects if name.startswith("chunks/")}
    noted = {f"chunks/{n.rpartition('/')[2]}" for n in scene.objects.objects if PROGRESS in n}
    assert noted == chunks != set()
    scene.objects.put_new = put  # type: ignore[method-assign]
    del scene.objects.objects["pruning/0123456789abcdef"]
    scene.cluster.read_batches = 0
    scene.backup()
    assert scene.cluster.read_batches == 0
