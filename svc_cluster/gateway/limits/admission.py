"""What a gateway refuses first when it has more to do than it can.

New requests are refused, at once and before anything of their body is read, while there are too
many in progress, or the event loop has been late for some time. Never refused are probes and
whatever has begun: requests in progress, sessions, followers, and what the gateway does for all of
them together, such as renewing the lease on its access tokens. One late turn refuses nobody: those
who wait behind it are to be answered, not told to come again.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.metrics import Metrics

IN_PROGRESS_MAX: Final = 10_000
"""Requests from when their head has come until their answer is made; a stream's answer is made
when it begins."""
STREAMS_OPEN_MAX: Final = 15_000
"""Sessions and followers that are open. Silent, each costs some 4.4 KiB (a follower) to 6.6 KiB (an
append session) beside its connection: 97 MiB at most."""
LOOK_SECONDS: Final = 0.1
LATE_SECONDS: Final = 0.25
"""A look at the clock that comes so much later than it should finds the loop late."""
LATE_LOOKS: Final = 4
"""So many such looks in a row are an overload; one that is in time ends it."""


class OverloadReason(Enum):
    """Why a request is refused, as the metric has it."""

    IN_PROGRESS = "in_progress"
    LATE = "late"
    STREAMS = "streams"


class OverloadedError(UnavailableError):
    """Nothing of the request was carried out, and nothing of its body was read."""


class Lateness:
    """Tells a loop that cannot keep up from one that was late once. Pure."""

    def __init__(self) -> None:
        self._late_looks = 0

    def look(self, late_seconds: float) -> None:
        """The clock was looked at so much later than it should have been."""
        is_late = late_seconds > LATE_SECONDS
        self._late_looks = min(self._late_looks + 1, LATE_LOOKS) if is_late else 0

    @property
    def is_overload(self) -> bool:
        return self._late_looks >= LATE_LOOKS


def refusal(
    *, is_probe: bool, in_progress: int, in_progress_max: int, late: bool
) -> OverloadReason | None:
    """Why a new request is refused, if it is. Pure."""
    if is_probe:
        return None
    if in_progress >= in_progress_max:
        return OverloadReason.IN_PROGRESS
    return OverloadReason.LATE if late else None


class Admission:
    """This is the admission of one process. Everything here happens on its event loop."""

    def __init__(
        self, in_progress_max: int, streams_open_max: int, clock: Clock, metrics: Metrics
    ) -> None:
        """The metrics count the refused, by reason, and tell what is in progress and open."""
        self._in_progress_max = in_progress_max
        self._streams_open_max = streams_open_max
        self._clock = clock
        self._shed = metrics.http_requests_shed
        self._lateness = Lateness()
        self.in_progress = 0
        self.streams_open = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        """On which everything here happens, from the first stream on."""

        metrics.http_requests_in_progress.set_function(lambda: self.in_progress)
        metrics.http_streams_open.set_function(lambda: self.streams_open)

    def enter(self, *, is_probe: bool) -> int:
        """A request comes. Returns how many places it takes, which it gives back with `leave`.
        Raises OverloadedError when it is refused."""
        reason = refusal(
            is_probe=is_probe,
            in_progress=self.in_progress,
            in_progress_max=self._in_progress_max,
            late=self._lateness.is_overload,
        )
        if reason is not None:
            self._shed.labels(reason.value).inc()
            raise OverloadedError("too much to do at the moment")
        places = int(not is_probe)
        self.in_progress += places
        return places

    def leave(self, places: int) -> None:
        """The answer is made, or nobody waits for it."""
        self.in_progress -= places
        assert self.in_progress >= 0, "each leaves once"

    def open_stream(self) -> StreamPlace:
        """A session or a follower is asked for, by somebody who may. Raises OverloadedError where
        too many are open; those stay."""
        if self.streams_open >= self._streams_open_max:
            self._shed.labels(OverloadReason.STREAMS.value).inc()
            raise OverloadedError("too many sessions and followers are open at the moment")
        self.loop = asyncio.get_running_loop()
        self.streams_open += 1
        return StreamPlace(self)

    def stream_ended(self) -> None:
        self.streams_open -= 1
        assert self.streams_open >= 0, "each ends once"

    async def watch_the_loop(self) -> None:
        """For ever: look how late the loop is."""
        while True:
            due = self._clock.monotonic() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self._lateness.look(self._clock.monotonic() - due)


class StreamPlace:
    """This is the place of one stream, from `Admission.open_stream` until it has ended. Whoever
    holds the answer holds this, and letting go of both gives it back, whatever became of the
    client."""

    __slots__ = ("_admission", "_is_held", "is_open")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._is_held = True
        self.is_open = False
        """The answer has begun, and holds this."""

    def leave_unopened(self) -> None:
        """The request is over: refused, unless the answer holds this by now."""
        if not self.is_open:
            self.leave()

    def leave(self) -> None:
        """The stream has ended, or was never opened."""
        is_held, self._is_held = self._is_held, False
        if is_held:
            self._admission.stream_ended()

    def __del__(self) -> None:
        """Part of a circle, this may be collected by whichever thread the collector runs in."""
        loop = self._admission.loop
        if not self._is_held or loop is None or loop.is_closed():
            return
        if asyncio._get_running_loop() is loop:
            self.leave()
            return
        with contextlib.suppress(RuntimeError):  # the loop ends at this very moment
            loop.call_soon_threadsafe(self._admission.stream_ended)
