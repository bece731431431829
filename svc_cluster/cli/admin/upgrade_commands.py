"""`svc-cluster admin upgrade`: from one release to the next."""

from __future__ import annotations

import typer

from svc_cluster.cli.admin.asking import Form, Output, Yes, asked, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import with_shared_options

upgrade_app = typer.Typer(no_args_is_help=True, help="From one release to the next.")


@upgrade_app.command("status")
@with_shared_options
def upgrade_status(
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """What is still to be done of an upgrade. Status 1: something."""
    from svc_cluster.cli.admin import text

    answer = asked(choice, lambda client: client.version())
    show(answer, output, text.upgrade)
    raise typer.Exit(1 if answer.active < answer.newest else 0)


@upgrade_app.command("finalize")
@with_shared_options
def upgrade_finalize(
    choice: NodeChoice,
    yes: Yes = False,
    output: Output = Form.TABLE,
) -> None:
    """Let the cluster use what came with its release. There is no way back to the one before."""
    from svc_cluster.cli.admin import text

    before = asked(choice, lambda client: client.version())
    if before.active >= before.newest:
        show(before, output, text.upgrade)
        return
    if before.why_not:
        fail(before.why_not, 1)
    if not yes:
        show(before, output, text.upgrade)
        fail("there is no way back from it: repeat the command with --yes", 2)
    answer = asked(choice, lambda client: client.finalize(before.active + 1))
    show(answer, output, text.version)
