"""What every process of the cluster does at its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, NoReturn

import uvloop

from svc_cluster.base.log import configure, get_logger, is_json
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.native_core import choose_core, core_state
from svc_cluster.cli.processes.start_checks import raise_file_limit
from svc_cluster.cli.terminal import end_with, last_words
from svc_cluster.settings_errors import EXIT_CONFIGURATION, SettingsError
from svc_cluster.settings_secrets import without_secrets

SUPERVISOR_FD: Final = "SVC_CLUSTER_SUPERVISOR_FD"
"""Environment variable: a pipe that closes when the supervisor is gone."""

GIL_SWITCH_SECONDS: Final = 0.0005
"""A busy event loop must hand the interpreter to the sync thread this often."""

MALLOC_ENVIRONMENT: Final = {
    # buffers of a batch's size are used again instead of being given back and faulted in anew
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}

EXIT_FATAL: Final = 70
"""Process exit code after a fault of ours; the log's last line says which."""

log = get_logger("process")


def fail(message: str, code: int = EXIT_CONFIGURATION) -> None:
    """Say one sentence and end the process."""
    end_with(message, code)


def refuse_start(refusal: SettingsError) -> NoReturn:
    """Say why this process does not start, in the form of its log, and end it with the status of
    the refusal."""
    if is_json():
        message = without_secrets(str(refusal))
        log.error("start_refused", message=message, exit_status=refusal.exit_status)
    else:
        last_words(f"svc-cluster: {refusal}\n")
    raise SystemExit(refusal.exit_status)


def last_sentence(line: str) -> str:
    """Return what a process said in its last line, whichever form its log has."""
    try:
        said = json.loads(line)
    except ValueError:
        return line.removeprefix("svc-cluster: ")
    return str(said.get("message", line)) if isinstance(said, dict) else line


def forbid_unpickling() -> None:
    """From now on unpickling anything in this process raises. Nothing that comes from the network
    or the disk is ever executed."""

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "pickle.find_class":
            raise UnpicklingForbiddenError(f"refused to unpickle {args!r}")

    sys.addaudithook(hook)


class UnpicklingForbiddenError(RuntimeError):
    """Somebody tried to turn bytes into objects of any class."""


def run(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
    level: str,
    form: str,
    *,
    files_min: int = 0,
    context: Mapping[str, object] = MappingProxyType({}),
    passed_on: tuple[type[Exception], ...] = (),
) -> None:
    """Run `main(stop)` on uvloop; `stop` is set by SIGTERM, SIGINT or the supervisor's end. Ends
    the process where it may not have `files_min` open files, or refuses its settings, and with 70
    for any other fault, but those that the caller has `passed_on`. Every line of the log has what
    is in `context`."""
    configure(level, form, context)
    forbid_unpickling()
    _log_uncaught()
    try:
        choose_core(os.environ)
        raise_file_limit(files_min)
    except SettingsError as cause:
        refuse_start(cause)
    sys.setswitchinterval(GIL_SWITCH_SECONDS)
    # what was loaded at start lives for ever; collecting it again and again costs pauses
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

    async def body() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        watch_supervisor(loop, stop)
        await main(stop)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(body())
    except SettingsError as cause:
        refuse_start(cause)
    except passed_on:
        raise
    except Exception as fault:
        _say_fault(fault)
        raise SystemExit(EXIT_FATAL) from None


def _log_uncaught() -> None:
    """What ends a thread, or this process outside of the event loop, is a line of the log too."""

    def uncaught(kind: type[BaseException], fault: BaseException | None, trace: object) -> None:
        log.error("uncaught_fault", exc_info=fault or kind())

    sys.excepthook = uncaught
    threading.excepthook = lambda said: uncaught(said.exc_type, said.exc_value, None)


def watch_supervisor(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """A child must not outlive its supervisor: the pipe's end of file says that it is gone."""
    text = os.environ.get(SUPERVISOR_FD)
    if text is None:
        return
    handle = int(text)
    os.set_blocking(handle, False)

    def readable() -> None:
        if is_supervisor_gone():
            loop.remove_reader(handle)
            stop.set()

    loop.add_reader(handle, readable)


def is_supervisor_gone() -> bool:
    """Whether the process that looked after this one has ended. Without one, or before it is
    watched, nobody knows."""
    try:
        return os.read(int(os.environ[SUPERVISOR_FD]), 1) == b""
    except (KeyError, BlockingIOError):
        return False
    except OSError:  # it was killed before it had read what was said to it
        return True


def say_serving() -> None:
    """To a supervisor that waits for it: this process listens. It may be said again and again."""
    with contextlib.suppress(OSError):
        os.write(int(os.environ[SUPERVISOR_FD]), b"1")


def say_build(metrics: Metrics, role: str) -> None:
    """What runs here, as the metric that scrapers join others with."""
    metrics.build_info.labels(
        version=version("svc-cluster"),
        revision=os.environ.get("SVC_CLUSTER_REVISION", ""),
        python_version=platform.python_version(),
        role=role,
    ).set(1)
    metrics.native_core_info.labels(core_state()).set(1)


def exit_fatal(fault: BaseException) -> None:
    """End at once, without a hand-over: what is durable is on the disk, the rest was promised to
    nobody. A supervisor starts the process again and it recovers from its WAL."""
    _say_fault(fault)
    os._exit(EXIT_FATAL)


def _say_fault(fault: BaseException) -> None:
    sentence = without_secrets(f"fatal: {type(fault).__name__}: {fault}")
    if is_json():
        log.error(
            "process_ended_by_fault", exc_info=fault, message=sentence, exit_status=EXIT_FATAL
        )
    else:
        log.error("process_ended_by_fault", exc_info=fault)
        last_words(f"svc-cluster: {sentence}\n")
