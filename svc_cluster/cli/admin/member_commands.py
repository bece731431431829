"""`svc-cluster admin member`: the nodes of the cluster, and those that lost their data."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NODE_ID_MAX, SETTINGS_NODE_ID_MAX, NodeChoice
from svc_cluster.cli.admin.node_commands import Json, ask, form_of
from svc_cluster.cli.output_form import Teller
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import with_shared_options
from svc_cluster.model.join_token import TTL_SECONDS, TTL_SECONDS_MAX, TTL_SECONDS_MIN

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.admin_client import AdminClient
    from svc_cluster.cli.admin.member_waiting import FoundToken, WantedToken
    from svc_cluster.cli.admin.token_file import TokenFile

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
    output: Output = Form.TABLE,
) -> None:
    """The nodes as one of them sees them: who is away, and who came up empty."""
    ask("members", choice, form_of(output, json=json))


@app.command("add")
@with_shared_options
def add_member(
    new: Annotated[
        int, typer.Argument(metavar="NODE", help="An id for it.", min=1, max=SETTINGS_NODE_ID_MAX)
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
            "answer. A node that belongs to the cluster is enough, and a token file that is there "
            "while its token is open; one that lets nobody in is replaced.",
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

    request = pb.AddMemberRequest(node_id=new, ttl_seconds=ttl)
    if wait is not None:
        found = _insist(choice, token_file, request, wait, Teller(output))
        if found is not None:
            show(found, output, partial(added, token_file))
        return
    if token_file is not None and token_file.exists():
        fail(f"{token_file} is there already: name a new file, or remove it first", 2)
    answer = asked(choice, lambda client: client.add_member(request))
    if token_file is not None:
        _keep(token_file, answer.join_token, new)
        answer.join_token = ""
    show(answer, output, partial(added, token_file))


def _insist(
    choice: NodeChoice,
    path: Path | None,
    request: pb.AddMemberRequest,
    wait: int,
    teller: Teller,
) -> pb.AddMemberResponse | None:
    """The answer, once there is one; the token is in the file then, where one is named. None: there
    is nothing to tell that has not been said. Ends the process where it fails."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.token_file import TokenFile, TokenFileError
    from svc_cluster.model.join_token import MEMBER_ALREADY

    node = request.node_id
    try:
        file = None if path is None else TokenFile(path, node)
        wanted = _wanted(file, request)
        found = asked(choice, lambda client: _found(client, wanted, wait))
        if file is not None and found.token not in (None, wanted.kept):
            file.take()
        elif file is not None and (found.token is None or found.expires_at_ms is not None):
            file.forget()
    except TokenFileError as cause:
        fail(str(cause), 2)
        raise
    if found.token is None:
        told = f"node {node} {MEMBER_ALREADY}"
    elif found.expires_at_ms is None:
        told = f"no node of the cluster answers: the join token in {path} is taken as it is"
    elif found.token == wanted.kept:
        told = f"a join token for node {node} is in {path} already"
    else:
        text = found.token.text if path is None else ""
        return pb.AddMemberResponse(
            node_id=node, join_token=text, expires_at_ms=found.expires_at_ms
        )
    teller.end({"node_id": node, "told": told}, [told])
    return None


def _wanted(file: TokenFile | None, request: pb.AddMemberRequest) -> WantedToken:
    import secrets

    from svc_cluster.cli.admin.member_waiting import WantedToken
    from svc_cluster.model.join_token import SECRET_BYTES, JoinToken

    node, ttl = request.node_id, request.ttl_seconds
    if file is not None:
        return WantedToken(node, ttl, file.next_token, file.kept)
    token = JoinToken(node, secrets.token_bytes(SECRET_BYTES))
    return WantedToken(node, ttl, lambda: token)


async def _found(client: AdminClient, wanted: WantedToken, wait: int) -> FoundToken:
    """Raises AdminError."""
    import asyncio

    from svc_cluster.base.clock import SystemClock
    from svc_cluster.cli.admin.member_waiting import MemberWaiting

    return await MemberWaiting(client, wanted, wait, SystemClock(), asyncio.sleep).run()


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
        list[int], typer.Argument(metavar="NODE...", help="Nodes' ids.", min=1, max=NODE_ID_MAX)
    ],
    choice: NodeChoice,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also a node that is not drained, if it is empty.")
    ] = False,
    output: Output = Form.TABLE,
) -> None:
    """Let an empty node leave the cluster, or withdraw the join token of one that has not come.
    Drain a node first, and wait until it is empty. Its directory is refused for ever. Of several
    nodes none goes while one of them may not."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.cli.admin.admin_client import AdminError
    from svc_cluster.cli.admin.text import left

    async def remove(client: AdminClient) -> str | list[pb.RemoveMemberResponse]:
        rows = {row.node_id: row for row in (await client.members()).members}
        if len(gone) > 1 and (strange := sorted(set(gone) - rows.keys())):
            return f"node {strange[0]} is no member; a join token is withdrawn by itself"
        for row in (rows[one] for one in gone if one in rows):
            if why := await _why_not_gone(client, row, yes=yes, several=len(gone) > 1):
                return why
        done: list[pb.RemoveMemberResponse] = []
        for one in gone:
            try:
                done.append(await client.remove_member(pb.RemoveMemberRequest(node_id=one)))
            except AdminError as cause:
                if not done:
                    raise
                names = ", ".join(str(each.node_id) for each in done)
                raise AdminError(f"node {names} was removed, and then: {cause}") from cause
        return done

    answers = asked(choice, remove)
    if isinstance(answers, str):
        fail(f"nothing was done: {answers}", 1)
        return
    for answer in answers:
        show(answer, output, left)


async def _why_not_gone(
    client: AdminClient, row: pb.Member, *, yes: bool, several: bool
) -> str | None:
    """Why a member is not removed; None: the catalog decides. Raises AdminError."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb

    drain = f"svc-cluster admin node drain {row.node_id}"
    if row.state == "active" and not yes:
        return (
            f"node {row.node_id} takes part in the cluster: drain it first, and wait until it is "
            f"empty: {drain}; an empty one that is not drained goes with --yes, and its data "
            "directory never comes back"
        )
    if not several or row.state == "removed":
        return None
    asked_for = pb.DrainNodeRequest(node_id=row.node_id, verb="status")
    there = await client.drain_node(asked_for)
    if not there.replicas and not there.holds_catalog:
        return None
    return f"node {row.node_id} is not empty yet: see svc-cluster admin node status {row.node_id}"


@app.command("promote")
@with_shared_options
def promote_members(
    promoted: Annotated[
        list[int], typer.Argument(metavar="NODE...", help="Nodes' ids.", min=1, max=NODE_ID_MAX)
    ],
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Let nodes that came later vote in the catalog, beside those that do. There are 1, 3 or 5
    votes. Each node learns all there is first: `catalog show` tells how far that is."""
    from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
    from svc_cluster.catalog.own_group import VOTES

    async def promote(client: AdminClient) -> str | pb.MoveBasinResponse:
        votes = [row.node_id for row in (await client.catalog()).replicas]
        wanted = list(dict.fromkeys([*votes, *promoted]))
        if len(wanted) == len(votes):
            return "these nodes vote in the catalog already"
        if len(wanted) not in VOTES:
            return (
                f"{len(votes)} nodes vote in the catalog, and {len(wanted)} cannot, but 1, 3 or 5: "
                "name as many as make it that, or have votes moved: svc-cluster admin catalog "
                f"move --to {','.join(map(str, wanted[: len(votes)]))}"
            )
        request = pb.MoveBasinRequest(catalog=True, to=wanted, reason="promoted")
        return await client.move_basin(request)

    answer = asked(choice, promote)
    if isinstance(answer, str):
        fail(f"nothing was done: {answer}", 1)
        return
    names = ", ".join(map(str, promoted))
    show(answer, output, lambda _: [f"node {names} is to vote in the catalog: see catalog show"])


@app.command("replace")
@with_shared_options
def replace_member(
    lost: Lost,
    choice: NodeChoice,
    yes: Yes = False,
    json: Json = False,
    output: Output = Form.TABLE,
) -> None:
    """Let a node that came up with an empty data directory take the place of the lost one. That one
    is refused for ever. Status 1: nothing was done."""
    from svc_cluster.cli.admin.text import replaced

    answer = asked(choice, lambda client: client.replace_member(lost, also_lost=yes))
    show(answer, form_of(output, json=json), partial(replaced, lost))
    raise typer.Exit(1 if answer.refused else 0)
