"""Sessions and followers that are open are bounded, whatever carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.limits.admission import STREAMS_OPEN_MAX, Admission, OverloadedError
from svc_cluster.http.message import Request, Response
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.framing import (
    RECORDS,
    Frames,
    PipeBody,
    ack_of,
    append_session,
    input_frame,
)
from tests.unit.gateway.scripted import BASIN, get, make_app, post
from tests.unit.gateway.test_admission import PROBES, UntouchedBody, assert_shed

MAX = 3
EVENTS = ("accept", "text/event-stream")
SESSION = ("content-type", "svcs/proto")


class CountingBackend(MemoryBackend):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__(SimClock(asyncio.get_running_loop()))
        self.asked = 0

    async def read(self, *arguments: Any, **named: Any) -> Any:
        self.asked += 1
        return await super().read(*arguments, **named)

    async def describe_stream(self, *arguments: Any, **named: Any) -> Any:
        self.asked += 1
        return await super().describe_stream(*arguments, **named)


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def is_open(metrics: Metrics) -> float:
    return value(metrics, "svc_http_streams_open")


def shed(metrics: Metrics) -> float:
    return value(metrics, "svc_http_requests_shed_total", reason="streams")


async def scene() -> tuple[GatewayApp, Metrics, CountingBackend]:
    backend = CountingBackend()
    app, metrics = make_app(backend, streams_open_max=MAX)
    await backend.create_basin(BASIN[1], BasinConfig())
    await backend.create_stream(BASIN[1], "s", NewStream())
    return app, metrics, backend


def follow() -> Request:
    return get(RECORDS, "seq_num=0&clamp=true", EVENTS)


async def end(response: Response) -> None:
    await response.body.aclose()  # type: ignore[union-attr]


def test_streams_are_refused_at_the_bound_and_all_else_goes_on() -> None:
    """A follower, a read session and an append session fill it: each kind is then refused with a
    definite 503, nothing of it read and nothing asked of the cluster; unary requests and probes are
    answered, the open session appends; and each stream that ends makes room for one."""

    async def main() -> None:
        app, metrics, backend = await scene()
        body = PipeBody()
        appending = await app.handle(append_session(body))
        reading = await app.handle(get(RECORDS, "seq_num=0&clamp=true", SESSION))
        following = await app.handle(follow())
        frames = Frames(appending)
        assert [each.status for each in (appending, reading, following)] == [200] * MAX
        assert is_open(metrics) == MAX

        asked = backend.asked
        assert_shed(await app.handle(follow()), is_write=False)
        assert_shed(await app.handle(get(RECORDS, "", SESSION)), is_write=False)
        untouched = Request("POST", RECORDS, "", [BASIN, SESSION], UntouchedBody())
        assert_shed(await app.handle(untouched), is_write=True)
        assert backend.asked == asked
        assert (is_open(metrics), shed(metrics)) == (MAX, 3)
        for path in PROBES:
            assert (await app.handle(get(path))).status == 200, path
        accepted = await app.handle(post(RECORDS, b'{"records":[{}]}', EVENTS))
        assert accepted.status == 200, "what is appended at once is no stream"
        assert (await app.handle(get(RECORDS, "seq_num=0"))).status == 200
        body.put(input_frame(b"a"))
        assert ack_of(await frames.next()) == (1, 2)

        await end(following)
        del following
        assert is_open(metrics) == MAX - 1
        again = await app.handle(follow())
        assert again.status == 200
        assert_shed(await app.handle(follow()), is_write=False)
        body.put(None)
        assert await frames.rest() == []
        for each in (reading, again):
            await end(each)
        del appending, frames, reading, again, each
        assert (is_open(metrics), shed(metrics)) == (0, 4)
        await app.close()

    simulate(main())


def test_what_was_never_opened_takes_no_place() -> None:
    """Refused for its stream, its query, its key; cancelled while it was being opened; answered,
    and not taken by anybody."""

    async def main() -> None:
        app, metrics, _ = await scene()
        for _ in range(MAX + 1):
            refused = await app.handle(get("/v1/streams/none/records", "", EVENTS))
            assert refused.status == 404
            assert (await app.handle(get(RECORDS, "seq_num=x", EVENTS))).status == 400
            unknown = append_session(PipeBody(), ("svc-request-token", "t"))
            assert (await app.handle(unknown)).status == 400
            opening = asyncio.ensure_future(app.handle(follow()))
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            assert (await app.handle(follow())).status == 200
            assert is_open(metrics) == 0
        assert shed(metrics) == 0
        assert value(metrics, "svc_http_requests_in_progress") == 0
        await app.close()

    simulate(main())


def test_what_is_in_progress_is_told() -> None:
    """Without probes, and a stream until it has begun."""

    async def main() -> None:
        app, metrics, _ = await scene()
        body = PipeBody()
        waiting = asyncio.ensure_future(app.handle(get(RECORDS, "tail_offset=0&wait=5")))
        opened = await app.handle(append_session(body))
        await asyncio.sleep(1.0)  # of virtual time: the read waits
        await app.handle(get("/livez"))
        assert value(metrics, "svc_http_requests_in_progress") == 1
        assert is_open(metrics) == 1
        await waiting
        assert value(metrics, "svc_http_requests_in_progress") == 0
        await end(opened)
        await app.close()

    simulate(main())


def test_a_place_is_given_back_once() -> None:
    """However it is let go of."""

    async def main() -> None:
        admission = Admission(1, 1, SimClock(asyncio.get_running_loop()), Metrics())
        place = admission.open_stream()
        with pytest.raises(OverloadedError):
            admission.open_stream()
        place.leave_unopened()
        place.leave()
        del place
        assert admission.streams_open == 0
        place = admission.open_stream()
        place.is_open = True
        place.leave_unopened()
        assert admission.streams_open == 1, "its answer holds it"
        del place
        assert admission.streams_open == 0
        loop = asyncio.get_running_loop()
        places = [admission.open_stream()]
        await loop.run_in_executor(None, places.clear)
        await asyncio.sleep(0)
        assert admission.streams_open == 0, "from another thread too"

    asyncio.run(main())


def test_the_bound_that_is_there_where_none_is_set_costs_100_mib_at_most() -> None:
    assert STREAMS_OPEN_MAX * 6.6 * 1024 <= 100 * 1024 * 1024
