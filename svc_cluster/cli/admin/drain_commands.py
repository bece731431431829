"""`svc-cluster admin node`: nodes that are to give away what they have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NODE_ID_MAX, NodeChoice
from svc_cluster.cli.shared_options import with_shared_options

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.base.clock import Clock
    from svc_cluster.cli.admin.admin_client import AdminClient

WAIT_SECONDS_MAX: Final = 86_400
LOOK_SECONDS: Final = 1.0

app = typer.Typer(no_args_is_help=True, help="Nodes that are to give away what they have.")

Subject = Annotated[
    int, typer.Argument(metavar="NODE", help="The node's id.", min=1, max=NODE_ID_MAX)
]


@app.command("drain")
@with_shared_options
def drain_node(
    subject: Subject,
    choice: NodeChoice,
    force: Annotated[
        bool, typer.Option("--force", help="Also where its replicas have no other place.")
    ] = False,
    wait: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            help="Until it is empty, for so long. Status 1: it is not.",
            min=1,
            max=WAIT_SECONDS_MAX,
        ),
    ] = None,
    output: Output = Form.TABLE,
) -> None:
    """Let a node give its leads and replicas away and get no new basins, through restarts, until it
    is told otherwise. It goes on while this command has ended: `status` says how far it is. A
    replica that is the only one of its basin stays."""
    if wait is None:
        _ask(subject, "drain", choice, output, force=force)
        return
    from svc_cluster.base.clock import SystemClock
    from svc_cluster.cli.admin import cluster_text

    begin = _request(subject, "drain", force=force)
    answer = asked(
        choice, lambda client: emptied(client, begin, wait, SystemClock(), asyncio.sleep)
    )
    show(answer, output, cluster_text.drain)
    raise typer.Exit(0 if answer.empty else 1)


async def emptied(
    client: AdminClient,
    begin: pb.DrainNodeRequest,
    seconds: float,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]],
) -> pb.DrainNodeResponse:
    """What is left on a node that is told to drain, once nothing is or the time is over. A question
    that is not answered meanwhile is asked again. Raises AdminError where nobody tells it to."""
    from svc_cluster.cli.admin.admin_client import AdminError

    end = clock.monotonic() + seconds
    left = await client.drain_node(begin)
    while not left.empty and clock.monotonic() < end:
        await sleep(LOOK_SECONDS)
        with contextlib.suppress(AdminError):
            left = await client.drain_node(_request(begin.node_id, "status"))
    return left


def _request(subject: int, verb: str, *, force: bool = False) -> pb.DrainNodeRequest:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb

    return pb.DrainNodeRequest(node_id=subject, verb=verb, force=force)


@app.command("undrain")
@with_shared_options
def undrain_node(
    subject: Subject,
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Let a node take leads and new basins again."""
    _ask(subject, "undrain", choice, output)


@app.command("status")
@with_shared_options
def node_status(
    subject: Subject,
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """What is left on a node. Status 1: it drains, and is not empty, or does not answer."""
    answer = _ask(subject, "status", choice, output)
    raise typer.Exit(1 if answer.state == "draining" and not answer.empty else 0)


def _ask(
    subject: int, verb: str, choice: NodeChoice, output: Form, *, force: bool = False
) -> pb.DrainNodeResponse:
    from svc_cluster.cli.admin import cluster_text

    request = _request(subject, verb, force=force)
    answer = asked(choice, lambda client: client.drain_node(request))
    show(answer, output, cluster_text.drain)
    return answer
