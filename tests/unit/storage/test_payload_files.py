"""Payload files: what stands in them, how they are used again, and what is refused."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import pytest

from svc_cluster.base.checksum import crc32c
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import (
    BLOCK_BYTES,
    FRAME_HEADER_BYTES,
    EntryName,
    PayloadPlace,
    decode_head,
    encode_frame,
    encode_head,
    file_name,
    file_number,
    frame_bytes,
    holds,
)
from svc_cluster.storage.payload.payload_settings import PayloadFormatError, PayloadSettings
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.payload_driver import (
    BULK,
    FILE_BYTES,
    SMALL_FILES,
    open_files,
    put_into,
)
from tests.unit.storage.wal_driver import TAG

ENTRY = EntryName(3, 17, 2)
SAMPLE = Path(__file__).parent / "samples" / "payload-format-1.gz"
SAMPLE_PAYLOADS = [b"first " * 100, b"second " * 900]


def names(disk: FakeDisk) -> list[str]:
    return [name for name in disk.list_names() if file_number(name) is not None]


def sample() -> bytes:
    """The file number 7 of the node TAG, with two entries, as this release writes it."""
    data = encode_head(7, TAG)
    for index, payload in enumerate(SAMPLE_PAYLOADS, start=5):
        header, padding, _ = encode_frame(TAG, 7, len(data), EntryName(1, index, 4), payload)
        data += header + payload + padding
    return data


def test_format_1_stays_what_it_is() -> None:
    """A kept file of format 1 is what is written today, and its entries are read."""
    kept = gzip.decompress(SAMPLE.read_bytes())
    assert kept == sample()
    disk = FakeDisk()
    disk.create(file_name(7), len(kept))
    disk.files[file_name(7)].data[:] = kept
    files = PayloadFiles(disk, TAG, SMALL_FILES)
    offset = BLOCK_BYTES
    for index, payload in enumerate(SAMPLE_PAYLOADS, start=5):
        entry = EntryName(1, index, 4)
        _, _, place = encode_frame(TAG, 7, offset, entry, payload)
        assert files.read_entry(place, entry) == payload
        offset += frame_bytes(len(payload))


def test_a_name_says_its_number_and_nothing_else_is_one() -> None:
    """Only names that this release would give are payload files."""
    assert [file_number(file_name(n)) for n in (1, 99_999_999, 100_000_000)] == [
        1,
        99_999_999,
        100_000_000,
    ]
    for other in ("payload-1.segment", "payload-0000000x.segment", "wal-00000001.segment", ""):
        assert file_number(other) is None


def test_every_flipped_bit_of_a_frame_is_seen() -> None:
    """A bit of the header or of the payload that has changed makes the entry unreadable."""
    disk = FakeDisk()
    files = open_files(disk)
    payload = bytes(range(256)) * 2
    place = put_into(files, disk, ENTRY, payload)
    name = file_name(place.number)
    assert files.read_entry(place, ENTRY) == payload
    for at in range(place.offset - FRAME_HEADER_BYTES, place.offset + place.length):
        disk.flip(name, at, 1 << at % 8)
        assert files.read_entry(place, ENTRY) is None, at
        disk.flip(name, at, 1 << at % 8)
    assert files.read_entry(place, ENTRY) == payload


def test_a_frame_is_of_one_node_number_offset_and_entry() -> None:
    """The header is no other node's, file's, place's or entry's."""
    payload = b"x" * 600
    header, _, place = encode_frame(TAG, 4, 8192, ENTRY, payload)
    assert holds(header, TAG, place, ENTRY)
    assert not holds(header, TAG + 1, place, ENTRY)
    assert not holds(header, TAG, place._replace(number=5), ENTRY)
    assert not holds(header, TAG, place._replace(offset=place.offset + BLOCK_BYTES), ENTRY)
    assert not holds(header, TAG, place._replace(length=599), ENTRY)
    assert not holds(header, TAG, place._replace(checksum=1), ENTRY)
    for other in (EntryName(4, 17, 2), EntryName(3, 18, 2), EntryName(3, 17, 3)):
        assert not holds(header, TAG, place, other)
    assert not holds(header[:-1], TAG, place, ENTRY)


def test_a_recycled_file_shows_nothing_of_its_earlier_life() -> None:
    """The same entry at the same offset of the same file is not found under the new number."""
    disk = FakeDisk()
    files = open_files(disk)
    payload = b"p" * BULK
    first = put_into(files, disk, ENTRY, payload)
    while put_into(files, disk, ENTRY, payload).number == first.number:
        pass
    file = disk.files[file_name(first.number)]
    files.retire(first.number)
    disk.run()
    while put_into(files, disk, EntryName(9, 9, 9), b"q" * BULK).number <= 3:
        pass
    renamed = next(name for name, one in disk.files.items() if one is file)
    number = file_number(renamed)
    assert number == 4
    assert decode_head(bytes(file.data[:BLOCK_BYTES])) == (1, TAG, number)
    assert files.read(first) is None
    later = PayloadPlace(number, 2 * BLOCK_BYTES + FRAME_HEADER_BYTES, BULK, first.checksum)
    assert files.read(later) == payload, "the old bytes are still there"
    assert files.read_entry(later, ENTRY) is None


def test_frames_share_no_block() -> None:
    """Each frame begins at a block of its own, so a torn write hurts no neighbour."""
    disk = FakeDisk()
    files = open_files(disk)
    places = [
        put_into(files, disk, ENTRY, b"x" * size) for size in (BULK, 4032, 4033, BLOCK_BYTES, BULK)
    ]
    starts = [place.offset - FRAME_HEADER_BYTES for place in places]
    assert starts == [4096, 8192, 12288, 20480, 28672]


def test_what_finds_no_room_is_not_taken_and_counted() -> None:
    """A full disk makes no file, and without one entries stay in the log; short ones always do."""
    disk = FakeDisk(free=FILE_BYTES + 100)
    files = open_files(disk)
    assert not files.takes(SMALL_FILES.bulk_bytes_min - 1)
    assert files.inline_entries == 0
    for _ in range(7):
        put_into(files, disk, ENTRY, b"x" * BULK)
    assert not files.takes(BULK)
    assert files.inline_entries == 1
    assert not files.takes(FILE_BYTES), "longer than a file"
    assert names(disk) == [file_name(1)]
    disk.free = 10 * FILE_BYTES
    assert not files.takes(BULK)
    disk.run()
    assert files.takes(BULK), "there is room again"


def test_a_disk_that_is_found_full_while_a_file_is_made_hurts_nobody() -> None:
    """The reservation is refused later than it was asked for; the next one is tried again."""
    disk = FakeDisk(free=10 * FILE_BYTES)
    files = PayloadFiles(disk, TAG, SMALL_FILES)
    files.start(())
    disk.free = 0
    disk.run()
    assert not files.takes(BULK)
    assert names(disk) == []
    disk.free = 10 * FILE_BYTES
    assert not files.takes(BULK)
    disk.run()
    assert files.takes(BULK)


def test_a_start_keeps_what_is_named_and_tells_what_is_gone() -> None:
    """Named files stay and get nothing more, others are used again, numbers are new."""
    disk = FakeDisk()
    files = open_files(disk)
    payload = b"x" * 3000
    places = [put_into(files, disk, ENTRY, payload) for _ in range(20)]
    numbers = sorted({place.number for place in places})
    assert len(numbers) == 3
    after = disk.crash()
    again = PayloadFiles(after, TAG, SMALL_FILES)
    assert again.start([numbers[0], 40]) == [40]
    after.run()
    assert again.closed_numbers() == [numbers[0]]
    assert again.read(places[0]) == payload
    fresh = put_into(again, after, ENTRY, payload)
    assert fresh.number > 40


def test_free_files_are_removed_once_nobody_needs_them() -> None:
    """As many as were begun lately, and one, stay for the next entries."""
    disk = FakeDisk()
    files = open_files(disk)
    places = [put_into(files, disk, ENTRY, b"x" * 3000) for _ in range(35)]
    numbers = sorted({place.number for place in places})
    assert len(numbers) == 5
    for number in numbers[:-1]:
        files.retire(number)
    files.shrink()
    disk.run()
    assert disk.removals == []
    files.shrink()
    disk.run()
    assert len(disk.removals) == 3
    assert len(names(disk)) == 3


def test_files_that_are_turned_off_are_read_and_go() -> None:
    """Without `writes` nothing is taken, what is named is read, and the rest is removed."""
    disk = FakeDisk()
    files = open_files(disk)
    places = [put_into(files, disk, ENTRY, b"x" * 3000) for _ in range(14)]
    off = dataclasses.replace(SMALL_FILES, writes=False)
    after = disk.crash()
    files = open_files(after, off, (places[-1].number,))
    assert not files.takes(BULK)
    assert files.inline_entries == 0
    assert files.read(places[-1]) == b"x" * 3000
    files.shrink()
    after.run()
    assert names(after) == [file_name(places[-1].number)]


@pytest.mark.parametrize("size", [0, 4096, FILE_BYTES - 4096])
def test_a_file_that_a_crash_cut_is_removed(size: int) -> None:
    """What was being made is shorter than it should be: it held nothing."""
    disk = FakeDisk()
    disk.create(file_name(3), size)
    files = open_files(disk)
    assert file_name(3) not in names(disk)
    assert put_into(files, disk, ENTRY, b"x" * BULK).number == 4


def test_files_of_another_format_or_node_are_refused() -> None:
    """The text names the file and says what to do."""
    disk = FakeDisk()
    open_files(disk)
    with pytest.raises(PayloadFormatError, match="another node identity"):
        PayloadFiles(disk.crash(), TAG + 1, SMALL_FILES)
    file = disk.files[file_name(1)]
    head = bytearray(file.data[:BLOCK_BYTES])
    head[8] = 2
    head[32:36] = crc32c(bytes(head[:32])).to_bytes(4, "little")
    file.data[:BLOCK_BYTES] = head
    with pytest.raises(PayloadFormatError, match="payload format 2, this program reads format 1"):
        PayloadFiles(disk, TAG, SMALL_FILES)


def test_settings_that_no_file_can_have_are_refused() -> None:
    """Lengths are whole blocks."""
    for size in (4096, 10_000):
        with pytest.raises(ValueError, match="file_bytes"):
            PayloadSettings(file_bytes=size)
    with pytest.raises(ValueError, match="bulk_bytes_min"):
        PayloadSettings(bulk_bytes_min=0)
