"""`svc-cluster admin status` and the others that ask a running node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from svc_cluster.cli.admin.asking import Form, Output, asked, say_json, show
from svc_cluster.cli.admin.node_choice import NodeChoice
from svc_cluster.cli.shared_options import with_shared_options

Operation = Literal["status", "members", "leaders", "drain", "configuration"]

Json = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


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

    def command(choice: NodeChoice, json: Json = False, output: Output = Form.TABLE) -> None:
        raise typer.Exit(exit_status(ask(name, choice, form_of(output, json=json))))

    app.command(name, help=told)(with_shared_options(command))


def form_of(output: Form, *, json: bool) -> Form:
    """Return the form that is asked for. `--json` is the older word for `-o json`."""
    return Form.JSON if json else output


def ask(operation: Operation, choice: NodeChoice, form: Form) -> Any:
    """Ask and print; returns the answer, and ends the process where there is none."""
    from svc_cluster.cli.admin import text as admin_text
    from svc_cluster.cli.admin.admin_client import configuration as by_key

    answer: Any = asked(choice, lambda client: getattr(client, operation)())
    if form is Form.JSON and operation == "configuration":
        say_json(by_key(answer))
    else:
        show(answer, form, getattr(admin_text, operation))
    return answer
