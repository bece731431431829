"""Targets of what a start reads back: the log's files, payload files, rows, backups, settings."""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.backup_manifest import GroupPart, Manifest, Progress, decode, decompressed
from svc_cluster.backup.row_frames import frame, rows_of
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.catalog.basin_record import BasinRecord, basin_from_bytes, basin_to_bytes
from svc_cluster.catalog.node_rows import decode_node
from svc_cluster.catalog.token_row import token_from_bytes, token_to_bytes
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import load
from svc_cluster.storage.manifest import whole_end
from svc_cluster.storage.payload import payload_frame, pointer
from svc_cluster.storage.wal import reach
from svc_cluster.storage.wal.segment import DATA_START
from svc_cluster.storage.wal.wal_settings import WalFormatError
from tests.fuzz.target import Check, Target, expect
from tests.unit.storage.fakes import FakeDisk, FakeFile
from tests.unit.storage.wal_driver import (
    TAG,
    commit,
    create,
    entries,
    hard_state,
    open_wal,
    put,
)

GROUPS: Final = (1, 2, 3)
EDIT_BYTES: Final = 5
EDITS_MAX: Final = 64
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""What says of a row that it is damaged: text that is not UTF-8 is said with the second."""


def check_wal() -> Check:
    """Edits of a synced log's files, five bytes each: which file, where, what. Behind two starts
    each group is as it was, or known to be damaged, or the log knows that it lost something; and no
    entry is returned that was not written."""
    disk = FakeDisk()
    wal = open_wal(disk)
    written: dict[int, list[LogEntry]] = {group: [] for group in GROUPS}
    for group in GROUPS:
        put(wal, disk, group, create(), hard_state(group, group))
    for turn in range(24):
        group = GROUPS[turn % 3]
        op = entries(group, len(written[group]) + 1, 1, size=(9, 900, 40)[turn % 3])
        written[group] += op.entries
        put(wal, disk, group, op, commit(len(written[group])))
    wal.mark_idle()
    disk.run()
    files = {name: bytes(disk.files[name].data) for name in disk.list_names()}

    def check(data: bytes) -> None:
        damaged = _disk_of(files, data)
        for _ in range(2):
            try:
                after = open_wal(damaged)
            except WalFormatError:
                return  # said to be of another format or node: nothing is begun on it
            for group, known in written.items():
                log = after.recovered.get(GroupId(group))
                if log is None:
                    expect(after.has_losses, f"group {group} is gone, and nobody knows")
                    continue
                start = {entry.log_index: entry for entry in known}
                expect(all(start.get(e.log_index) == e for e in log.entries), "another entry")
                whole = list(log.entries) == known and (log.term, log.voted_for) == (group, group)
                expect(log.damaged or after.has_losses or whole, f"group {group} lost unnoticed")

    return check


def _disk_of(files: dict[str, bytes], data: bytes) -> FakeDisk:
    disk = FakeDisk()
    names = list(files)
    for name, content in files.items():
        disk.files[name] = FakeFile(name, len(content))
        disk.files[name].data[:] = disk.files[name].durable[:] = content
    for place in range(0, min(len(data), EDITS_MAX * EDIT_BYTES) - EDIT_BYTES + 1, EDIT_BYTES):
        which, high, low, kind, value = data[place : place + EDIT_BYTES]
        file = disk.files[names[which % len(names)]]
        offset = (high << 8 | low) % len(file.data)
        if kind < 200:
            file.data[offset] ^= value
        else:
            end = min(len(file.data), offset + 16 * (kind - 199))
            file.data[offset:end] = bytes([value]) * (end - offset)
        file.durable[:] = file.data
    return disk


def make_edits(rng: random.Random) -> bytes:
    parts = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        offset = rng.choice((rng.randrange(DATA_START + 8000), DATA_START, 0, 8))
        kind = rng.choice((0, 0, 200, 255))
        head = bytes((rng.randrange(6),)) + offset.to_bytes(2, "big")
        parts.append(head + bytes((kind, rng.choice((1, 128, 255, 0)))))
    return b"".join(parts)


def check_payload() -> Check:
    """Heads, places and pointers of payload files: what is read is what was written."""
    place = payload_frame.PayloadPlace(3, 4096, 100, 7)

    def check(data: bytes) -> None:
        found = payload_frame.decode_head(data)
        if found is not None:
            expect(len(data) >= 16, "a head of a few bytes")
        if len(data) == payload_frame.PLACE_BYTES:
            again = payload_frame.decode_place(data)
            expect(payload_frame.encode_place(again) == data, "another place")
        entry = payload_frame.EntryName(*[1] * len(payload_frame.EntryName._fields))
        expect(
            not payload_frame.holds(data, TAG, place, entry) or len(data) > 16, "a forged header"
        )
        said = pointer.decode_pointer(b"key", data)
        if said is not None:
            expect(pointer.encode_pointer(b"key", said) == data, "another pointer")
        with contextlib.suppress(WalFormatError):
            reach.decode(data, TAG)
        expect(0 <= whole_end(data) <= len(data), "an end beyond the end")

    return check


def make_payload(rng: random.Random) -> bytes:
    place = payload_frame.PayloadPlace(rng.randint(0, 9), 4096, rng.randint(0, 99), 7)
    return rng.choice(
        (
            payload_frame.encode_head(3, TAG)[:64],
            payload_frame.encode_place(place),
            pointer.encode_pointer(b"key", pointer.Pointer(place, b"head")),
            reach.encode(reach.Reach(1, 4, (4, 4096), False, False), 3, TAG),
        )
    )


def check_rows() -> Check:
    """Rows of the catalog: refused as damaged, or written again and read as the same."""

    def check(data: bytes) -> None:
        # a mode that is not known is a ValueError; both are damage to whoever reads the rows over
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            record = basin_from_bytes(data)
            expect(basin_from_bytes(basin_to_bytes(record)) == record, "another basin")
        with contextlib.suppress(*UNREADABLE):
            token = token_from_bytes(data)
            expect(token_from_bytes(token_to_bytes(token)) == token, "another token")
        with contextlib.suppress(*UNREADABLE):
            decode_node(data)

    return check


def make_row(rng: random.Random) -> bytes:
    record = BasinRecord(
        "basin-0001",
        GroupId(rng.randint(1, 9)),
        (NodeId(1), NodeId(2), NodeId(3)),
        config=BasinConfig(),
        created_at_ms=TimestampMs(7),
    )
    return basin_to_bytes(record)


def check_backups() -> Check:
    """Objects of a backup: refused as damaged or newer, never anything else."""

    def check(data: bytes) -> None:
        for read in (
            lambda: decode("object", data, GroupPart),
            lambda: decode("object", data, Manifest),
            lambda: decode("object", data, Progress),
        ):
            with contextlib.suppress(BackupError):
                read()
        with contextlib.suppress(BackupError):
            decompressed("object", data)
        with contextlib.suppress(BackupError):
            again = b"".join(frame(key, value) for key, value in rows_of(data))
            expect(again == data, "other rows")

    return check


def make_backup(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return b"".join(frame(rng.randbytes(4), rng.randbytes(9)) for _ in range(rng.randint(0, 3)))
    return msgspec.json.encode({"format": 1, "groups": [], "at": 7})


def check_settings() -> Check:
    """A file of settings: refused in one line that says what to do, or a whole set of them."""
    directory = Path(tempfile.mkdtemp(prefix="svc-fuzz-"))
    path = directory / "settings.yaml"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        for read in (
            lambda: load(NodeSettings, path, {}),
            lambda: load(GatewaySettings, path, {}),
        ):
            try:
                read()
            except SettingsError as error:
                expect(bool(str(error)) and len(str(error)) < 4000, "refused without a sentence")

    return check


def make_settings(rng: random.Random) -> bytes:
    lines = [
        "cluster_id: c",
        f"node_id: {rng.randint(0, 9)}",
        "data_dir: /data",
        'nodes: {"1": "a:1", "2": "b:2"}',
        f"port: {rng.choice(('80', '-1', '99999', 'x'))}",
        "log_format: json",
        f"wal_segment_mib: {rng.choice((1, 64, 0))}",
    ]
    return "\n".join(rng.sample(lines, rng.randint(0, len(lines)))).encode()


TARGETS: Final = (
    Target("wal", check_wal, make_edits),
    Target("payload", check_payload, make_payload),
    Target("rows", check_rows, make_row),
    Target("backups", check_backups, make_backup),
    Target("settings", check_settings, make_settings),
)
