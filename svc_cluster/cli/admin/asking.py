"""What all commands have in common that ask a node for something of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from svc_cluster.cli import output_form
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.terminal import say_surely as say

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from svc_cluster.cli.admin.admin_client import AdminClient
    from svc_cluster.cli.admin.node_choice import NodeChoice

    Answer = TypeVar("Answer", bound=Message)
    Told = TypeVar("Told")


Form = output_form.OutputForm
Output = output_form.Output
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this it is only told.")]


def asked(
    choice: NodeChoice, call: Callable[[AdminClient], Coroutine[object, object, Told]]
) -> Told:
    """The node's answer. Where there is none the process ends with one sentence and status 1."""
    import asyncio

    from svc_cluster.cli.admin.admin_client import AdminError, connected

    target = choice.target()

    async def ask() -> Told:
        async with connected(target) as client:
            return await call(client)

    try:
        return asyncio.run(ask())
    except AdminError as cause:
        fail(str(cause), 1)
        raise


def show(answer: Answer, form: Form, lines: Callable[[Answer], Iterable[str]]) -> None:
    """Print the answer as it is asked for."""
    from svc_cluster.cli.admin.admin_client import plain

    if form is Form.JSON:
        say_json(plain(answer))
    else:
        say("\n".join(lines(answer)))


def say_json(content: object) -> None:
    """Print one JSON object, on one line."""
    import msgspec

    say(msgspec.json.encode(content).decode())
