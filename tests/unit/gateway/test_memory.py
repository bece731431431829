"""What a gateway keeps in memory on behalf of clients: each part is filled, by the real app, until
it refuses or waits; the others go on, and the metrics tell it."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.api.stream_follower import OUTAGE_SECONDS_MAX
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.limits.answer_budget import WAIT_SECONDS_MAX as ANSWER_SECONDS
from svc_cluster.gateway.limits.answer_budget import WORK_BYTES
from svc_cluster.gateway.limits.gateway_memory import WAIT_SECONDS_MAX, GatewayMemory, rest_of
from svc_cluster.gateway.request.error_answers import RETRY_AFTER_MS
from svc_cluster.model.usage import REPORT_MINUTES_MAX
from tests.simulation.loop import run
from tests.unit.gateway.scripted import (
    ReadCall,
    ScriptedBackend,
    body_of,
    get,
    make_app,
    post,
    records,
)

RECORDS = "/v1/streams/s/records"
EVENTS = ("accept", "text/event-stream")
MIB = 1 << 20
BODIES = MIB


def simulate(main: Coroutine[Any, Any, None]) -> None:
    run(lambda loop: main)


def bound(share: int) -> int:
    """Of a gateway each of whose fifths has `share` bytes."""
    return BODIES + BODIES // 8 + 5 * share


def append_of(size: int) -> bytes:
    return b'{"records":[{}]}'.ljust(size)


async def shown(app: GatewayApp, metrics: Metrics, part: str) -> tuple[float, float]:
    """What the metrics tell of a part: bytes, and how often there was no room."""
    assert (await app.handle(get("/metrics"))).status == 200
    value = metrics.registry.get_sample_value
    return (
        value("svc_memory_held_bytes", {"part": part}) or 0.0,
        value("svc_memory_refused_total", {"part": part}) or 0.0,
    )


def test_the_parts_together_are_the_bound() -> None:
    """Whatever the settings, the shares add up to no more than was chosen."""
    for bytes_max, bodies in ((352 * MIB, 128 * MIB), (64 * MIB, 16 * MIB), (200 * MIB, 149 * MIB)):
        memory = GatewayMemory(Metrics(), bytes_max, bodies)
        shares = [
            bodies,
            bodies // 8,
            memory.requests.bytes_max,
            memory.answers.bytes_max,
            memory.followers.bytes_max,
            memory.tails_bytes_max,
        ]
        assert bytes_max - 5 < sum(shares) <= bytes_max
        assert rest_of(bytes_max, bodies) > 0


def test_appends_on_their_way_to_nodes_have_a_share() -> None:
    """While one takes most of it, another waits, and is a definite 503 that says when to come again
    and was never given to a node; a small one goes on beside. Then the next one goes on."""
    share = 10_000

    async def main() -> None:
        go_on = asyncio.Event()
        asked = 0

        class Slow(ScriptedBackend):
            async def append(self, *_: Any, **__: Any) -> Any:
                nonlocal asked
                asked += 1
                await go_on.wait()
                raise UnavailableError

        app, metrics = make_app(
            Slow(), memory_bytes_max=bound(share), body_bytes_in_flight_max=BODIES
        )
        large = append_of(9_000)
        first = asyncio.ensure_future(app.handle(post(RECORDS, large)))
        await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        refused = await app.handle(post(RECORDS, large))
        assert asyncio.get_running_loop().time() - begun == pytest.approx(WAIT_SECONDS_MAX)
        headers = dict(refused.headers)
        assert (refused.status, json.loads(body_of(refused))["code"]) == (503, "unavailable")
        assert headers["svc-side-effects"] == "none"
        assert (headers["retry-after-ms"], headers["retry-after"]) == (str(RETRY_AFTER_MS), "1")
        assert asked == 1
        small = asyncio.ensure_future(app.handle(post(RECORDS, append_of(500))))
        await asyncio.sleep(0.1)
        assert asked == 2
        assert await shown(app, metrics, "requests") == (9_500, 1)
        waiting = asyncio.ensure_future(app.handle(post(RECORDS, large)))
        await asyncio.sleep(0.1)
        assert asked == 2
        go_on.set()
        await asyncio.gather(first, small, waiting)
        assert asked == 3
        assert await shown(app, metrics, "requests") == (0, 1)

    simulate(main())


async def thousands(call: ReadCall) -> ReadResult:
    """The next thousand of very many records."""
    return records(call.start.value, 1000, tail=10**6, more=True)


async def open_stream(app: GatewayApp) -> FollowedBody:
    response = await app.handle(get(RECORDS, "seq_num=0", EVENTS))
    assert response.status == 200 and isinstance(response.body, FollowedBody)
    return response.body


def first_seq_num(event: bytes) -> int:
    data = next(line for line in event.splitlines() if line.startswith(b"data: "))
    number: int = json.loads(data[6:])["records"][0]["seq_num"]
    return number


def test_events_that_clients_do_not_take_have_a_share() -> None:
    """Clients that take nothing fill it. One more holds nothing while it waits, and ends with a
    terminal event that says that it may come again; one for which there is room in time misses
    nothing."""

    async def main() -> None:
        app, metrics = make_app(
            ScriptedBackend([thousands]),
            memory_bytes_max=bound(60_000),
            body_bytes_in_flight_max=BODIES,
        )
        deaf: list[FollowedBody] = []
        stream = await open_stream(app)
        taking = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        while taking.done() and len(deaf) < 20:
            assert first_seq_num(await taking) == 0
            deaf.append(stream)
            stream = await open_stream(app)
            taking = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.1)
        held, _ = await shown(app, metrics, "followers")
        assert 0 < len(deaf) < 10 and 0 < held < 60_000 + 200_000
        begun = asyncio.get_running_loop().time()
        event = await taking
        waited = asyncio.get_running_loop().time() - begun
        assert waited == pytest.approx(OUTAGE_SECONDS_MAX, abs=0.2)
        assert event.startswith(b"event: error\n") and b'"code":"unavailable"' in event
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert await shown(app, metrics, "followers") == (held, 1)
        patient = await open_stream(app)
        taking = asyncio.ensure_future(anext(patient))
        await asyncio.sleep(5)
        assert not taking.done()
        for each in deaf:
            await each.aclose()
        assert first_seq_num(await taking) == 0
        assert first_seq_num(await anext(patient)) == 1000
        await patient.aclose()
        assert await shown(app, metrics, "followers") == (0, 1)

    simulate(main())


class Watched(ReadResult):
    """One that can be referred to weakly."""


def test_a_follower_that_waits_for_room_holds_nothing() -> None:
    """What was read for it is let go at once, be it the first read of the stream or a later one,
    and read again when there is room."""

    async def main() -> None:
        read: list[weakref.ref[Watched]] = []

        async def watched(call: ReadCall) -> ReadResult:
            found = await thousands(call)
            again = Watched(found.start_seq_num, found.batches, found.tail, found.may_have_more)
            read.append(weakref.ref(again))
            return again

        app, _ = make_app(
            ScriptedBackend([watched]),
            memory_bytes_max=bound(100),
            body_bytes_in_flight_max=BODIES,
        )
        first = await open_stream(app)
        assert first_seq_num(await anext(first)) == 0
        second = await open_stream(app)
        taking = asyncio.ensure_future(anext(second))
        await asyncio.sleep(5)
        assert not taking.done() and len(read) == 2
        assert [each() for each in read] == [None, None], "of a client that waits"
        going_on = asyncio.ensure_future(anext(first))  # behind the one that waits already
        assert first_seq_num(await taking) == 0
        await asyncio.sleep(5)
        assert not going_on.done() and len(read) == 4
        assert [each() for each in read] == [None] * 4
        await second.aclose()
        assert first_seq_num(await going_on) == 1000
        await first.aclose()

    simulate(main())


def test_answers_that_clients_do_not_take_have_a_share() -> None:
    """Answers that nobody takes, and reads at work, fill it; one more read waits, and is refused
    without effect; once an answer has left there is room."""
    share = 2 * WORK_BYTES

    async def main() -> None:
        app, metrics = make_app(
            ScriptedBackend([records(0, 1000, tail=1000)]),
            memory_bytes_max=bound(share),
            body_bytes_in_flight_max=BODIES,
        )
        memory = app.memory
        assert memory.answers.bytes_max == 2 * share
        place = await memory.answers.enter("deaf")
        place.made(2 * share)
        refused = asyncio.ensure_future(app.handle(get(RECORDS, "seq_num=0")))
        await asyncio.sleep(ANSWER_SECONDS / 2)
        assert not refused.done()
        assert (await refused).status == 502
        assert await shown(app, metrics, "answers") == (2 * share, 1)
        place.gone()
        response = await app.handle(get(RECORDS, "seq_num=0"))
        assert response.status == 200
        held, _ = await shown(app, metrics, "answers")
        assert held == len(body_of(response))

    simulate(main())


def test_bodies_are_a_part() -> None:
    """What is refused for want of room is counted, and what is held is told."""

    async def main() -> None:
        go_on = asyncio.Event()

        class Slow(ScriptedBackend):
            async def append(self, *_: Any, **__: Any) -> Any:
                await go_on.wait()
                raise UnavailableError

        body = append_of(9_000)
        app, metrics = make_app(Slow(), body_bytes_in_flight_max=len(body) + 1)
        first = asyncio.ensure_future(app.handle(post(RECORDS, body)))
        await asyncio.sleep(0.1)
        assert (await app.handle(post(RECORDS, body))).status == 502
        assert await shown(app, metrics, "bodies") == (9_000, 1)
        go_on.set()
        await first
        assert await shown(app, metrics, "bodies") == (0, 1)
        assert metrics.registry.get_sample_value("svc_memory_max_bytes") == app.memory.bytes_max

    simulate(main())


def test_what_is_bounded_elsewhere_is_told_beside() -> None:
    """Events of the audit log and counts of use, which are bounded in number: also when no count
    can be reported for a day."""

    async def main() -> None:
        app, metrics = make_app(ScriptedBackend())
        ledger = app._services.usage
        for _ in range(24 * 60):
            ledger.read_bytes("basin", 7)
            await asyncio.sleep(60)
        held, _ = await shown(app, metrics, "usage")
        assert 0 < held < 100_000
        report = ledger.next_report("basin")
        assert report is not None and len(report.minutes) <= REPORT_MINUTES_MAX
        assert sum(counts.read_bytes for _, counts in report.minutes) == 7 * 24 * 60
        assert await shown(app, metrics, "audit") == (0, 0)

    simulate(main())
