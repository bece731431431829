"""`svc-cluster admin status` and the others that ask a running node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.terminal import say_surely as say

if TYPE_CHECKING:
    from svc_cluster.cli.admin.admin_client import Target

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
    _add(
        app,
        "status",
        "What a node is, whether it is ready, and what keeps it from being. Status 1: not ready.",
        lambda answer: 0 if answer.ready else 1,
    )
    _add(app, "members", "The nodes of the cluster as one of them sees them.")
    _add(app, "leaders", "Who leads each group that has a replica on a node.")
    _add(
        app,
        "drain",
        "Make a node give all its leaderships away; it is not ready until it is started again. "
        "Status 1: some are still its own.",
        lambda answer: 1 if answer.groups_left else 0,
    )
    _add(
        app,
        "configuration",
        "The settings that a node runs with; what leads to secrets is masked.",
    )


def _add(
    app: typer.Typer, name: Operation, told: str, exit_status: Callable[[Any], int] = lambda _: 0
) -> None:
    """Add the command that asks a node for what has this name. All of them have the same options:
    which node is asked, and how it is told."""

    def command(
        address: Address = None,
        data_dir: DataDir = None,
        node: Node = None,
        tls_cert: Certificate = None,
        tls_key: Key = None,
        tls_ca: Authority = None,
        json: Json = False,
    ) -> None:
        target = _target(address, data_dir, node, (tls_cert, tls_key, tls_ca))
        raise typer.Exit(exit_status(_ask(name, target, json)))

    app.command(name, help=told)(command)


def _target(
    address: str | None,
    data_dir: Path | None,
    node: int | None,
    files: tuple[Path | None, Path | None, Path | None],
) -> Target:
    from svc_cluster.cli.admin.admin_client import AdminError, given_target, local_target

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

    from svc_cluster.cli.admin import text as admin_text
    from svc_cluster.cli.admin.admin_client import AdminError, connected, plain
    from svc_cluster.cli.admin.admin_client import configuration as by_key

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
