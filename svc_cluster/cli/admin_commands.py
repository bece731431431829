"""`svc-cluster admin status` and the others that ask a running node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from svc_cluster.cli.process import fail
from svc_cluster.cli.terminal import say_surely as say

if TYPE_CHECKING:
    from svc_cluster.cli.admin_client import Target

Operation = Literal["status", "members", "leaders", "drain", "configuration"]

Address = Annotated[
    str | None,
    typer.Option(
        envvar="SVC_CLUSTER_ADMIN_RPC_ADDRESS",
        help="host:port of the node's administration (its admin_rpc_address).",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Instead of --address: the directory of a `svc-cluster local`."),
]
Node = Annotated[
    int | None,
    typer.Option(
        envvar="SVC_CLUSTER_NODE_ID",
        min=1,
        help="The node's id: under TLS its certificate has to be that node's.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(envvar="SVC_CLUSTER_PEER_TLS_CERT", help="An administrator's certificate."),
]
Key = Annotated[
    Path | None, typer.Option(envvar="SVC_CLUSTER_PEER_TLS_KEY", help="The certificate's key.")
]
Authority = Annotated[
    Path | None, typer.Option(envvar="SVC_CLUSTER_PEER_TLS_CA", help="The cluster's CA.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def add_commands(app: typer.Typer) -> None:
    for command in (status, members, leaders, drain, configuration):
        app.command()(command)


def status(
    address: Address = None,
    data_dir: DataDir = None,
    node: Node = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_ca: Authority = None,
    json: Json = False,
) -> None:
    """What a node is, whether it is ready, and what keeps it from being. Status 1: not ready."""
    answer = _ask("status", _target(address, data_dir, node, (tls_cert, tls_key, tls_ca)), json)
    raise typer.Exit(0 if answer.ready else 1)


def members(
    address: Address = None,
    data_dir: DataDir = None,
    node: Node = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_ca: Authority = None,
    json: Json = False,
) -> None:
    """The nodes of the cluster as one of them sees them."""
    _ask("members", _target(address, data_dir, node, (tls_cert, tls_key, tls_ca)), json)


def leaders(
    address: Address = None,
    data_dir: DataDir = None,
    node: Node = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_ca: Authority = None,
    json: Json = False,
) -> None:
    """Who leads each group that has a replica on a node."""
    _ask("leaders", _target(address, data_dir, node, (tls_cert, tls_key, tls_ca)), json)


def drain(
    address: Address = None,
    data_dir: DataDir = None,
    node: Node = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_ca: Authority = None,
    json: Json = False,
) -> None:
    """Make a node give all its leaderships away; it is not ready until it is started again. Status
    1: some are still its own."""
    answer = _ask("drain", _target(address, data_dir, node, (tls_cert, tls_key, tls_ca)), json)
    raise typer.Exit(1 if answer.groups_left else 0)


def configuration(
    address: Address = None,
    data_dir: DataDir = None,
    node: Node = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_ca: Authority = None,
    json: Json = False,
) -> None:
    """The settings that a node runs with; what leads to secrets is masked."""
    _ask("configuration", _target(address, data_dir, node, (tls_cert, tls_key, tls_ca)), json)


def _target(
    address: str | None,
    data_dir: Path | None,
    node: int | None,
    files: tuple[Path | None, Path | None, Path | None],
) -> Target:
    from svc_cluster.cli.admin_client import AdminError, given_target, local_target

    try:
        if data_dir is not None:
            return local_target(data_dir, node)
        if address is not None:
            return given_target(address, node, files)
    except AdminError as cause:
        fail(str(cause), 2)
    fail("which node: use --address HOST:PORT, or --data-dir of a `svc-cluster local`", 2)
    raise AssertionError("not reached")


def _ask(operation: Operation, target: Target, json: bool) -> Any:
    """Ask and print; returns the answer, and ends the process where there is none."""
    import asyncio

    import msgspec

    from svc_cluster.cli import admin_text
    from svc_cluster.cli.admin_client import AdminError, connected, plain
    from svc_cluster.cli.admin_client import configuration as by_key

    async def call() -> Any:
        async with connected(target) as client:
            return await getattr(client, operation)()

    try:
        answer = asyncio.run(call())
    except AdminError as cause:
        fail(str(cause), 1)
        raise
    if json:
        content = by_key(answer) if operation == "configuration" else plain(answer)
        say(msgspec.json.encode(content).decode())
    else:
        say("\n".join(getattr(admin_text, operation)(answer)))
    return answer
