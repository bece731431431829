"""This is one client process, `python -m svc_cluster.lab.load.generator`.

It reads an order, makes what it will send, says that it is ready, reads when the span begins, and
prints its report: a line of JSON each. It ends with whoever started it, when its input ends.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
import uvloop

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.tasks import Tasks
from svc_cluster.lab.load.append_sessions import run_session
from svc_cluster.lab.load.appends import HttpCaller, UnaryCaller, run_appends
from svc_cluster.lab.load.figures import Tally
from svc_cluster.lab.load.followers import run_follower, run_session_reads
from svc_cluster.lab.load.order import Begin, LoadReport, Order, Share
from svc_cluster.lab.load.pacing import FineTimer, OpenLoop
from svc_cluster.lab.load.reads import run_reads
from svc_cluster.lab.load.requests import Bodies
from svc_cluster.lab.load.work import Work
from svc_cluster.lab.proc_stat import cpu_seconds

AFTER_S_MAX: Final = 15.0
"""How long what is under way at the end of the span may take; it counts with that time then."""

MakeCaller = Callable[[Work, int], UnaryCaller]
Callers = Mapping[str, MakeCaller]
"""Who makes unary appends, by the name in the order."""

HTTP_CALLERS: Final[Callers] = {"http": HttpCaller}


def _worker(work: Work, connection: int, make: MakeCaller) -> Awaitable[None]:
    match work.part.kind:
        case "append":
            return run_appends(work, connection, make(work, connection))
        case "session":
            return run_session(work, connection)
        case "read" | "read_one":
            return run_reads(work, connection)
        case "read_session":
            return run_session_reads(work, connection)
        case "follow":
            return run_follower(work, connection)


class _Process:
    def __init__(self, order: Order, callers: Callers, clock: Clock) -> None:
        self._order = order
        self._make = callers[order.caller]
        self._clock = clock
        self._bodies = [
            Bodies(share.part, random.Random(order.seed + number))
            if share.part.kind in ("append", "session")
            else None
            for number, share in enumerate(order.shares)
        ]

    def _work(self, number: int, share: Share, begin: float, timer: FineTimer) -> Work:
        order, part = self._order, share.part
        end = begin + order.seconds
        pace = None
        if part.rate is not None:
            count = len(share.connections)
            rate = part.rate * count / part.connections
            phase = (share.connections[0] % 8) / 8
            pace = OpenLoop(begin - order.warm_up_s, end, rate, phase)
        return Work(
            access=order.access,
            share=share,
            tally=Tally(begin, end),
            clock=self._clock,
            timer=timer,
            pace=pace,
            bodies=self._bodies[number],
            rng=random.Random(order.seed * 1000 + number),
        )

    async def run(self, begin: float) -> LoadReport:
        with FineTimer(self._clock) as timer:
            works = [
                self._work(number, share, begin, timer)
                for number, share in enumerate(self._order.shares)
            ]
            tasks = Tasks()
            running = [
                tasks.spawn_one(_checked(_worker(work, connection, self._make)), "bench worker")
                for work in works
                for connection in work.share.connections
            ]
            await timer.until(begin)
            before = cpu_seconds(os.getpid())
            await timer.until(begin + self._order.seconds)
            used = cpu_seconds(os.getpid()) - before
            _, late = await asyncio.wait(running, timeout=AFTER_S_MAX)
            await tasks.cancel_all()
            for done in running:
                if done not in late:
                    done.result()
            for work in works:
                work.close()
        return LoadReport([work.tally for work in works], used)


async def _checked(worker: Awaitable[None]) -> None:
    await worker


def main(callers: Callers = HTTP_CALLERS) -> None:
    """The whole life of the process."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    process = _Process(order, callers, SystemClock())
    _say({"ready": True})
    line = sys.stdin.buffer.readline()
    if not line:
        return
    begin = msgspec.json.decode(line, type=Begin)

    async def run() -> LoadReport:
        return await process.run(begin.at)

    _say(uvloop.run(run()))


def _say(value: LoadReport | dict[str, bool]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
