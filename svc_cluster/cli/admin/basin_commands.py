"""`svc-cluster admin basin`: the replicas of one basin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import with_shared_options

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.admin_client import AdminClient

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


@app.command("freeze")
@with_shared_options
def freeze_basin(
    name: Name,
    choice: NodeChoice,
    reason: Annotated[
        str, typer.Option("--reason", help="What refused appends are told.")
    ] = "by an operator",
    output: Output = Form.TABLE,
) -> None:
    """Refuse appends to a basin from now on, with a reason, until it is thawed. Reads go on."""
    from svc_cluster.model.freeze_reason import why_no_reason

    why = why_no_reason(reason) if reason else "it is empty, and appends are told it"
    if why is not None:
        fail(f"--reason: {why}", 2)
    _freeze(name, choice, reason, output)


@app.command("thaw")
@with_shared_options
def thaw_basin(
    name: Name,
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Take appends to a basin again."""
    _freeze(name, choice, "", output)


def _freeze(name: str, choice: NodeChoice, reason: str, output: Form) -> None:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb

    request = pb.FreezeBasinRequest(basin=name, reason=reason)

    def text(answer: pb.FreezeBasinResponse) -> list[str]:
        said = f"is frozen: {answer.frozen}" if answer.frozen else "takes appends"
        return [f"basin {name} {said}"]

    show(asked(choice, lambda client: client.freeze_basin(request)), output, text)


def wanted_nodes(to: str | None, *, give_up: bool) -> list[int]:
    """The nodes of --to; none with --give-up. What is neither ends the command."""
    if give_up == bool(to):
        fail("say either --to NODE,NODE,NODE or --give-up", 2)
    nodes = (to or "").split(",") if to else []
    if not all(node.isascii() and node.isdigit() and len(node) <= 9 for node in nodes):
        fail(f"--to {to}: give ids of nodes, as 1,2,4", 2)
    wanted = [int(node) for node in nodes]
    if len(set(wanted)) < len(wanted):
        fail(f"--to {to}: name each node once", 2)
    return wanted


Fewer = Annotated[
    bool, typer.Option("--yes", help="Also to fewer nodes, or to an even number of them.")
]


def moved(choice: NodeChoice, request: pb.MoveBasinRequest, *, yes: bool) -> pb.MoveBasinResponse:
    """The answer. A move that leaves fewer replicas, or an even number, which bears no more losses
    than one less, ends the command without `yes`: nothing makes them more again by itself."""

    async def move(client: AdminClient) -> pb.MoveBasinResponse | str:
        if request.to and not yes:
            whole = await (client.catalog() if request.catalog else client.basin(request.basin))
            now, next_ = len({row.node_id for row in whole.replicas}), len(request.to)
            if next_ < now:
                return f"there are {now} replicas, and {next_} would be left"
            if next_ % 2 == 0:
                return f"{next_} replicas bear no more losses than {next_ - 1}"
        return await client.move_basin(request)

    answer = asked(choice, move)
    if isinstance(answer, str):
        fail(f"nothing was done: {answer}; name more nodes, or say --yes", 1)
        raise typer.Exit(1)
    return answer


@app.command("move")
@with_shared_options
def move_basin(
    name: Name,
    choice: NodeChoice,
    to: Annotated[
        str | None, typer.Option("--to", help="Nodes by their ids, as 1,2,4; who leads first.")
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Give the open move up instead, if it can be.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept with the move.")] = "",
    yes: Fewer = False,
    output: Output = Form.TABLE,
) -> None:
    """Move the replicas of a basin to other nodes, while it is used. `basin show` tells how far it
    is. Most of its replicas have to stay in each move."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb

    request = pb.MoveBasinRequest(basin=name, to=wanted_nodes(to, give_up=give_up), reason=reason)

    def text(answer: pb.MoveBasinResponse) -> list[str]:
        return [f"basin {name} {'stays' if give_up else f'moves to {to}'}: see basin show {name}"]

    show(moved(choice, request, yes=yes), output, text)
