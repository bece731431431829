"""`svc-cluster admin rebalance`: where replicas should be, and having them moved there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import with_shared_options
from svc_cluster.cli.terminal import last_words

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.admin_client import AdminClient

PAUSE_SECONDS: Final = 1.0
"""Between two questions how far it is, each of which says that it is to go on."""

FAILURES_MAX: Final = 30
"""Questions in a row without an answer: while somebody else comes to lead the catalog there is
none."""

FOR_SECONDS: Final = 3600


@with_shared_options
def rebalance(
    choice: NodeChoice,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what should be moved.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Only tell what is being moved now.")
    ] = False,
    seconds: Annotated[
        int, typer.Option("--for", min=1, help="Begin nothing more after so many seconds.")
    ] = FOR_SECONDS,
    output: Output = Form.TABLE,
) -> None:
    """Move replicas until each is where it should be, a few at a time. Ended early, it begins no
    more, and what has begun goes on. Status 1: some should still be elsewhere."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin import cluster_text

    if dry_run and status:
        fail("say either --dry-run or --status", 2)
    if dry_run:
        answer = asked(choice, lambda client: client.plan_placement(pb.PlanPlacementRequest()))
        show(answer, output, cluster_text.placement)
        raise typer.Exit(1 if answer.changes or answer.open else 0)
    if status:
        request = pb.PlanPlacementRequest(progress_only=True)
        answer = asked(choice, lambda client: client.plan_placement(request))
        show(answer, output, cluster_text.rebalanced)
        raise typer.Exit(1 if answer.open else 0)
    answer = asked(choice, lambda client: _carry_out(client, seconds))
    show(answer, output, cluster_text.rebalanced)
    raise typer.Exit(0 if answer.done else 1)


async def _carry_out(client: AdminClient, seconds: int) -> pb.PlanPlacementResponse:
    """Say again and again that it is to go on, until nothing is left."""
    import asyncio

    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.base.clock import SystemClock
    from svc_cluster.cli.admin import cluster_text
    from svc_cluster.cli.admin.admin_client import AdminError

    clock = SystemClock()
    request = pb.PlanPlacementRequest(carry_out=True)
    answer = await client.plan_placement(request)
    end, failures, said = clock.monotonic() + seconds, 0, ""
    while not answer.done and clock.monotonic() < end:
        line = cluster_text.rebalance_line(answer)
        if line != said:
            last_words(f"{line}\n")
            said = line
        await asyncio.sleep(PAUSE_SECONDS)
        try:
            answer = await client.plan_placement(request)
        except AdminError:
            failures += 1
            if failures > FAILURES_MAX:
                raise
        else:
            failures = 0
    return answer
