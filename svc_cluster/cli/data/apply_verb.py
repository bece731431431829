"""`svc-cluster apply`: a file of basins, streams and access tokens, made true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from svc_cluster.cli.data.apply_plan import Due, Step, plan, read_declarations
from svc_cluster.cli.data.printing import (
    GREEN,
    RED,
    YELLOW,
    painted,
    plain,
    say_json,
    wants_colour,
)
from svc_cluster.cli.data.secret_file import SecretFile
from svc_cluster.cli.data.verb import VerbCall, VerbGroup
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.client_errors import ClientError

single_verbs = VerbGroup("Commands without a noun.")

_MARKS = {
    Due.CREATE: ("+", GREEN),
    Due.UPDATE: ("~", YELLOW),
    Due.REFUSED: ("!", RED),
    Due.NOTHING: ("=", "2"),
}


@single_verbs.verb("apply")
async def apply(
    call: VerbCall,
    file: Annotated[
        Path,
        typer.Option(
            "--file", "-f", help="YAML or JSON, in the form of an init file; - is standard input."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and change nothing.")
    ] = False,
) -> None:
    """Make the basins, streams and access tokens of a file, and change those that differ. It shows
    the plan first and does only what is missing: a second time there is nothing to do. Nothing is
    deleted or revoked; a token that differs is refused, with status 1. The secret of a token that
    is issued goes to its secret_file."""
    declared = read_declarations(file)
    steps = [step async for step in plan(call.client, declared, file.absolute().parent)]
    if not call.is_json:
        _show(steps)
    due = [step for step in steps if step.change in (Due.CREATE, Due.UPDATE)]
    done = 0
    if not dry_run:
        for step in due:
            try:
                await _carry_out(call, step)
            except ClientError as cause:
                raise ClientError(
                    f"{step.noun} {plain(step.name)}: {cause}; {done} of {len(due)} steps are done "
                    "before it, and doing it again goes on there"
                ) from cause
            done += 1
    if call.is_json:
        say_json({"steps": [_told(step) for step in steps], "done": done})
    else:
        say(f"{len(due)} to do, nothing was changed" if dry_run else f"{done} of {len(due)} done")
    refused = sum(step.change is Due.REFUSED for step in steps)
    if refused:
        raise ClientError(f"{refused} declarations are refused: see the lines with !")


def _show(steps: list[Step]) -> None:
    colour = wants_colour()
    for step in steps:
        mark, paint = _MARKS[step.change]
        say(painted(f"{mark} {step.noun} {plain(step.name)}", paint, to_terminal=colour))
        for difference in step.differences:
            say(f"    {plain(difference)}")


def _told(step: Step) -> dict[str, object]:
    return {
        "change": step.change.value,
        "kind": step.noun,
        "name": step.name,
        "differences": step.differences,
    }


async def _carry_out(call: VerbCall, step: Step) -> None:
    if step.secret_file is None:
        await call.client.call(step.method, step.path, basin=step.basin, body=step.body)
        return
    with SecretFile(step.secret_file) as secret:
        answer = await call.client.call(step.method, step.path, body=step.body)
        secret.keep(answer.body)
