"""A drain that was asked for is done, whoever waits for it."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.administration.draining import Draining


def test_a_drain_goes_on_when_its_caller_goes_away() -> None:
    """The second caller waits for what the first has begun, and a third begins anew."""

    async def play() -> None:
        begun, go_on = 0, asyncio.Event()

        async def work() -> pb.DrainResponse:
            nonlocal begun
            begun += 1
            number = begun
            await go_on.wait()
            return pb.DrainResponse(groups_led=number)

        draining = Draining(work)
        first, second = (asyncio.ensure_future(draining.run()) for _ in range(2))
        while begun == 0:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go_on.set()
        assert (await second).groups_led == 1
        assert (await draining.run()).groups_led == 2
        assert begun == 2

    asyncio.run(play())


def test_the_end_of_the_process_ends_a_drain() -> None:
    """Nothing is left behind."""

    async def play() -> None:
        begun, ended = asyncio.Event(), False

        async def work() -> pb.DrainResponse:
            nonlocal ended
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended = True
            return pb.DrainResponse()

        draining = Draining(work)
        waiting = asyncio.ensure_future(draining.run())
        await begun.wait()
        await draining.close()
        assert ended
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await Draining(work).close()

    asyncio.run(play())
