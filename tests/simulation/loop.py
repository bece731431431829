"""A deterministic asyncio event loop in virtual time.

Time stands still while anything is runnable and jumps to the next timer when nothing is. Threads,
executors and sockets raise. Timers of the same instant run in the order in which they were made.
Tasks and futures hash by number, not by address, so that asyncio's own sets of them are iterated in
the same order in every run.

A simulated process is an `Incarnation`: everything it starts carries it in its context, and once it
is killed nothing of it runs again, not even its `finally` blocks.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import os
import sys
import threading
from asyncio import base_events, events
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, NoReturn, TypeVar

from tests.own_processes import resident_bytes

T = TypeVar("T")

START_S: Final = 1_000.0
"""Virtual seconds at the start; not 0, so that a forgotten initial value shows."""

RESOLUTION_S: Final = 1e-6

EVENTS_MAX: Final = 500_000_000
EVENTS_PER_INSTANT_MAX: Final = 300_000
MEMORY_BYTES_MAX: Final = 4 * 1024**3
"""A run may make its process grow by so much: other runs are under way beside it."""
_LOOK_EVERY: Final = 16_384
_COLLECT_EVERY: Final = 1_000_000
_COMPACT_MIN: Final = 4_096
_THAW_EVERY: Final = 50
"""Runs until what earlier ones have frozen is looked through once: that takes a second or more."""
_runs = count()


class SimulationError(Exception):
    """The simulated program did something that it must not do."""


class DeadlockError(SimulationError):
    """Nothing is runnable and no timer is set, yet the program has not ended."""


class BudgetError(SimulationError):
    """The program used up its budget of events, in all or without time going on, or of memory."""


class ForbiddenError(SimulationError):
    """The program reached for a thread, a socket or another real thing."""


class Incarnation:
    """One life of a simulated process."""

    __slots__ = ("_context", "_loop", "alive", "name", "number")

    def __init__(self, loop: SimLoop, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.alive = True
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_OWNER.set, self)

    @property
    def context(self) -> contextvars.Context:
        """A fresh copy: a context can be entered only once at a time."""
        return self._context.copy()

    def run(self, function: Callable[..., T], *args: Any) -> T:
        return self.context.run(function, *args)

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        return self._loop.create_task(coroutine, name=name, context=self.context)

    def kill(self) -> None:
        """Nothing of this process runs from now on."""
        self.alive = False
        self._loop.has_dead = True

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


_OWNER: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar("owner", default=None)


def current_incarnation() -> Incarnation | None:
    """The process that the running code belongs to; None for the simulator itself."""
    return _OWNER.get()


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its number."""

    def __init__(self, coroutine: Any, loop: SimLoop, context: Any, number: int) -> None:
        self.number = number
        super().__init__(coroutine, loop=loop, name=f"task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number

    def silence(self) -> None:
        """It will never end, and that is no fault."""
        self._log_destroy_pending = False


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is its number."""

    def __init__(self, loop: SimLoop, number: int) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimLoop(base_events.BaseEventLoop):
    """Use through `run`."""

    def __init__(
        self, *, events_max: int = EVENTS_MAX, memory_bytes_max: int = MEMORY_BYTES_MAX
    ) -> None:
        super().__init__()
        self._memory_end = resident_bytes(os.getpid()) + memory_bytes_max
        self.events_run = 0
        self.failures: list[str] = []
        self.has_dead = False
        self.kept_s = 0.0
        """Seconds for which something kept the loop; see `keep`."""
        self._events_max = events_max
        self._now = START_S
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._timers_cancelled = 0
        self._numbers = count(1)
        self._incarnations = count(1)
        self._tasks: list[SimTask] = []
        self._tasks_compact_at = _COMPACT_MIN
        self._thread = threading.get_ident()
        self.set_exception_handler(lambda _loop, context: self._note_failure(context))

    def incarnation(self, name: str) -> Incarnation:
        return Incarnation(self, name, next(self._incarnations))

    # Time and timers

    def time(self) -> float:
        return self._now

    def keep(self, seconds: float) -> None:
        """What runs now does not give the loop back for so long."""
        self._now += seconds
        self.kept_s += seconds

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> events.TimerHandle:
        # no pause is so short that no time passes, or waiting for the rest of one would never end
        when = self._now + max(delay, RESOLUTION_S) if delay > 0 else self._now
        return self.call_at(when, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> events.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        handle = events.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), handle))
        handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def _timer_handle_cancelled(self, _handle: events.TimerHandle) -> None:
        self._timers_cancelled += 1

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> events.Handle:
        if threading.get_ident() != self._thread:
            raise ForbiddenError("a thread called into the simulated loop")
        return self.call_soon(callback, *args, context=context)

    # Tasks and futures

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[T]:
        self._check_closed()  # type: ignore[attr-defined]
        task = SimTask(coro, self, context, next(self._numbers))
        if name is not None:
            task.set_name(name)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_compact_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_compact_at = max(_COMPACT_MIN, 2 * len(self._tasks))
        return task

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(self, next(self._numbers))

    # The heart

    def _run_once(self) -> None:
        """Run until `stop` was called; one call does what many of asyncio's would."""
        ready = self._ready  # type: ignore[attr-defined]
        while True:
            if not ready:
                if self._stopping:  # type: ignore[attr-defined]
                    return
                self._advance()
            timers, now = self._timers, self._now
            while timers and timers[0][0] <= now:
                handle = heappop(timers)[2]
                handle._scheduled = False  # type: ignore[attr-defined]
                if handle.cancelled():
                    self._timers_cancelled -= 1
                else:
                    ready.append(handle)
            self._run_ready(ready, len(ready))
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _advance(self) -> None:
        timers = self._timers
        if self._timers_cancelled > _COMPACT_MIN and self._timers_cancelled * 2 > len(timers):
            timers = self._timers = [item for item in timers if not item[2].cancelled()]
            heapify(timers)
            self._timers_cancelled = 0
        while timers and timers[0][2].cancelled():
            heappop(timers)[2]._scheduled = False  # type: ignore[attr-defined]
            self._timers_cancelled -= 1
        if not timers:
            raise DeadlockError(f"nothing will ever happen again: {self._waiting()}")
        when = timers[0][0]
        if when > self._now:
            self._now = when
            self._instant_from = self.events_run

    _instant_from = 0

    def _run_ready(self, ready: Any, how_many: int) -> None:
        popleft, has_dead = ready.popleft, self.has_dead
        for _ in range(how_many):
            handle = popleft()
            if handle._cancelled:
                continue
            if has_dead:
                owner = handle._context.get(_OWNER)
                if owner is not None and not owner.alive:
                    continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except SimulationError:
                raise
            except (Exception, asyncio.CancelledError) as failure:
                # anything else is for whoever runs this: the test's time is over, or a key was hit
                self.call_exception_handler(
                    {"message": f"exception in {handle!r}", "exception": failure}
                )
            has_dead = self.has_dead
        before = self.events_run // _COLLECT_EVERY
        self.events_run += how_many
        if self.events_run - self._instant_from > EVENTS_PER_INSTANT_MAX:
            runnable = ", ".join(repr(handle) for handle in list(ready)[:5])
            raise BudgetError(f"time stands still at {self._now}: {runnable}; {self._waiting()}")
        if self.events_run > self._events_max:
            raise BudgetError(f"more than {self._events_max} events by {self._now}")
        if self.events_run // _COLLECT_EVERY != before:
            gc.collect()
        if (self.events_run - how_many) // _LOOK_EVERY != self.events_run // _LOOK_EVERY:
            self._look_at_memory()

    def _look_at_memory(self) -> None:
        """Raises BudgetError. A run that goes on for ever in virtual time, and holds ever more, is
        otherwise ended by the system, with whatever else that ends."""
        if resident_bytes(os.getpid()) > self._memory_end:
            raise BudgetError(
                f"too much memory after {self.events_run} events at {self._now}: {self._waiting()}"
            )

    def _waiting(self) -> str:
        names = [task.get_name() for task in self._tasks if not task.done()]
        return f"{len(names)} tasks wait: {', '.join(names[:12])}"

    def _note_failure(self, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    # What does not exist here

    def _forbidden(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise ForbiddenError("threads, sockets and processes do not exist in the simulator")

    run_in_executor = _forbidden
    create_connection = _forbidden
    create_server = _forbidden
    create_datagram_endpoint = _forbidden
    getaddrinfo = _forbidden
    subprocess_exec = _forbidden
    subprocess_shell = _forbidden
    sock_recv = _forbidden
    sock_sendall = _forbidden
    sock_connect = _forbidden
    sock_accept = _forbidden
    add_reader = _forbidden
    add_writer = _forbidden
    add_signal_handler = _forbidden

    def _process_events(self, _events: object) -> None:
        raise AssertionError("there is no selector")

    def _write_to_self(self) -> None:
        return

    def abandon(self) -> None:
        """Forget every task that has not ended, without a word and without running it."""
        for task in self._tasks:
            task.silence()
            coroutine = task.get_coro()
            if (
                inspect.iscoroutine(coroutine)
                and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
            ):
                coroutine.close()  # or it complains that it was never awaited
        self._tasks = []


@contextmanager
def _quiet_collection() -> Generator[None]:
    """Coroutines of dead processes are closed when they are collected: their complaints are noise,
    and the moment must not depend on how much memory was used. What was there before the run is
    not looked through: in a long run of tests that is most of what there is.

    The run before this one is: its frames still held it at its own end, and a process that plays a
    hundred runs must not keep them all."""
    hook = sys.unraisablehook
    was_enabled = gc.isenabled()
    gc.disable()
    sys.unraisablehook = lambda _unraisable: None
    if next(_runs) % _THAW_EVERY == _THAW_EVERY - 1:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = lambda _unraisable: None
        try:
            gc.collect()
        finally:
            sys.unraisablehook = hook
            if was_enabled:
                gc.enable()


def run(
    main: Callable[[SimLoop], Coroutine[Any, Any, T]],
    *,
    events_max: int = EVENTS_MAX,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    failures_allowed: bool = False,
) -> T:
    """Run `main(loop)` to its end in virtual time and return its result.

    Raises DeadlockError, BudgetError, ForbiddenError, what `main` raises, and SimulationError when
    a callback or a forgotten task failed.
    """
    with _quiet_collection():
        loop = SimLoop(events_max=events_max, memory_bytes_max=memory_bytes_max)
        try:
            asyncio.set_event_loop(loop)
            result = loop.run_until_complete(main(loop))
            if loop.failures and not failures_allowed:
                raise SimulationError("; ".join(loop.failures[:5]))
            return result
        finally:
            loop.abandon()
            asyncio.set_event_loop(None)
            loop.close()
