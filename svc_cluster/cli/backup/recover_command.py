"""`svc-cluster admin recover`: going on from what is left when a quorum is lost for good."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svc_cluster.cli.backup.backup_app import KEY_FILE, At, KeyFile
from svc_cluster.cli.backup.scratch import EXIT_NO_ROOM, in_scratch
from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.processes.process import fail

if TYPE_CHECKING:
    from svc_cluster.backup.quorum_loss import Recovery


def recover(
    directories: Annotated[
        list[Path],
        typer.Argument(help="Every data directory that is left, of nodes that do not run."),
    ],
    at: At,
    force_new_cluster: Annotated[
        bool,
        typer.Option(
            "--force-new-cluster", help="The old cluster has no quorum, and never will again."
        ),
    ] = False,
    key_file: KeyFile = KEY_FILE,
    plain: Annotated[bool, typer.Option("--plain", help="Do not seal the first backup.")] = False,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Where the directories are copied to, with room for all of them."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Take it. Without this, it is told what there is.")
    ] = False,
    output: Output = OutputForm.TABLE,
) -> None:
    """Make a backup of what is left of a cluster that has lost its quorum for good. It is told for
    each basin whether something acknowledged may be missing. A new cluster is then restored from
    it. The directories stay as they are; no node may be started on them any more."""
    if not force_new_cluster:
        fail(
            "while a quorum can come back, bring it back: nothing is lost then. Where it cannot, "
            "say --force-new-cluster",
            2,
        )
    beside = directories[0].resolve().parent if work_dir is None else work_dir
    from svc_cluster.backup.backup_errors import BackupError, NoRoomError

    def work(scratch: Path) -> None:
        try:
            teller = Teller(output)
            asyncio.run(
                _recover(directories, at, key_file, scratch, teller, plain=plain, takes=yes)
            )
        except NoRoomError as cause:
            fail(str(cause), EXIT_NO_ROOM)
        except BackupError as cause:
            fail(str(cause), 1)

    in_scratch(beside, directories, work)


async def _recover(
    directories: list[Path],
    at: str,
    key_file: Path,
    scratch: Path,
    teller: Teller,
    *,
    plain: bool,
    takes: bool,
) -> None:
    from svc_cluster.backup.quorum_loss import open_recovery
    from svc_cluster.base.clock import SystemClock

    found = await open_recovery(directories, scratch, SystemClock())
    try:
        told = found.told()
        if not takes:
            teller.end({"found": told, "backup": None}, told)
            fail("nothing was made: say --yes to make a backup of it", 1)
        for line in told:
            teller.note(line)
        await _take(found, at, key_file, teller, plain=plain)
    finally:
        await found.close()


async def _take(found: Recovery, at: str, key_file: Path, teller: Teller, *, plain: bool) -> None:
    from importlib.metadata import version

    from svc_cluster.backup.create import BackupRun, Creation
    from svc_cluster.base.clock import SystemClock
    from svc_cluster.cli.backup.backup_places import vault_to_write

    vault, told = await vault_to_write(at, key_file, found.cluster_id, plain=plain)
    for line in told:
        teller.note(line)
    # what earlier backups have may be another continuation of the same records
    creation = Creation(version("svc-cluster"), is_full=True)
    made = await BackupRun(vault, found, SystemClock(), creation, teller.note).run()
    teller.end(
        {"found": found.told(), "backup": made.number, "cluster_id": made.cluster_id, "place": at},
        [
            f"backup {made.number} of {made.cluster_id} in {at}: {len(made.basins)} basins",
            "next, on each node of the new cluster, whose data_dir is a new one: svc-cluster "
            f"backup restore --at {at} --key-file {key_file} --number {made.number} --config FILE",
        ],
    )
