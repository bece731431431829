"""Which node a command of `svc-cluster admin` asks, by the options that all of them have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.shared_options import SharedOptions

if TYPE_CHECKING:
    from svc_cluster.cli.admin.admin_client import Target

NODE_ID_MAX: Final = 2**32 - 1
"""The widest that a message can name."""
SETTINGS_NODE_ID_MAX: Final = 999_999_999
"""The highest that the settings of a node take."""

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
        max=NODE_ID_MAX,
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


@dataclass(frozen=True, slots=True)
class NodeChoice(SharedOptions):
    """The options that name a node, and how to get to it."""

    address: Address = None
    data_dir: DataDir = None
    node: Node = None
    tls_cert: Certificate = None
    tls_key: Key = None
    tls_ca: Authority = None

    def target(self) -> Target:
        """The node that the options name; ends the process with status 2 where they name none."""
        from svc_cluster.cli.admin.admin_client import AdminError, given_target, local_target

        files = (self.tls_cert, self.tls_key, self.tls_ca)
        try:
            if self.data_dir is not None:
                return local_target(self.data_dir, self.node)
            if self.address is not None:
                return given_target(self.address, self.node, files)
        except AdminError as cause:
            fail(str(cause), 2)
        fail("which node: use --address HOST:PORT, or --data-dir of a `svc-cluster local`", 2)
        raise AssertionError("not reached")
