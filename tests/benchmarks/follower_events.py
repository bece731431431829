"""What an event costs for each follower: `python -m tests.benchmarks.follower_events`.

A gateway without sockets over a cluster in memory, in this process. FOLLOWERS take the events of a
stream, to which one record of 100 bytes after another is appended. Told is the processor time of
this thread by follower and event, turn by turn and the least of all, first of followers that are
woken for each event, then of such that are pushed to, and the ratio; writing to a socket, which is
the kernel's work, comes on top. `--profile` prints where the time of the latter goes instead.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import random
import time
from collections.abc import AsyncIterator
from typing import Final

import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch
from tests.contract.memory_backend import MemoryBackend
from tests.unit.gateway.scripted import get, make_app

NAMES: Final = ("basin-0001", "s")
PATH: Final = "/v1/streams/s/records"


class Counted:
    """How many events all followers have taken."""

    def __init__(self) -> None:
        self.events = 0
        self.wanted = 0
        self.is_there = asyncio.Event()

    async def take(self, pieces: AsyncIterator[bytes]) -> None:
        async for piece in pieces:
            self.send(piece)

    @property
    def is_open(self) -> bool:
        """Implements `PieceSink`, for all followers together."""
        return True

    def send(self, piece: bytes) -> None:
        if piece.startswith(b"event: batch"):
            self.events += 1
            if self.events == self.wanted:
                self.is_there.set()


async def measure(options: argparse.Namespace, *, pushed: bool) -> list[float]:
    """Microseconds of each turn."""
    backend = MemoryBackend(SystemClock())
    await backend.create_basin(NAMES[0], BasinConfig())
    await backend.create_stream(*NAMES, NewStream())
    app, _ = make_app(backend)
    counted = Counted()
    tasks = [await _follower(app, counted, pushed=pushed) for _ in range(options.followers)]
    batch = build_batch([(None, (), random.Random(1).randbytes(100))])
    told = []
    profile = cProfile.Profile()
    for turn in range(options.turns + 1):
        begun = time.thread_time()
        if options.profile and turn and pushed:
            profile.enable()
        for _ in range(options.appends):
            counted.is_there.clear()
            counted.wanted = counted.events + options.followers
            await backend.append(*NAMES, batch, None, None)
            await counted.is_there.wait()
        profile.disable()
        spent = time.thread_time() - begun
        if turn:
            told.append(round(spent / options.appends / options.followers * 1e6, 2))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await app.close()
    if options.profile and pushed:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    return told


async def _follower(app: GatewayApp, counted: Counted, *, pushed: bool) -> asyncio.Task[None]:
    response = await app.handle(get(PATH, "", ("accept", "text/event-stream")))
    assert response.status == 200, response
    assert isinstance(response.body, FollowedBody), "it streams"
    if pushed:
        response.body.attach(counted)
    return asyncio.get_running_loop().create_task(counted.take(response.body))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.follower_events",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--followers", type=int, default=1000)
    parser.add_argument("--appends", type=int, default=20, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    woken, pushed = (uvloop.run(measure(given, pushed=way)) for way in (False, True))
    least = {"woken": min(woken), "pushed": min(pushed)}
    ratio = round(least["woken"] / least["pushed"], 2)
    print(json.dumps({"woken_us": woken, "pushed_us": pushed, "least_us": least, "ratio": ratio}))
