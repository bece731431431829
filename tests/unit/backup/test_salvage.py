"""A damaged replica that is the only one: what can be read of it is in the backup, and what cannot
is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.backup.create import BackupRun, Creation
from svc_cluster.backup.quorum_loss import open_recovery
from svc_cluster.backup.restore import Wishes
from svc_cluster.base.checksum import crc32c
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import CATALOG_GROUP, Generation, LogIndex, SeqNum, StreamId, TimestampMs
from svc_cluster.base.log_ops import AppendEntries, CreateReplica, LogEntry, LogOp
from svc_cluster.codec.log_entry import encode_command, join_commands
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.stream_config import StreamConfig
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.storage.payload.payload_frame import PayloadPlace
from svc_cluster.storage.payload.pointer import Pointer, encode_pointer
from svc_cluster.stream import keys
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import BasinCommand, CreateStream, ExpirePrefix
from svc_cluster.stream.scan import read_batches
from tests.unit.backup.left_directory import leave, noops, tear
from tests.unit.backup.memory_cluster import TERM, Basin
from tests.unit.backup.scene import Scene

BASIN, GENERATION = "first-basin", 9
ONE, TWO = StreamId(1), StreamId(2)
GONE = 77
"""The number of a payload file that is not there."""
NEVER_MS = TimestampMs(0)


def damage(basin: Basin, *damaged: bytes) -> None:
    """The bytes of these rows are in a file that is gone: nothing else of the store is harmed."""
    for key in damaged:
        value = basin.rows.rows[key]
        pointer = Pointer(PayloadPlace(GONE, 4096, len(value), crc32c(value)), b"")
        full = generation_prefix(Generation(GENERATION)) + key
        basin.rows.rows[key] = encode_pointer(full, pointer)


class Left:
    """A directory with the only replica of a basin, and what becomes of it."""

    def __init__(self, place: Path, scene: Scene, basin: Basin) -> None:
        scene.cluster.cluster_id = "c"
        self.scene = scene
        self.basin = basin
        self.place = place
        self.told: list[str] = []
        self.more: list[LogEntry] = []

    def leave(self) -> None:
        """Make the directory."""
        group = int(self.scene.cluster.group_of(BASIN))
        catalog = self.scene.cluster.catalog
        logs: dict[int, list[LogOp]] = {
            CATALOG_GROUP: [CreateReplica(Generation(1)), noops(1, catalog.applied_index, TERM)],
            group: [
                CreateReplica(Generation(GENERATION)),
                noops(1, self.basin.state.applied_index, TERM),
                *([AppendEntries(tuple(self.more))] if self.more else []),
            ],
        }
        rows = {1: self.scene.cluster.catalog_rows.rows, GENERATION: self.basin.rows.rows}
        asyncio.run(leave(self.place / "n1", 1, logs, rows=rows))

    def recovered(self) -> Manifest:
        async def main() -> Manifest:
            work = self.place / "work"
            work.mkdir()
            found = await open_recovery([self.place / "n1"], work, SystemClock())
            try:
                self.told = found.told()
                creation = Creation("9.9", is_full=True, chunk_bytes=400)
                vault = await self.scene.vault()
                said = self.scene.said.append
                return await BackupRun(vault, found, SystemClock(), creation, said).run()
            finally:
                await found.close()

        made = asyncio.run(main())
        assert self.scene.findings(made) == []
        return made

    def restored(self, made: Manifest, cut: int | None = None, stream: str = "one") -> BasinState:
        wishes = Wishes() if cut is None else Wishes(positions={(BASIN, stream): cut})
        files = self.scene.restored(made, wishes)[0]
        return BasinState(files.groups[int(self.scene.cluster.group_of(BASIN))])


def left(place: Path, *damaged: bytes) -> Left:
    """Ten batches of three records in each of two streams; these rows are damaged."""
    scene = Scene()
    basin = scene.filled()
    damage(basin, *damaged)
    return Left(place, scene, basin)


def numbers(state: BasinState, name: str) -> tuple[int, int]:
    """The first record and the tail of a stream that is read from its beginning to its end."""
    stream = state.stream_by_name(name)
    assert stream is not None
    first = reached = int(stream.trim_point)
    while reached < stream.tail_seq_num:
        step = read_batches(state.reader, stream, reached, ReadBounds(), now_ms=NEVER_MS)
        reached = int(step.next_seq_num)
    return first, reached


def batch(number: int, stream: StreamId = ONE) -> bytes:
    return keys.batch_key(stream, 3 * number + 2)


def lines(told: Iterable[str], word: str) -> list[str]:
    return [line.strip() for line in told if word in line]


def test_one_damaged_batch_is_all_that_is_lost(tmp_path: Path) -> None:
    """The stream goes on behind it, and what lies ahead of it can be restored as well."""
    here = left(tmp_path, batch(4))
    here.leave()
    made = here.recovered()
    assert lines(here.told, "one: ") == [
        "one: ends before record 30",
        "one: the records 12 to 14 cannot be read, and are LOST",
        "one: it goes on from record 15; what can be read ahead of that is in the backup as well: "
        f"restore it elsewhere with --until {BASIN}/one=12",
    ]
    assert "what is left of it is damaged" in lines(here.told, f"{BASIN}: ")[0]
    state = here.restored(made)
    assert (numbers(state, "one"), numbers(state, "two")) == ((15, 30), (0, 30))
    ahead = here.restored(made, 12)
    assert (numbers(ahead, "one"), numbers(ahead, "two")) == ((0, 12), (0, 30))


def test_each_run_between_damaged_batches_can_be_restored(tmp_path: Path) -> None:
    """A cut within a loss is one at its beginning."""
    here = left(tmp_path, batch(2), batch(5), batch(6))
    here.leave()
    made = here.recovered()
    assert "the records 6 to 8, 15 to 20 cannot be read" in lines(here.told, "one: ")[1]
    found = [numbers(here.restored(made, cut), "one") for cut in (3, 6, 8, 15, 18, 24)]
    assert found == [(0, 3), (0, 6), (0, 6), (9, 15), (9, 15), (21, 24)]
    assert numbers(here.restored(made), "one") == (21, 30)


def test_a_stream_whose_last_records_are_lost_ends_ahead_of_them(tmp_path: Path) -> None:
    here = left(tmp_path, batch(8), batch(9))
    here.leave()
    made = here.recovered()
    assert lines(here.told, "one: ") == [
        "one: ends before record 24",
        "one: the records 24 to 29 cannot be read, and are LOST",
    ]
    assert numbers(here.restored(made), "one") == (0, 24)


def test_a_stream_without_any_batch_goes_on_with_its_next_number(tmp_path: Path) -> None:
    here = left(tmp_path, *(batch(number) for number in range(10)))
    here.leave()
    made = here.recovered()
    assert "one: the records 0 to 29 cannot be read, and are LOST" in lines(here.told, "one: ")
    assert numbers(here.restored(made), "one") == (30, 30)


def test_a_stream_that_lacks_its_row_has_its_records(tmp_path: Path) -> None:
    """And is kept for ever, as nobody knows how long it was to be kept. It is told what else is
    lost with the row."""
    here = left(tmp_path, keys.stream_key(ONE))
    here.leave()
    made = here.recovered()
    assert lines(here.told, "one: its row is LOST") == [
        "one: its row is LOST: it has what can be read of its records 0 to 29, keeps them for ever "
        "and goes on from record 30; records from 30 on and ahead of 0 may be LOST, and its "
        "fencing token and configuration are: set them anew"
    ]
    assert lines(here.told, "the row of stream 1 cannot be read")
    state = here.restored(made)
    assert numbers(state, "one") == (0, 30)
    stream = state.stream_by_name("one")
    assert stream is not None
    assert stream.config.retention.age_seconds is None


def test_a_stream_that_lacks_its_row_says_what_may_be_lost_at_its_ends(tmp_path: Path) -> None:
    """Nobody knows any more that there were batches ahead of the first and behind the last."""
    here = left(tmp_path, keys.stream_key(ONE), batch(0), batch(8), batch(9))
    here.leave()
    made = here.recovered()
    (told,) = lines(here.told, "one: its row is LOST")
    assert "goes on from record 24; records from 24 on and ahead of 3 may be LOST" in told
    assert numbers(here.restored(made), "one") == (3, 24)


def test_a_stream_that_lacks_its_row_and_every_batch_is_left_out(tmp_path: Path) -> None:
    """Its numbers would begin again with 0, and readers that have gone on from the last would wait
    for ever. It is named, what its log has is not applied to it, and another may have its name."""
    scene = Scene()
    basin = scene.filled()
    basin.trim(ONE, 30)
    for number in range(10):
        basin.rows.rows.pop(batch(number), None)
    damage(basin, keys.stream_key(ONE))
    here = Left(tmp_path, scene, basin)
    assert basin.state.basin is not None
    anew = CreateStream(basin.state.basin.next_stream_id, "one", StreamConfig(), TimestampMs(1))
    commands: list[BasinCommand] = [ExpirePrefix(ONE, SeqNum(30), NEVER_MS), anew]
    for index, command in enumerate(commands, basin.state.applied_index + 1):
        payload = join_commands([encode_command(command)])
        here.more.append(LogEntry(LogIndex(index), TERM, payload))
    here.leave()
    made = here.recovered()
    assert lines(here.told, "one: ") == [
        "one: ends before record 0",
        "one: its row is LOST, and no record of it can be read: it is LEFT OUT, as nobody knows "
        "from which record it would go on",
    ]
    assert lines(here.told, "the row of stream 1 cannot be read")
    state = here.restored(made)
    one = state.stream_by_name("one")
    assert one is not None
    assert one.stream_id == anew.stream_id
    assert numbers(state, "two") == (0, 30)


def test_a_stream_that_lacks_its_name_has_it_from_its_row(tmp_path: Path) -> None:
    here = left(tmp_path, keys.name_key("one"))
    here.leave()
    made = here.recovered()
    assert lines(here.told, "the row of the name 'one' cannot be read")
    assert numbers(here.restored(made), "one") == (0, 30)


def test_a_stream_that_lacks_both_gets_another_name(tmp_path: Path) -> None:
    here = left(tmp_path, keys.name_key("one"), keys.stream_key(ONE))
    here.leave()
    made = here.recovered()
    (told,) = lines(here.told, "recovered-1: a stream whose name and row are LOST")
    assert told.endswith("its fencing token and configuration are: set them anew")
    assert numbers(here.restored(made), "recovered-1") == (0, 30)


def test_the_log_is_applied_to_what_can_be_read(tmp_path: Path) -> None:
    """What a damaged stream has no use for ends nothing of the others."""
    here = left(tmp_path, keys.stream_key(ONE), batch(9))
    at = here.basin.state.applied_index + 1
    for place, stream in enumerate((ONE, TWO)):
        payload = join_commands([encode_command(ExpirePrefix(stream, SeqNum(27), NEVER_MS))])
        here.more.append(LogEntry(LogIndex(at + place), TERM, payload))
    here.leave()
    made = here.recovered()
    assert f"index {at + 1}" in lines(here.told, f"{BASIN}: ")[0]
    state = here.restored(made)
    assert numbers(state, "two") == (27, 30)
    assert numbers(state, "one") == (27, 27)


def test_a_basin_that_lacks_its_own_row_is_lost_by_name(tmp_path: Path) -> None:
    here = left(tmp_path, keys.BASIN_KEY)
    here.leave()
    assert here.recovered().basins == ()
    assert lines(here.told, f"{BASIN}: LOST, what is left cannot be read: the row that says the b")


def test_of_a_damaged_block_its_own_rows_are_lost_and_no_others(tmp_path: Path) -> None:
    """A block holds 16 KiB. All records are accounted for: restored, in the backup, or named."""
    scene = Scene()
    basin = scene.cluster.add(BASIN)
    basin.create("one")
    for number in range(2_000):
        basin.append(ONE, b"x" * 150, count=1, at_ms=10_000 + number)
    here = Left(tmp_path, scene, basin)
    here.leave()
    tear(tmp_path / "n1")
    made = here.recovered()
    _, lost, more = lines(here.told, "one: ")
    first, last = (int(word) for word in lost.split() if word.isdigit())
    assert 20 <= last + 1 - first <= 120, lost
    assert numbers(here.restored(made), "one") == (last + 1, 2_000)
    assert more.endswith(f"--until {BASIN}/one={first}")
    assert numbers(here.restored(made, first), "one") == (0, first)
