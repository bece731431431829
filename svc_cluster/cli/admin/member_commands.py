"""`svc-cluster admin member`: the nodes of the cluster, and those that lost their data."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NODE_ID_MAX, NodeChoice
from svc_cluster.cli.admin.node_commands import Json, ask
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import with_shared_options
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.model.join_token import TTL_SECONDS, TTL_SECONDS_MAX, TTL_SECONDS_MIN

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.admin_client import AdminClient

PAUSE_SECONDS: Final = 1.0
"""Between two attempts at a cluster that does not answer yet."""

WAIT_SECONDS_MAX: Final = 3600

app = typer.Typer(no_args_is_help=True, help="The nodes of the cluster.")

Lost = Annotated[
    int, typer.Argument(help="The node whose data directory is lost.", min=1, max=NODE_ID_MAX)
]
Yes = Annotated[bool, typer.Option("--yes", help="Also where basins are lost with it.")]


@app.command("list")
@with_shared_options
def list_members(
    choice: NodeChoice,
    json: Json = False,
) -> None:
    """The nodes as one of them sees them: who is away, and who came up empty."""
    ask("members", choice, json)


@app.command("add")
@with_shared_options
def add_member(
    new: Annotated[
        int, typer.Argument(metavar="NODE", help="An id for it.", min=1, max=NODE_ID_MAX)
    ],
    choice: NodeChoice,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A new file for the join token, readable for this user alone."),
    ] = None,
    ttl: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            help="How long the token is good for.",
            min=TTL_SECONDS_MIN,
            max=TTL_SECONDS_MAX,
        ),
    ] = TTL_SECONDS,
    wait: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            help="For services that start with the cluster: ask for so long while it does not "
            "answer. A token file that is there is enough, and a node that belongs to the cluster.",
            min=1,
            max=WAIT_SECONDS_MAX,
        ),
    ] = None,
    output: Output = Form.TABLE,
) -> None:
    """Let a new node come to the cluster. Its join token is printed once, or written to a file; the
    node names that in its setting `join_token_file`."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.text import added

    if token_file is not None and token_file.exists():
        if wait is not None:
            say(f"a join token for node {new} is in {token_file} already")
            return
        fail(f"{token_file} is there already: name a new file, or remove it first", 2)
    request = pb.AddMemberRequest(node_id=new, ttl_seconds=ttl)
    answer = asked(choice, lambda client: _added(client, request, wait))
    if not answer.join_token:
        say(f"node {new} belongs to the cluster already")
        return
    if token_file is not None:
        _keep(token_file, answer.join_token, new)
        answer.join_token = ""
    show(answer, output, partial(added, token_file))


async def _added(
    client: AdminClient, request: pb.AddMemberRequest, wait: int | None
) -> pb.AddMemberResponse:
    """The answer; without a token where the node belongs to the cluster and that is enough. Raises
    AdminError."""
    import asyncio

    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.base.clock import SystemClock
    from svc_cluster.cli.admin.admin_client import AdminError

    if wait is None:
        return await client.add_member(request)
    clock = SystemClock()
    end = clock.monotonic() + wait
    while True:
        try:
            known = (await client.members()).members
            if any(row.node_id == request.node_id and row.state in _MEMBERS for row in known):
                return pb.AddMemberResponse(node_id=request.node_id)
            return await client.add_member(request)
        except AdminError as cause:
            if cause.is_final or clock.monotonic() >= end:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


_MEMBERS: Final = ("active", "draining")
"""Their states by the catalog; one that was removed is refused."""


def _keep(path: Path, token: str, node: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w") as out:
            out.write(token + "\n")
    except OSError as cause:
        fail(
            f"{path} cannot be written ({cause.strerror}), and the join token is lost: withdraw it "
            f"by `svc-cluster admin member remove {node}`, and ask for another one",
            1,
        )


@app.command("remove")
@with_shared_options
def remove_member(
    gone: Annotated[
        int, typer.Argument(metavar="NODE", help="The node's id.", min=1, max=NODE_ID_MAX)
    ],
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Let an empty node leave the cluster, which refuses it for ever; or withdraw the join token of
    one that has not come. Drain a node first, and wait until it is empty."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.text import left

    request = pb.RemoveMemberRequest(node_id=gone)
    answer = asked(choice, lambda client: client.remove_member(request))
    show(answer, output, left)


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
