"""Checking a backup as a restore would read it, without making anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from svc_cluster.backup.backup_errors import BackupError, DamagedError, NewerFormatError
from svc_cluster.backup.backup_manifest import ChunkEntry, GroupEntry, GroupPart, Manifest
from svc_cluster.backup.catalog_rows import read_catalog
from svc_cluster.backup.chunk import batches_of
from svc_cluster.backup.restore import check_known
from svc_cluster.backup.restored_basin import BasinWish, RestoredBasin
from svc_cluster.backup.row_frames import rows_of
from svc_cluster.backup.vault import Vault


@dataclass(slots=True)
class VerifyReport:
    """What was found. `findings`: one sentence for each thing that is wrong."""

    objects: int = 0
    read_bytes: int = 0
    findings: list[str] = field(default_factory=list)


async def verify(vault: Vault, manifest: Manifest, say: Callable[[str], None]) -> VerifyReport:
    """Read everything that the backup names. Raises ObjectStoreError alone."""
    report = VerifyReport()
    catalog = await _part(vault, manifest.catalog, "the catalog", report)
    if catalog is not None:
        try:
            names = {record.name for record in read_catalog(rows_of(catalog.rows)).basins}
        except DamagedError as cause:
            report.findings.append(str(cause))
        else:
            report.findings += [
                f"{entry.basin} is in the backup, and its catalog does not name it"
                for entry in manifest.basins
                if entry.basin not in names
            ]
    for entry in manifest.basins:
        part = await _part(vault, entry, f"basin {entry.basin}", report)
        if part is not None:
            before = len(report.findings)
            await _basin(vault, entry, part, report)
            if len(report.findings) == before:
                say(f"{entry.basin}: whole")
    return report


async def _part(
    vault: Vault, entry: GroupEntry, of_what: str, report: VerifyReport
) -> GroupPart | None:
    report.objects += 1
    try:
        part = await vault.part(entry)
        check_known(part)
    except (DamagedError, NewerFormatError) as cause:
        report.findings.append(f"{of_what}: {cause}")
        return None
    report.read_bytes += len(part.rows)
    return part


async def _basin(vault: Vault, entry: GroupEntry, part: GroupPart, report: VerifyReport) -> None:
    try:
        rows = RestoredBasin(entry.basin, rows_of(part.rows), part.trimmed, BasinWish(entry.basin))
    except BackupError as cause:
        report.findings.append(str(cause))
        return
    names = {stream_id: stream.name for stream_id, stream in rows.streams.items()}
    lost = False
    for chunk in part.chunks:
        report.objects += 1
        report.read_bytes += chunk.stored_bytes
        try:
            data = await vault.read(chunk.name)
            if not vault.has_its_name(chunk.name, data):
                raise DamagedError(f"{chunk.name} is damaged: it is another chunk's content")
            for stream_id, placement, row in batches_of(chunk, data):
                rows.batch(stream_id, placement, row[1])
        except (DamagedError, NewerFormatError) as cause:
            lost = True
            report.findings.append(f"{cause}; it has {_named(chunk, names)} of {entry.basin}")
    if not lost:  # otherwise what is lacking is what was just named
        try:
            rows.check()
        except DamagedError as cause:
            report.findings.append(str(cause))


def _named(chunk: ChunkEntry, names: Mapping[int, str]) -> str:
    some = [
        f"{names.get(stream_id, f'stream {stream_id}')} {first}-{end - 1}"
        for stream_id, first, end in chunk.extents[:5]
    ]
    more = len(chunk.extents) - len(some)
    return ", ".join(some) + (f" and {more} more" if more > 0 else "")
