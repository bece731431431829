"""What slow clients of one gateway cost everybody else, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.api.pace import PORTION_BYTES_MAX, PORTION_BYTES_MIN
from svc_cluster.gateway.api.stream_follower import TURN_SECONDS_MAX
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ReadCall, ScriptedBackend, get, make_app, records

PATH = "/v1/streams/s/records"
EVENTS = ("accept", "text/event-stream")
BEHIND = 10**6


async def one_record(call: ReadCall) -> ReadResult:
    """The next of very many, so that a reader is always behind."""
    return records(call.start.value, 1, tail=BEHIND, more=True)


async def open_stream(app: GatewayApp, start: int = 0) -> FollowedBody:
    response = await app.handle(get(PATH, f"seq_num={start}", EVENTS))
    assert response.status == 200, response
    assert isinstance(response.body, FollowedBody)
    return response.body


@pytest.mark.parametrize(
    ("seconds", "portion_bytes"), [(0.0, PORTION_BYTES_MAX), (60.0, PORTION_BYTES_MIN)]
)
def test_a_client_is_given_portions_by_how_fast_it_takes_them(
    seconds: float, portion_bytes: int
) -> None:
    async def main() -> list[int | None]:
        backend = ScriptedBackend([one_record])
        app, _ = make_app(backend)
        stream = await open_stream(app)
        for _ in range(4):
            await anext(stream)
            await asyncio.sleep(seconds)
        await anext(stream)
        await stream.aclose()
        return [call.bounds.portion_bytes for call in backend.calls[1:]]

    assert set(run(lambda loop: main())) == {portion_bytes}


def test_slow_clients_that_come_back_together_are_read_for_one_after_another() -> None:
    """And between two of them as much time is left as one took, in which others have their turn."""
    count, read_seconds = 20, 0.01
    under_way = most = 0
    ends: list[float] = []
    begins: list[float] = []

    async def counted(call: ReadCall) -> ReadResult:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        begins.append(call.at)
        await asyncio.sleep(read_seconds)
        ends.append(asyncio.get_running_loop().time())
        under_way -= 1
        return await one_record(call)

    async def main() -> None:
        nonlocal most
        app, _ = make_app(ScriptedBackend([counted]))
        streams = [await open_stream(app, start) for start in range(0, 1000 * count, 1000)]
        for turn in range(3):
            most = 0
            begins.clear()
            ends.clear()
            await asyncio.gather(*(anext(stream) for stream in streams))
            if turn:
                await asyncio.sleep(60)  # they all take their time: slow from now on
        for stream in streams:
            await stream.aclose()

    run(lambda loop: main())
    assert most == 1
    assert len(begins) == count
    pauses = [begin - end for end, begin in zip(ends, begins[1:], strict=False)]
    assert min(pauses) >= read_seconds * 0.99


def test_one_read_that_the_cluster_lets_wait_does_not_hold_up_the_others() -> None:
    stuck = 0

    async def first_is_stuck(call: ReadCall) -> ReadResult:
        if call.start.value == 2:
            await asyncio.sleep(3600)
        return await one_record(call)

    async def main() -> float:
        nonlocal stuck
        app, _ = make_app(ScriptedBackend([first_is_stuck]))
        streams = [await open_stream(app), await open_stream(app, 1000)]
        for stream in streams:
            await anext(stream)
        await asyncio.sleep(60)
        for stream in streams:
            await anext(stream)  # read ahead of the pause, now both are slow
        await asyncio.sleep(60)
        begun = asyncio.get_running_loop().time()
        waiting = asyncio.create_task(anext(streams[0]))
        await asyncio.sleep(0)
        await anext(streams[1])
        took = asyncio.get_running_loop().time() - begun
        stuck = int(not waiting.done())
        waiting.cancel()
        await asyncio.wait([waiting])
        await streams[1].aclose()
        return took

    assert run(lambda loop: main()) <= TURN_SECONDS_MAX + 0.01
    assert stuck == 1
