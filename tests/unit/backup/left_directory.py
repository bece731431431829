"""A data directory as a node leaves it, made of log operations and rows of the flushed state."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry, LogOp
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.formation import FormationRecord, Stage
from svc_cluster.model.places import Places
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.identity import open_identity
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal

NOOP = b"\x01"
FORMED = tuple((NodeId(node), f"{node:032x}") for node in (1, 2, 3))
"""Incarnations of the first directories; those that are made here have others, which nobody asks
about as long as no place was given away."""
Rows = Mapping[bytes, bytes]


def noops(first: int, count: int, term: int) -> AppendEntries:
    return AppendEntries(
        tuple(LogEntry(LogIndex(at), Term(term), NOOP) for at in range(first, first + count))
    )


async def leave(
    place: Path,
    node: int,
    logs: Mapping[int, Sequence[LogOp]],
    *,
    places: Places = (),
    ordinal: int = 0,
    rows: Mapping[int, Rows] | None = None,
) -> str:
    """Make the directory; its incarnation. `rows` are those of each generation."""
    loop = asyncio.get_running_loop()
    disk = RealDisk(place / "wal", loop)
    identity = open_identity(disk, "c", NodeId(node), random.Random(str(place)))
    wal = Wal.open(disk, identity.tag, WalSettings(reserve_bytes=0, segment_bytes=256 * 1024))
    for group, ops in logs.items():
        durable = asyncio.Event()
        wal.append(GroupId(group), list(ops), durable.set)
        await durable.wait()
    formed = FormationRecord(1, Stage.FORMED, FORMED, places, ordinal)
    await FormationFile(disk, identity.incarnation).write(formed)
    await wal.close()
    disk.close()
    store = RocksStore(place / "state", loop, RocksSettings())
    state = WriteSet()
    for generation, pairs in (rows or {}).items():
        for key, value in pairs.items():
            state.put(generation_prefix(Generation(generation)) + key, value)
    store.write(state)
    store.close()
    return identity.incarnation


def tear(place: Path) -> None:
    """Turn a bit in the largest table of the state."""
    table = max((place / "state").glob("*.sst"), key=lambda path: path.stat().st_size)
    raw = bytearray(table.read_bytes())
    raw[len(raw) // 3] ^= 0xFF
    table.write_bytes(raw)
