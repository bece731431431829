"""`svc-cluster admin member`: the nodes of the cluster, and those that lost their data."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from svc_cluster.cli.admin.asking import Form, asked, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.admin.node_commands import Json, ask
from svc_cluster.cli.shared_options import with_shared_options

app = typer.Typer(no_args_is_help=True, help="The nodes of the cluster.")

Lost = Annotated[int, typer.Argument(help="The node whose data directory is lost.", min=1)]
Yes = Annotated[bool, typer.Option("--yes", help="Also where basins are lost with it.")]


@app.command("list")
@with_shared_options
def list_members(
    choice: NodeChoice,
    json: Json = False,
) -> None:
    """The nodes as one of them sees them: who is away, and who came up empty."""
    ask("members", choice, json)


@app.command("replace")
@with_shared_options
def replace_member(
    lost: Lost,
    choice: NodeChoice,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Let a node that came up with an empty data directory take the place of the lost one. That one
    is refused for ever. Status 1: nothing was done."""
    from svc_cluster.cli.admin.text import replaced

    answer = asked(choice, lambda client: client.replace_member(lost, also_lost=yes))
    show(answer, Form.JSON if json else Form.TABLE, partial(replaced, lost))
    raise typer.Exit(1 if answer.refused else 0)
