"""`svc-cluster admin catalog`: who votes in the catalog of all basins, nodes and tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.basin_commands import Fewer, moved, wanted_nodes
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.shared_options import with_shared_options

app = typer.Typer(no_args_is_help=True, help="The catalog of the cluster, and who votes in it.")


@app.command("show")
@with_shared_options
def show_catalog(choice: NodeChoice, output: Output = Form.TABLE) -> None:
    """Every replica with a vote: who leads, how far each is, what it holds. Status 1: two that are
    as far hold different things, nobody leads, or one is away, stopped or being made whole."""
    from svc_cluster.cli.admin import cluster_text

    answer = asked(choice, lambda client: client.catalog())
    show(answer, output, cluster_text.basin)
    raise typer.Exit(1 if cluster_text.basin_faults(answer) else 0)


@app.command("move")
@with_shared_options
def move_catalog(
    choice: NodeChoice,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Nodes that vote, by their ids, as 1,2,4; who leads first."),
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Give the open move up instead, if it can be.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept with the move.")] = "",
    yes: Fewer = False,
    output: Output = Form.TABLE,
) -> None:
    """Let other nodes vote in the catalog, 1, 3 or 5 of them. `catalog show` tells how far that is.
    Most of the next ones have to vote already, but from 1 to 3."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb

    nodes = wanted_nodes(to, give_up=give_up)
    request = pb.MoveBasinRequest(catalog=True, to=nodes, reason=reason)

    def text(answer: pb.MoveBasinResponse) -> list[str]:
        return [f"the catalog {'stays' if give_up else f'moves to {to}'}: see catalog show"]

    show(moved(choice, request, yes=yes), output, text)
