"""What all commands that ask a server have in common: their options, and how they end."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import secrets
import signal
import stat
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.cli.data.printing import say_members
from svc_cluster.cli.data.server_choice import ServerOptions, chosen_server
from svc_cluster.cli.output_form import Output, OutputForm
from svc_cluster.cli.shared_options import with_shared_options
from svc_cluster.cli.terminal import (
    OutputError,
    drop_output,
    end_with,
    end_without_output,
    to_output,
)
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.definite_append import PATIENCE_SECONDS, RetryPatience
from svc_cluster.client.service_client import ServiceClient, shaped

EXIT_STATUS: Final = (
    "Exit status: 0 done, 1 it did not go well, 2 wrong usage, 130 interrupted. A reader of the "
    "output that goes away ends the command quietly, with 0."
)
INTERRUPTED: Final = 130


Meant = Annotated[bool, typer.Option("--yes", help="It is meant.")]


class UsageFault(Exception):
    """One sentence about what was asked for: the status is 2."""


def check_meant(is_meant: bool, name: str) -> None:
    """Raises UsageFault for a deletion that nobody has said is meant."""
    if not is_meant:
        raise UsageFault(f"this deletes {name} with all its records: say so with --yes")


Name = Annotated[
    str | None, typer.Option("--profile", help="Of `svc-cluster profile`; else the default one.")
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="The server. Else S2_ACCOUNT_ENDPOINT, else the profile's."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="Holds the access token. Else S2_ACCESS_TOKEN."),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", help="The CA of the server's certificate.")
]


@dataclass(slots=True)
class VerbCall:
    """What one call of a command has to do its work with."""

    client: ServiceClient
    form: OutputForm
    clock: Clock
    rng: random.Random

    @property
    def is_json(self) -> bool:
        return self.form is OutputForm.JSON

    def tell(self, body: bytes, told: str | None = None) -> None:
        """Print an answer: as JSON what has come; else what is told of it, or its members."""
        if self.is_json:
            say(body.decode())
        elif told is not None:
            say(told)
        else:
            say_members(shaped(body, dict[str, object]))

    def patience(self, seconds: float = PATIENCE_SECONDS) -> RetryPatience:
        return RetryPatience(self.clock, self.rng, seconds)

    def new_token(self) -> str:
        """Return a request token that nobody else has."""
        return secrets.token_hex(16)


Work = Callable[..., Coroutine[object, object, None]]


class VerbGroup:
    """Commands with a noun in common."""

    def __init__(self, told: str) -> None:
        self.app = typer.Typer(no_args_is_help=True, help=told)

    def verb(self, name: str) -> Callable[[Work], Work]:
        """Make a coroutine function a command: its first argument is a VerbCall, the others are the
        command's own. The options that say which server, and the output's form, are added."""

        def add(work: Work) -> Work:
            work = with_shared_options(work)
            own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
            wrapped = _wrapped(work)
            # typer reads these two
            wrapped.__dict__["__signature__"] = inspect.Signature([*own, *_COMMON])
            wrapped.__annotations__ = {each.name: each.annotation for each in [*own, *_COMMON]}
            self.app.command(name, help=inspect.getdoc(work), epilog=EXIT_STATUS)(wrapped)
            return work

        return add


def _wrapped(work: Work) -> Callable[..., None]:
    def command(
        *,
        profile: str | None,
        url: str | None,
        token_file: Path | None,
        ca_file: Path | None,
        output: OutputForm,
        **own: object,
    ) -> None:
        options = ServerOptions(profile=profile, url=url, token_file=token_file, ca_file=ca_file)

        async def main() -> None:
            async with ServiceClient(chosen_server(options)) as client:
                call = VerbCall(client, output, SystemClock(), random.Random())
                await work(call, **own)

        perform(main)

    return command


_COMMON: Final = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, kind, default in (
        ("profile", Name, None),
        ("url", Url, None),
        ("token_file", TokenFile, None),
        ("ca_file", CaFile, None),
        ("output", Output, OutputForm.TABLE),
    )
]


def perform(main: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a command's work and end the process as its outcome asks. Of a fault that a server, a
    person or a reader of the output can cause one sentence is said and nothing else."""
    try:
        asyncio.run(_until_reader_goes(main))
    except UsageFault as cause:
        end_with(str(cause), 2)
    except ClientError as cause:
        end_with(str(cause), 1)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        end_without_reader()
    except OutputError as cause:
        end_without_output(cause)
    except OSError as cause:
        told = cause.strerror or str(cause)
        end_with(told if cause.filename is None else f"{cause.filename}: {told}", 1)


async def _until_reader_goes(main: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run to the end, or until whoever reads the output through a pipe has gone. A follower would
    else notice it with the next record only."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    is_gone = False

    def gone() -> None:
        nonlocal is_gone
        is_gone = True
        loop.remove_reader(1)
        task.cancel()

    watched = _is_pipe(1)
    if watched:
        loop.add_reader(1, gone)
    try:
        with _woken_by_signals(loop):
            await main()
        with to_output():
            sys.stdout.flush()
    except asyncio.CancelledError:
        if is_gone:
            raise BrokenPipeError from None
        raise
    finally:
        if watched:
            loop.remove_reader(1)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have every signal that is handled wake the loop. Python runs its handlers in the main thread,
    between two steps of it: of a signal that came just before the loop's wait, or to another
    thread, it would hear with the next event only. What a Ctrl-C does is not changed."""
    heard, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    loop.add_reader(heard, os.read, heard, 512)
    before = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        loop.remove_reader(heard)
        os.close(heard)
        os.close(woken)


def _is_pipe(handle: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(handle).st_mode)
    except OSError:
        return False


def end_without_reader() -> NoReturn:
    """End quietly: whoever read the output has had enough. What is buffered has nowhere to go."""
    drop_output()
    raise SystemExit(0)


def on_interrupt(stop: Callable[[], None]) -> None:
    """Have a first Ctrl-C end what is done in order; a second one ends it at once. Where whoever
    started the command has it pass over Ctrl-C, that stays so."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    loop = asyncio.get_running_loop()

    def first() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop()

    loop.add_signal_handler(signal.SIGINT, first)
