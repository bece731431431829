"""`svc-cluster backup`. Heavy imports happen inside the commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.processes.process import fail

if TYPE_CHECKING:
    from svc_cluster.backup.prune import BackupRetention
    from svc_cluster.cli.admin.admin_client import Target

EXIT_NOT_CLEARED: Final = 3
"""The status of a `create` whose backup is there, and behind which nothing could be deleted: to
repeat it mends nothing (the chart does not)."""

app = typer.Typer(no_args_is_help=True, help="Backups of a whole cluster, and what comes of them.")

KeyFile = Annotated[
    Path,
    typer.Option(
        envvar="SVC_CLUSTER_BACKUP_KEY_FILE",
        help="The key that the backups are sealed with; the first one makes it.",
    ),
]
At = Annotated[
    str,
    typer.Option(
        "--at",
        envvar="SVC_CLUSTER_BACKUP_PLACE",
        help="The directory or the bucket (s3://BUCKET/FOLDER) that the backups are in.",
    ),
]
Keep = Annotated[int | None, typer.Option(help="Keep the newest so many.", min=1)]
OlderThan = Annotated[str | None, typer.Option(help="Keep those that are younger, such as 30d.")]
Number = Annotated[int | None, typer.Option(help="Which backup; the last one by default.", min=1)]
KEY_FILE = Path("svc-backup.key")
_Result = TypeVar("_Result")


@app.command("create")
def create(
    to: At,
    address: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SVC_CLUSTER_BACKUP_ADDRESSES",
            help="host:port of the administration of each node, with TLS ID=host:port.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Instead of --address: the directory of a `svc-cluster local`."),
    ] = None,
    key_file: KeyFile = KEY_FILE,
    plain: Annotated[bool, typer.Option("--plain", help="Do not seal the first backup.")] = False,
    rate: Annotated[str, typer.Option(help="At most so much in a second.")] = "32MiB",
    full: Annotated[
        bool, typer.Option("--full", help="Use nothing of earlier backups; mends damaged ones.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(help="Stay, and take one so long after the last one, such as 24h."),
    ] = None,
    keep: Keep = None,
    older_than: OlderThan = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(envvar="SVC_CLUSTER_PEER_TLS_CERT", help="An administrator's certificate."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="SVC_CLUSTER_PEER_TLS_KEY", help="Its key.")
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(envvar="SVC_CLUSTER_PEER_TLS_CA", help="The cluster's CA.")
    ] = None,
    output: Output = OutputForm.TABLE,
) -> None:
    """Take a backup while the cluster serves; only what is new since the last one is moved. What
    was interrupted goes on when it is repeated. With --keep or --older-than, what neither keeps is
    deleted behind it, as `prune` does: where damage keeps contents from that, the backup is there
    and the status is 3."""
    from svc_cluster.cli.backup import backup_commands
    from svc_cluster.cli.backup.backup_places import bytes_per_second, seconds

    targets = _targets(address or [], data_dir, (tls_cert, tls_key, tls_ca))
    teller = Teller(output)

    async def work() -> bool:
        moved = bytes_per_second(rate)
        return await backup_commands.take(
            lambda: backup_commands.create(
                targets, to, key_file, moved, plain=plain, full=full, teller=teller
            ),
            to,
            key_file,
            _retention(keep, older_than),
            None if every is None else seconds(every),
            plain=plain,
            teller=teller,
        )

    if not _run(work):
        raise typer.Exit(EXIT_NOT_CLEARED)


@app.command("key")
def key(key_file: KeyFile = KEY_FILE, output: Output = OutputForm.TABLE) -> None:
    """Make the key file of a place that has no backups yet, for whoever keeps it in a Secret."""
    from svc_cluster.backup.key_file import make_key

    async def work() -> None:
        made = make_key(key_file)
        told = f"{key_file} is the key {made.key_id}: keep copies of it apart from the backups"
        Teller(output).end({"file": str(key_file), "key_id": made.key_id}, [told])

    _run(work)


@app.command("list")
def show(at: At, key_file: KeyFile = KEY_FILE, output: Output = OutputForm.TABLE) -> None:
    """Show the backups that there are, with the position and the time of each basin; status 1 where
    one cannot be read."""
    from svc_cluster.cli.backup import backup_commands

    if not _run(lambda: backup_commands.show(at, key_file, Teller(output))):
        fail("not every backup can be read", 1)


@app.command("verify")
def verify(
    at: At,
    key_file: KeyFile = KEY_FILE,
    number: Number = None,
    output: Output = OutputForm.TABLE,
) -> None:
    """Read everything that a backup needs, and name what is damaged or missing: status 1 then."""
    from svc_cluster.cli.backup import backup_commands

    if not _run(lambda: backup_commands.check(at, key_file, number, Teller(output))):
        fail("the backup is not whole", 1)


@app.command("prune")
def prune(
    at: At,
    key_file: KeyFile = KEY_FILE,
    keep: Keep = None,
    older_than: OlderThan = None,
    grace: Annotated[
        str,
        typer.Option(help="What no backup names stays so long, for one that was interrupted."),
    ] = "24h",
    number: Annotated[
        list[int] | None,
        typer.Option(help="Delete this backup, whose manifest is damaged; may be repeated.", min=1),
    ] = None,
    output: Output = OutputForm.TABLE,
) -> None:
    """Delete the backups that neither rule keeps, never the last one, and what only they needed.
    Where it cannot be read what a backup needs that stays, no content is deleted: status 1."""
    from svc_cluster.backup.prune import BackupRetention
    from svc_cluster.cli.backup import backup_commands
    from svc_cluster.cli.backup.backup_places import seconds

    async def work() -> bool:
        retention = _retention(keep, older_than)
        if retention is None and not number:
            fail("name what is to be kept: --keep 7, --older-than 30d, or both", 2)
        retention = retention or BackupRetention(None, None)
        asked = replace(retention, damaged=tuple(number or ()))
        kept_for = seconds(grace)
        return await backup_commands.clear(at, key_file, asked, kept_for, teller=Teller(output))

    if not _run(work):
        fail(
            "damaged backups stay, and with them all contents: create --full may mend contents; a "
            "manifest goes with --number",
            1,
        )


@app.command("restore")
def restore(
    at: At,
    config: Annotated[
        Path | None,
        typer.Option(help="The node's settings; its data_dir is made, and must be empty."),
    ] = None,
    key_file: KeyFile = KEY_FILE,
    number: Number = None,
    basin: Annotated[
        list[str] | None,
        typer.Option(help="Only this basin, NAME or NAME=NEWNAME; may be repeated."),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(help="Up to a time (2030-01-31T12:00:00Z), or BASIN/STREAM=POSITION."),
    ] = None,
    output: Output = OutputForm.TABLE,
) -> None:
    """Make the data directory of one node that has never run. Do so for every node of the cluster,
    with the same options, before the first of them starts; there may be more or fewer of them than
    the backup's cluster had."""
    from svc_cluster.backup.restore import Wishes
    from svc_cluster.cli.backup import backup_places
    from svc_cluster.cli.backup.backup_commands import bring_back
    from svc_cluster.settings import NodeSettings
    from svc_cluster.settings_errors import SettingsError
    from svc_cluster.settings_sources import load

    async def work() -> None:
        settings = load(NodeSettings, config, os.environ)
        at_ms, positions = backup_places.until(until or [])
        wishes = Wishes(None if not basin else backup_places.named(basin), at_ms, positions)
        await bring_back(settings, at, key_file, number, wishes, Teller(output))

    try:
        _run(work)
    except SettingsError as cause:
        fail(str(cause), cause.exit_status)


def _retention(keep: int | None, older_than: str | None) -> BackupRetention | None:
    """None: neither is given. Raises BackupError."""
    from svc_cluster.backup.prune import BackupRetention
    from svc_cluster.cli.backup.backup_places import seconds

    if keep is None and older_than is None:
        return None
    return BackupRetention(keep, None if older_than is None else seconds(older_than) * 1000)


def _run(work: Callable[[], Coroutine[None, None, _Result]]) -> _Result:
    from svc_cluster.backup.backup_errors import BackupError
    from svc_cluster.base.log import configure

    configure(os.environ.get("SVC_CLUSTER_LOG_LEVEL", "warning"), "text")
    try:
        return asyncio.run(work())
    except BackupError as cause:
        fail(str(cause), 1)
        raise


def _targets(
    addresses: list[str],
    directory: Path | None,
    files: tuple[Path | None, Path | None, Path | None],
) -> list[Target]:
    from svc_cluster.cli.admin.admin_client import AdminError, given_target, local_targets

    try:
        if directory is not None:
            if addresses:
                fail("--address and --data-dir name the cluster twice: use one", 2)
            return local_targets(directory)
        if not addresses:
            fail("name the nodes with --address, one for each, or --data-dir", 2)
        found = []
        for each in addresses:
            node, is_named, address = each.rpartition("=")
            if is_named and not node.isdigit():
                fail(f"{each!r}: use host:port, or ID=host:port", 2)
            found.append(given_target(address, int(node) if is_named else None, files))
    except AdminError as cause:
        fail(str(cause), 2)
        raise
    return found
