"""What the commands of `svc-cluster backup` do, once it is known where and with what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import BackupError, DamagedError, NewerFormatError
from svc_cluster.backup.backup_manifest import Manifest, missed
from svc_cluster.backup.create import BackupRun, Creation
from svc_cluster.backup.prune import BackupRetention, prune
from svc_cluster.backup.restore import RestoredNode, Wishes, kept_and_not, restore, when
from svc_cluster.backup.seed import end
from svc_cluster.backup.vault import manifest_name, vault_file
from svc_cluster.backup.verify import verify
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import CATALOG_GROUP, NodeId
from svc_cluster.cli.admin.admin_client import Target
from svc_cluster.cli.backup.backup_places import open_vault, store_at, vault_to_write
from svc_cluster.cli.backup.backup_schedule import BackupSchedule
from svc_cluster.cli.backup.node_source import NodeSource
from svc_cluster.cli.output_form import Teller
from svc_cluster.cli.processes.start_checks import remember_members
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_errors import SettingsError

MIB = 1024 * 1024
TO_PEOPLE: Final = Teller()
GRACE_SECONDS: Final = 86_400
"""How long what no backup names stays, where backups are deleted behind a new one: as `--grace` of
`prune` has it."""


async def create(
    targets: Sequence[Target],
    to: str,
    key_file: Path,
    rate: float,
    *,
    plain: bool,
    full: bool,
    teller: Teller,
) -> None:
    """Raises BackupError."""
    async with NodeSource(targets, rate) as source:
        try:
            cluster_id = (await source.content(CATALOG_GROUP)).cluster_id
        except Exception as cause:
            if isinstance(cause, BackupError):
                raise
            raise BackupError(f"no node gives the catalog: {cause}") from cause
        vault, told = await vault_to_write(to, key_file, cluster_id, plain=plain)
        for line in told:
            teller.note(line)
        creation = Creation(version("svc-cluster"), is_full=full)
        made = await BackupRun(vault, source, SystemClock(), creation, teller.note).run()
        told = [
            f"backup {made.number} of {made.cluster_id} in {to}: {len(made.basins)} basins, "
            f"{vault.written_bytes} bytes added, {source.received_bytes} read from the nodes"
        ]
        facts = _facts(made) | {
            "place": to,
            "added_bytes": vault.written_bytes,
            "received_bytes": source.received_bytes,
        }
        teller.end(facts, told)


def _facts(made: Manifest) -> dict[str, object]:
    """What a program is told of a backup."""
    return {
        "number": made.number,
        "cluster_id": made.cluster_id,
        "finished_at": when(made.finished_at_ms),
        "records": sum(entry.records for entry in made.basins),
        "stored_bytes": sum(entry.stored_bytes for entry in made.basins),
        "moved_bytes": made.moved_bytes,
        "missed": list(made.missed),
        "basins": [
            {
                "basin": entry.basin,
                "applied_index": entry.applied_index,
                "taken_at": when(entry.taken_at_ms),
                "records": entry.records,
            }
            for entry in made.basins
        ],
    }


async def take(
    create_one: Callable[[], Awaitable[None]],
    to: str,
    key_file: Path,
    retention: BackupRetention | None,
    every_seconds: int | None,
    *,
    plain: bool = False,
    teller: Teller = TO_PEOPLE,
) -> bool:
    """Create one backup, or one whenever it is due, and delete behind each what `retention` does
    not keep (None: nothing). `plain`: as for `create_one`. Returns whether nothing stays because it
    is not known what needs it. Raises BackupError."""

    async def made_and_cleared() -> bool:
        await create_one()
        if retention is None:
            return True
        return await clear(to, key_file, retention, GRACE_SECONDS, plain=plain, teller=teller)

    if every_seconds is None:
        return await made_and_cleared()

    async def work() -> None:
        await made_and_cleared()

    schedule = BackupSchedule(
        partial(last_finished_ms, to, key_file, plain=plain, teller=teller),
        work,
        every_seconds,
        SystemClock(),
        asyncio.sleep,
        teller.note,
    )
    await schedule.run()
    return True


async def last_finished_ms(
    at: str, key_file: Path, *, plain: bool = False, teller: Teller = TO_PEOPLE
) -> int | None:
    """When the last backup was finished, Unix milliseconds; None: there is none. Raises
    BackupError."""
    if await vault_file(store_at(at)) is None:
        return None
    vault = await open_vault(at, key_file, plain=plain)
    last = await vault.last(teller.note)
    return None if last is None else last.finished_at_ms


async def show(at: str, key_file: Path, teller: Teller) -> bool:
    """Print the backups that there are, as JSON a line each. Returns whether every one can be read.
    Raises BackupError."""
    vault = await open_vault(at, key_file)
    is_well = True
    for number in await vault.numbers():
        try:
            made = await vault.opened(manifest_name(number))
        except NewerFormatError as cause:
            is_well = False
            teller.end(
                {"number": number, "unreadable": str(cause)}, [f"NEWER  backup {number}: {cause}"]
            )
            continue
        if made is None:
            continue  # deleted meanwhile
        if isinstance(made, DamagedError):
            is_well = False
            teller.end(
                {"number": number, "unreadable": str(made)}, [f"DAMAGED  backup {number}: {made}"]
            )
            continue
        stored = sum(entry.stored_bytes for entry in made.basins)
        lines = [
            f"{number}  {when(made.finished_at_ms)}  {len(made.basins)} basins  "
            f"{sum(entry.records for entry in made.basins)} records  {stored / MIB:.1f} MiB, "
            f"{made.moved_bytes / MIB:.1f} of them new"
        ]
        lines += [
            f"   {entry.basin}  index {entry.applied_index}  {when(entry.taken_at_ms)}"
            for entry in made.basins
        ]
        lines += [f"   {line}" for line in missed(made)]
        teller.end(_facts(made), lines)
    return is_well


async def check(at: str, key_file: Path, number: int | None, teller: Teller) -> bool:
    """Whether the backup is whole. Raises BackupError."""
    vault = await open_vault(at, key_file)
    made = await vault.chosen(number)
    report = await verify(vault, made, teller.note)
    standing = f"{len(report.findings)} findings" if report.findings else "whole"
    teller.end(
        {
            "number": made.number,
            "objects": report.objects,
            "read_bytes": report.read_bytes,
            "findings": report.findings,
            "missed": list(made.missed),
        },
        [
            *(f"DAMAGED  {finding}" for finding in report.findings),
            *missed(made),
            f"backup {made.number}: {report.objects} objects, {report.read_bytes / MIB:.1f} MiB: "
            f"{standing}",
        ],
    )
    return not report.findings


async def clear(
    at: str,
    key_file: Path,
    retention: BackupRetention,
    grace_seconds: float,
    *,
    plain: bool = False,
    teller: Teller,
) -> bool:
    """Whether nothing stays because it is not known what needs it. Raises BackupError."""
    vault = await open_vault(at, key_file, plain=plain)
    done = await prune(vault, SystemClock(), retention, grace_seconds)
    lines = [f"DAMAGED  {finding}: this backup was deleted" for finding in done.damaged]
    lines += [
        f"DAMAGED  {finding}: what its backup needs is not known, so no content was deleted"
        for finding in done.unclear
    ]
    gone = ", ".join(map(str, done.backups)) or "none"
    lines.append(
        f"backups deleted: {gone}; {done.objects} objects, {done.freed_bytes / MIB:.1f} MiB"
    )
    teller.end(
        {
            "deleted": list(done.backups),
            "objects": done.objects,
            "freed_bytes": done.freed_bytes,
            "is_whole": done.is_whole,
            "damaged": list(done.damaged),
            "unclear": list(done.unclear),
        },
        lines if done.is_whole else [*lines, "there is more to delete: repeat"],
    )
    return not done.unclear


async def bring_back(
    settings: NodeSettings,
    source: str,
    key_file: Path,
    number: int | None,
    wishes: Wishes,
    teller: Teller,
) -> None:
    """Raises BackupError, SettingsError."""
    if settings.join_token_file is not None:
        raise SettingsError(
            "join_token_file is set: a node that comes to a cluster gets what it holds from that; "
            "take join_token_file out, and name every node of the restored cluster in nodes"
        )
    vault = await open_vault(source, key_file)
    made = await vault.chosen(number)
    directory = Path(settings.data_dir)
    place = RestoredNode(
        directory,
        settings.cluster_id,
        NodeId(settings.node_id),
        tuple(sorted(NodeId(int(node)) for node in settings.nodes)),
        settings.replication_factor,
    )
    await restore(vault, made, place, wishes, teller.note)
    remember_members(directory, settings)
    end(directory)
    for line in (*kept_and_not(wishes), *missed(made)):
        teller.note(line)
    teller.end(
        {"number": made.number, "node_id": settings.node_id, "data_dir": settings.data_dir},
        [f"node {settings.node_id} may start once every node of the cluster was restored"],
    )
