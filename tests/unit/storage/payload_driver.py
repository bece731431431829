"""Shared by the tests of payload files: small ones, and a log that uses them."""

from __future__ import annotations

from dataclasses import replace

from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import EntryName, PayloadPlace
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.wal import Wal
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.wal_driver import SMALL, TAG, open_wal

FILE_BYTES = 32 * 1024
BULK = 500
"""Longer than `bulk_bytes_min`."""
SMALL_FILES = PayloadSettings(writes=True, file_bytes=FILE_BYTES, bulk_bytes_min=400)
APART = replace(SMALL, payload=SMALL_FILES)


def open_files(
    disk: FakeDisk, settings: PayloadSettings = SMALL_FILES, named: tuple[int, ...] = ()
) -> PayloadFiles:
    """Files that take entries."""
    files = PayloadFiles(disk, TAG, settings)
    files.start(named)
    disk.run()
    return files


def put_into(files: PayloadFiles, disk: FakeDisk, entry: EntryName, payload: bytes) -> PayloadPlace:
    """Write an entry and sync it."""
    assert files.takes(len(payload))
    place, writes = files.put(entry, payload)
    disk.write_sync(writes)
    files.settled(files.take_filled())
    disk.run()
    return place


def open_apart(disk: FakeDisk) -> Wal:
    """A log whose large entries go into payload files."""
    wal = open_wal(disk, APART)
    wal.payloads.start(wal.placed_numbers())
    disk.run()
    return wal
