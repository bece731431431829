"""`svc-cluster admin cluster`: the cluster as a whole."""

from __future__ import annotations

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.admin.upgrade_commands import upgrade_status
from svc_cluster.cli.shared_options import with_shared_options

app = typer.Typer(no_args_is_help=True, help="The cluster as a whole.")


@app.command("version")
@with_shared_options
def cluster_version(
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """The active version, and what every node and gateway speaks."""
    from svc_cluster.cli.admin import text

    show(asked(choice, lambda client: client.version()), output, text.version)


@app.command("status")
@with_shared_options
def cluster_status(
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Everything on one page: nodes, leads, disks, memory, versions, what is wrong, what waits."""
    from svc_cluster.cli.admin import cluster_text

    show(asked(choice, lambda client: client.cluster()), output, cluster_text.status)


@app.command("health")
@with_shared_options
def cluster_health(
    choice: NodeChoice,
    output: Output = Form.TABLE,
) -> None:
    """Whether something is wrong, and what. Status 1: something, or nobody answers."""
    from svc_cluster.cli.admin import cluster_text

    answer = asked(choice, lambda client: client.cluster())
    show(answer, output, cluster_text.health)
    raise typer.Exit(1 if answer.problems else 0)


# one of the cluster's states, beside its version: the same as `upgrade status`
app.command("upgrade")(upgrade_status)
