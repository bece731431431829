"""The parent of a gateway's processes: it starts them, starts again those that end, and hands on
what it is told. Requests never come here: each process listens on the port for itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.gateway_directory import new_directory
from svc_cluster.cli.processes.gateway_place import BEAT_SECONDS, ProcessPlace
from svc_cluster.cli.processes.gateway_port import hold_port
from svc_cluster.cli.processes.gateway_turns import ProcessorTurns
from svc_cluster.cli.processes.process import EXIT_FATAL, MALLOC_ENVIRONMENT, SUPERVISOR_FD
from svc_cluster.settings import GatewaySettings
from svc_cluster.settings_errors import REFUSED_START

PAUSE_SECONDS_MIN: Final = 0.2
PAUSE_SECONDS_MAX: Final = 10.0
"""Before a process is started again, twice as long each time that it ended soon."""
STEADY_SECONDS: Final = 10.0
"""A process that lived so long is started again as if it had never ended."""
FAILED_STARTS_MAX: Final = 5
"""So many starts in a row without one that serves, while none does, end the whole."""
SILENCE_SECONDS: Final = 15.0
"""A process that has served and is not heard for so long hangs, and is killed."""
START_SECONDS: Final = 120.0
"""A process that does not come to serve in so long hangs too."""
CLOSE_SECONDS: Final = 20.0
"""What a process has to end in beside `drain_seconds`; then it is ended by force."""
HEARD_BYTES: Final = 64
"""All that a process has said since it was heard, which may be at once."""

log = get_logger("gateway.group")


@dataclass(frozen=True, slots=True)
class Again:
    """Start it again after a pause."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """None of them can be started: end with this status."""

    status: int


@dataclass(slots=True)
class _Known:
    began: float = 0.0
    serves: bool = False
    pause: float = PAUSE_SECONDS_MIN
    silent_looks: int = 0


class GroupPlan:
    """What follows when a process ends by itself, or says nothing. Decides alone; `now` is
    monotonic seconds."""

    def __init__(self, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._silence_seconds = silence_seconds
        self._known: dict[int, _Known] = {}
        self._failed = 0
        self._has_served = False

    def began(self, number: int, now: float) -> None:
        known = self._known.setdefault(number, _Known())
        known.began, known.serves, known.silent_looks = now, False, 0

    def serves(self, number: int) -> None:
        """It listens, as it says again and again."""
        known = self._known[number]
        known.serves = self._has_served = True
        known.silent_looks = 0
        self._failed = 0

    def silent(self, number: int) -> float | None:
        """Another BEAT_SECONDS are over. Returns for how long it has said nothing, in seconds, once
        that is too long. Looks are counted, not time: where this process had no turn itself, or
        the whole host slept, nobody was silent."""
        known = self._known[number]
        known.silent_looks += 1
        seconds = known.silent_looks * BEAT_SECONDS
        if seconds < (self._silence_seconds if known.serves else START_SECONDS):
            return None
        known.silent_looks = 0
        return seconds

    def ended(self, number: int, status: int, now: float) -> Again | GiveUp:
        """`status`: as the system tells it, below 0 for a signal."""
        known = self._known[number]
        if not known.serves:
            self._failed += 1
        known.serves = False
        is_alone = not any(each.serves for each in self._known.values())
        refused = status in REFUSED_START and not self._has_served
        if is_alone and (refused or self._failed >= FAILED_STARTS_MAX):
            return GiveUp(status if status > 0 else EXIT_FATAL)
        if now - known.began >= STEADY_SECONDS:
            known.pause = PAUSE_SECONDS_MIN
        pause, known.pause = known.pause, min(2 * known.pause, PAUSE_SECONDS_MAX)
        return Again(pause)


@dataclass(slots=True)
class _Child:
    number: int
    process: asyncio.subprocess.Process | None = None
    serves: bool = False
    is_hung_up: bool = False
    """It was to read its settings again before it could hear that."""
    own_end: socket.socket | None = field(default=None, repr=False)
    turns: ProcessorTurns | None = None


class GatewayGroup:
    """The processes of one gateway. `status` is the one to end with, once `run` has returned."""

    def __init__(
        self,
        settings: GatewaySettings,
        command: Sequence[str],
        directory: Path,
        port: int,
        clock: Clock,
        plan: GroupPlan,
    ) -> None:
        self.status = 0
        self._settings = settings
        self._command = list(command)
        self._directory = directory
        self._port = port
        self._clock = clock
        self._plan = plan
        self._children = [_Child(number) for number in range(1, settings.processes + 1)]
        self._tasks = Tasks()
        self._ending = asyncio.Event()
        self._starting = asyncio.Lock()
        """It is taken to start a process: none comes up while all are being ended."""

    async def run(self, stop: asyncio.Event) -> None:
        """Return once all have ended: because of `stop`, or because they cannot be started."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.hang_up)
        log.info("gateway_group_started", processes=self._settings.processes, port=self._port)
        spawn = self._tasks.spawn_one
        keepers = [
            spawn(self._keep(each), f"keep process {each.number}") for each in self._children
        ]
        watch = spawn(self._watch(), "watch for processes that hang")
        waiting = [spawn(event.wait(), "wait for the end") for event in (stop, self._ending)]
        ended, _ = await asyncio.wait(
            [*waiting, *keepers, watch], return_when=asyncio.FIRST_COMPLETED
        )
        if any(not task.cancelled() and task.exception() is not None for task in ended):
            self.status = EXIT_FATAL  # of this process's own, and said
        self._ending.set()
        await self._end_all()
        await self._tasks.cancel_all()

    def hang_up(self) -> None:
        """Every process reads its settings again; one that is only starting, as soon as it
        serves."""
        for child in self._children:
            if child.serves:
                self._signal(child, signal.SIGHUP)
            else:
                child.is_hung_up = True

    async def _keep(self, child: _Child) -> None:
        while not self._ending.is_set():
            try:
                async with self._starting:
                    if self._ending.is_set():
                        return
                    await self._spawn(child)
                status = await self._until_end(child)
            except OSError as cause:
                log.error("gateway_process_not_started", process=child.number, reason=str(cause))
                status = EXIT_FATAL
            if self._ending.is_set():
                return
            match self._plan.ended(child.number, status, self._clock.monotonic()):
                case GiveUp(found):
                    log.error("gateway_group_gave_up", exit_status=found)
                    self.status = found
                    self._ending.set()
                    return
                case Again(pause):
                    log.warning(
                        "gateway_process_ended",
                        process=child.number,
                        exit_status=status,
                        again_in_s=pause,
                    )
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._ending.wait(), pause)

    async def _spawn(self, child: _Child) -> None:
        """Raises OSError."""
        self._plan.began(child.number, self._clock.monotonic())
        own, other = socket.socketpair()
        try:
            place = ProcessPlace(child.number, self._settings.processes, self._directory)
            own.setblocking(False)
            child.process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                env={
                    **MALLOC_ENVIRONMENT,
                    **os.environ,
                    **place.environment(self._port),
                    SUPERVISOR_FD: str(other.fileno()),
                },
                pass_fds=(other.fileno(),),
                # Ctrl-C is the parent's business
                start_new_session=True,
            )
        except BaseException:
            own.close()
            raise
        finally:
            other.close()
        child.own_end = own
        child.turns = ProcessorTurns(child.process.pid)

    async def _until_end(self, child: _Child) -> int:
        assert child.process is not None, "it was started"
        assert child.own_end is not None, "it was started"
        hearing = self._tasks.spawn_one(self._hear(child, child.own_end), "hear a process")
        try:
            return await child.process.wait()
        finally:
            hearing.cancel()
            child.own_end.close()
            child.serves = False

    async def _hear(self, child: _Child, own: socket.socket) -> None:
        """It says a byte when it serves, and one every BEAT_SECONDS from then on."""
        loop = asyncio.get_running_loop()
        try:
            # not under a timeout: one that fires beside what is said loses it
            while await loop.sock_recv(own, HEARD_BYTES):
                self._plan.serves(child.number)
                child.serves = True
                if child.is_hung_up:
                    child.is_hung_up = False
                    self._signal(child, signal.SIGHUP)
        except OSError:
            return

    async def _watch(self) -> None:
        """For ever: a process that hangs is killed, and started again as any that ends."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for child in self._children:
                # while all are being ended, whoever waits for that has a bound of its own
                if self._lives(child) and self._hangs(child) and not self._ending.is_set():
                    self._signal(child, signal.SIGKILL)

    def _hangs(self, child: _Child) -> bool:
        """Whether it has said nothing for too long, which is logged. A look at one that had no turn
        of a processor counts for nothing: it would start again on a host that is too busy."""
        assert child.turns is not None, "it was started"
        if child.turns.were_missing(BEAT_SECONDS):
            return False
        seconds = self._plan.silent(child.number)
        if seconds is None:
            return False
        log.error(
            "gateway_process_hung",
            process=child.number,
            silent_s=seconds,
            has_served=child.serves,
            reason="its event loop has stopped: it is killed and started again",
        )
        return True

    async def _end_all(self) -> None:
        """Tell every process to end, and wait until all have; those that do not are killed."""
        async with self._starting:
            living = [child for child in self._children if self._lives(child)]
        for child in living:
            self._signal(child, signal.SIGTERM)
        waits = [
            self._tasks.spawn_one(child.process.wait(), "wait for a process")
            for child in living
            if child.process is not None
        ]
        if not waits:
            return
        seconds = self._settings.drain_seconds + CLOSE_SECONDS
        _, late = await asyncio.wait(waits, timeout=seconds)
        for child in self._children:
            if late and self._lives(child):
                log.error("gateway_process_killed", process=child.number, waited_s=seconds)
                self._signal(child, signal.SIGKILL)
                self.status = self.status or EXIT_FATAL
        if late:
            await asyncio.wait(late)
        for child in living:
            assert child.process is not None, "it lived"
            ended = child.process.returncode or 0
            # one that was just starting has no handler yet, and ends by the signal
            if ended not in (0, -signal.SIGTERM):
                self.status = self.status or (ended if ended > 0 else EXIT_FATAL)

    @staticmethod
    def _lives(child: _Child) -> bool:
        return child.process is not None and child.process.returncode is None

    @staticmethod
    def _signal(child: _Child, number: signal.Signals) -> None:
        if child.process is not None:
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(number)


async def run_group(
    settings: GatewaySettings, stop: asyncio.Event, silence_seconds: float = SILENCE_SECONDS
) -> int:
    """Run until `stop`, and return the status to end with. A process that is silent for
    `silence_seconds` hangs. Raises SettingsError for a port that cannot be listened on, and for
    want of a directory."""
    directory = new_directory(settings.processes)
    try:
        held = await hold_port(settings.host, settings.port)
        try:
            port: int = held[0].getsockname()[1]
            command = [sys.executable, *sys.orig_argv[1:]]
            plan = GroupPlan(silence_seconds)
            group = GatewayGroup(settings, command, directory.path, port, SystemClock(), plan)
            await group.run(stop)
            return group.status
        finally:
            for sock in held:
                sock.close()
    finally:
        directory.leave()
