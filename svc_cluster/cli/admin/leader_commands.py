"""`svc-cluster admin leader`: who leads which group, and moving that by hand-over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NODE_ID_MAX, NodeChoice
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import with_shared_options
from svc_cluster.cli.terminal import last_words

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.admin_client import AdminClient

app = typer.Typer(no_args_is_help=True, help="Who leads which basin.")

ROUNDS_MAX: Final = 400
"""Rounds of one `balance`, of at most 1.5 s each."""
PAUSE_SECONDS: Final = 0.2
FRUITLESS_ROUNDS_MAX: Final = 3
"""Rounds that move nothing before it is given up."""


@app.command("show")
@with_shared_options
def show_leaders(
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Who leads each basin, and the catalog (`-`), by all nodes. Status 1: somebody is without a
    leader."""
    from svc_cluster.cli.admin import cluster_text

    answer = asked(choice, lambda client: client.cluster_leaders())
    show(answer, output, cluster_text.leaders)
    raise typer.Exit(0 if all(row.leader for row in answer.groups) else 1)


@app.command("transfer")
@with_shared_options
def transfer_leader(
    choice: NodeChoice,
    basin: Annotated[
        str | None, typer.Argument(metavar="[BASIN]", help="The basin; else --catalog.")
    ] = None,
    catalog: Annotated[bool, typer.Option("--catalog", help="The catalog's lead.")] = False,
    to: Annotated[
        int | None,
        typer.Option(
            help="The node to lead; default: the one that has most of the log.",
            min=1,
            max=NODE_ID_MAX,
        ),
    ] = None,
    output: Output = Form.TABLE,
) -> None:
    """Hand the lead of one basin over. Writes to it wait for some hundredths of a second."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin import cluster_text

    if bool(basin) is catalog:
        fail("whose lead: name a basin, or say --catalog", 2)
    request = pb.TransferLeaderRequest(basin=basin or "", group_id=1 if catalog else 0, to=to or 0)
    show(asked(choice, lambda client: client.transfer_leader(request)), output, cluster_text.moved)


@app.command("balance")
@with_shared_options
def balance_leaders(
    choice: NodeChoice,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be moved.")
    ] = False,
    output: Output = Form.TABLE,
) -> None:
    """Move leads until no node leads more than one above another, eight at a time. Status 1: some
    could not be moved."""
    from svc_cluster.cli.admin import cluster_text

    answer = asked(choice, lambda client: _balance(client, dry_run=dry_run))
    show(answer, output, cluster_text.balance_plan if dry_run else cluster_text.balanced)
    is_left = not dry_run and (answer.has_more or answer.moved < len(answer.moves))
    raise typer.Exit(1 if is_left else 0)


async def _balance(client: AdminClient, *, dry_run: bool) -> pb.BalanceLeadersResponse:
    """Rounds until one has nothing to do. The answer has the counts from before the first, and
    from the last one what is left."""
    import asyncio

    answer = first = await client.balance_leaders(dry_run=dry_run)
    moved, fruitless = first.moved, 0
    if dry_run:
        return first
    done = [move for move in answer.moves if move.done]
    for _ in range(ROUNDS_MAX):
        is_open = answer.moves or answer.without_leader
        if not is_open or fruitless >= FRUITLESS_ROUNDS_MAX:
            break
        last_words(f"{moved} leads moved\n")
        await asyncio.sleep(PAUSE_SECONDS)  # until who was asked to lead says so
        answer = await client.balance_leaders(dry_run=False)
        fruitless = 0 if answer.moved else fruitless + 1
        moved += answer.moved
        done += [move for move in answer.moves if move.done]
    left = [move for move in answer.moves if not move.done]
    first.ClearField("moves")
    first.moves.extend([*done, *left])
    first.moved, first.has_more = moved, answer.has_more
    return first
