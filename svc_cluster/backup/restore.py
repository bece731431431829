"""Restoring: one node's data directory from a backup, for a cluster that has never run.

Each node makes its own, from the same backup with the same wishes, and all of them come to the same
state without asking each other. Nothing is served before all of a directory is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from svc_cluster.backup import seed
from svc_cluster.backup.backup_errors import BackupError, NewerFormatError
from svc_cluster.backup.backup_manifest import GroupEntry, GroupPart, Manifest
from svc_cluster.backup.catalog_rows import placed_anew, read_catalog, restored_catalog
from svc_cluster.backup.chunk import batches_of
from svc_cluster.backup.restored_basin import BasinWish, RestoredBasin
from svc_cluster.backup.row_frames import Row, rows_of
from svc_cluster.backup.seed import LOG_INDEX, TERM, Restored, Seed
from svc_cluster.backup.vault import Vault
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.codec.entry_version import Known
from svc_cluster.model import versions
from svc_cluster.model.names import is_basin_name

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RestoredNode:
    """The node that is restored, and the cluster that it is of."""

    directory: Path
    cluster_id: str
    node_id: NodeId
    nodes: tuple[NodeId, ...]
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is wanted of a backup."""

    basins: Mapping[str, str] | None = None
    """By the names in the backup, those that they get; None: everything, and the account."""
    until_ms: int | None = None
    positions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By basin and stream, as they are called in the backup, the record each is cut ahead of."""


@dataclass(frozen=True, slots=True)
class _Basin:
    entry: GroupEntry
    record: BasinRecord
    wanted: BasinWish


class Files(Protocol):
    """Where the rows of a node's groups go."""

    def group(self, group_id: GroupId) -> None:
        """What is put from now on is this group's."""
        ...

    async def put(self, rows: Iterable[Row]) -> None: ...

    async def delete(self, ranges: Iterable[tuple[bytes, bytes]]) -> None:
        """Half-open ranges of keys."""
        ...


async def restore(
    vault: Vault, manifest: Manifest, place: RestoredNode, wishes: Wishes, say: Say
) -> None:
    """Make the data directory, but for its end. Raises BackupError; it is repeated as it was, or
    with another backup."""
    lock = seed.begin(place.directory, f"backup {manifest.number} of {manifest.cluster_id}")
    files = Seed(place.directory, lock, place.cluster_id, place.node_id)
    files.open()
    try:
        made = await fill(vault, manifest, place, wishes, files, say)
    except BaseException:
        await files.abandon()
        raise
    await files.close(made)
    say(f"restore {made.restore_id}: the same on every node, or they do not form a cluster")


async def fill(
    vault: Vault, manifest: Manifest, place: RestoredNode, wishes: Wishes, files: Files, say: Say
) -> Restored:
    """Put the rows of all groups of the node, and return what is known of the restore. Raises
    BackupError."""
    catalog_part = await vault.part(manifest.catalog)
    check_known(catalog_part)
    rows = list(rows_of(catalog_part.rows))
    content = read_catalog(rows)
    check_spoken(content.active_version)
    basins = _chosen(manifest, content.basins, wishes)
    restore_id = identity(manifest, place, wishes)
    digest = int.from_bytes(bytes.fromhex(restore_id)[:8], "big")
    placed = placed_anew(
        (replace(each.record, name=each.wanted.name) for each in basins),
        place.nodes,
        place.replication_factor,
    )
    records = {record.name: record for record in placed}
    catalog = restored_catalog(
        rows,
        records,
        keeps_account=wishes.basins is None,
        log_index=LOG_INDEX,
        term=TERM,
        digest=digest,
    )
    files.group(CATALOG_GROUP)
    await files.put(catalog)
    for each in basins:
        say(
            f"{each.wanted.name}: as of {when(each.entry.taken_at_ms)}, index "
            f"{each.entry.applied_index}; what came later is not in it"
        )
        if not each.wanted.is_whole_of(each.entry.basin):
            say(
                f"{each.wanted.name}: not kept: outcomes of requests with a token (such a request "
                "is a new one), usage (counted anew)"
            )
        if place.node_id in records[each.wanted.name].replicas:
            await _basin(vault, files, each, digest, say)
    return Restored(restore_id, content.active_version)


async def _basin(vault: Vault, files: Files, basin: _Basin, digest: int, say: Say) -> None:
    part = await vault.part(basin.entry)
    check_known(part)
    kept = RestoredBasin(basin.entry.basin, rows_of(part.rows), part.trimmed, basin.wanted)
    files.group(GroupId(basin.entry.group_id))
    for chunk in part.chunks:
        taken = [
            row
            for stream_id, placement, row in batches_of(chunk, await vault.read(chunk.name))
            if kept.batch(stream_id, placement, row[1])
        ]
        await files.put(taken)
    await files.delete(kept.surplus())
    await files.put(kept.rows(LOG_INDEX, TERM, digest))
    if kept.keeps_outcomes and not kept.keeps_usage:
        say(
            f"{basin.wanted.name}: not kept: usage (counted anew, since records were trimmed while "
            "the backup was taken)"
        )
    for stream, tail in kept.cuts():
        say(f"{basin.wanted.name}/{stream}: ends before record {tail}")
    for stream in kept.dropped:
        say(f"{basin.wanted.name}/{stream}: was not there yet")


def _chosen(manifest: Manifest, records: tuple[BasinRecord, ...], wishes: Wishes) -> list[_Basin]:
    entries = {entry.basin: entry for entry in manifest.basins}
    names = {name: name for name in entries} if wishes.basins is None else dict(wishes.basins)
    asked = [*names, *(basin for basin, _ in wishes.positions)]
    for name in asked:
        if name not in entries:
            raise BackupError(f"backup {manifest.number} has no basin {name}: see list")
    for basin, stream in wishes.positions:
        if basin not in names:
            raise BackupError(f"basin {basin} is not restored, and {basin}/{stream} is to be cut")
    if len(set(names.values())) < len(names):
        raise BackupError("two basins would get one name: give each another one")
    for name in names.values():
        if not is_basin_name(name):
            raise BackupError(f"{name!r} is no name of a basin")
    by_group = {record.group_id: record for record in records}
    chosen = []
    for name, new_name in sorted(names.items()):
        entry = entries[name]
        record = by_group.get(GroupId(entry.group_id))
        if record is None:
            raise BackupError(f"backup {manifest.number} names {name}, and its catalog does not")
        positions = {
            stream: end for (basin, stream), end in wishes.positions.items() if basin == name
        }
        chosen.append(_Basin(entry, record, BasinWish(new_name, wishes.until_ms, positions)))
    return chosen


def identity(manifest: Manifest, place: RestoredNode, wishes: Wishes) -> str:
    """By what a restore is known: equal where every node comes to the same state."""
    said = (
        msgspec.to_builtins(manifest),
        place.cluster_id,
        place.nodes,
        place.replication_factor,
        sorted((wishes.basins or {}).items()),
        wishes.basins is None,
        wishes.until_ms,
        sorted((*key, end) for key, end in wishes.positions.items()),
    )
    return hashlib.blake2b(msgspec.msgpack.encode(said), digest_size=8).hexdigest()


def check_known(part: GroupPart) -> None:
    """Raises NewerFormatError for rows that a newer release may have made."""
    known = Known()
    names = known.catalog if part.group_id == CATALOG_GROUP else known.basin
    unknown = sorted(set(part.kinds) - names)
    if part.encoding > known.encoding or unknown:
        raise NewerFormatError(
            f"group {part.group_id} was backed up by a newer release (encoding {part.encoding}, "
            f"unknown here: {', '.join(unknown) or 'its rows'}): restore it with that release"
        )


def check_spoken(active: int, own: versions.Spoken = versions.SPOKEN) -> None:
    """Raises NewerFormatError for the backup of a cluster at a version that no node of this release
    works under. `own`: what this release speaks."""
    if own.oldest <= active <= own.newest:
        return
    remedy = f"svc-cluster {versions.release_of(active)} or newer"
    if active < own.oldest:
        remedy = (
            f"svc-cluster {versions.release_of(own.oldest - 1)}, finalize that upgrade, and go on "
            "from there"
        )
    raise NewerFormatError(
        f"the backup is of a cluster at version {active}, this program speaks {own.text}: "
        f"restore it with {remedy}"
    )


def when(at_ms: int) -> str:
    """A moment as people read it, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def kept_and_not(wishes: Wishes) -> list[str]:
    """What becomes of everything that is not a record, and of records as soon as nodes run."""
    is_all = wishes.basins is None
    account = "kept" if is_all else "not kept: they are the account's"
    is_cut = wishes.until_ms is not None or bool(wishes.positions)
    later = "" if wishes.until_ms is None else "; one of which that was asked for later is there"
    return [
        f"access tokens: {account}",
        "outcomes of requests with a token: kept, but those of the basins that say otherwise above"
        + ("" if is_all else ", and the account's"),
        "fencing tokens: kept" + (", but cleared where a stream was cut" if is_cut else ""),
        f"streams that were being deleted: are deleted further{later}",
        "basins that were being deleted: not kept",
        "usage: kept, but that of the basins that say otherwise above, which is counted anew",
        "sequence numbers, timestamps, trim points, configurations: kept as they were",
        "retention goes on: records that are older by now than their stream's retention_policy "
        "allows, and streams for which delete_on_empty is over, are deleted as soon as nodes run",
    ]
