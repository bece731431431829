"""`svc-cluster admin basin`: the replicas of one basin."""

from __future__ import annotations

from typing import Annotated

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.shared_options import with_shared_options

app = typer.Typer(no_args_is_help=True, help="The replicas of a basin.")

Name = Annotated[str, typer.Argument(metavar="BASIN", help="The basin's name.")]


@app.command("show")
@with_shared_options
def show_basin(
    name: Name,
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Every replica: who leads, how far each is, what it holds. Status 1: two that are as far hold
    different things, nobody leads, or a replica is away, stopped or being made whole."""
    from svc_cluster.cli.admin import cluster_text

    answer = asked(choice, lambda client: client.basin(name))
    show(answer, output, cluster_text.basin)
    raise typer.Exit(1 if cluster_text.basin_faults(answer) else 0)
