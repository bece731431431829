"""Event streams and long polls in virtual time: pings, outages, ends."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    HotServerError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.model.read_bounds import StartKind
from tests.simulation.loop import run
from tests.unit.gateway.scripted import (
    ReadCall,
    ScriptedBackend,
    Step,
    body_of,
    get,
    make_app,
    nothing,
    records,
)

PATH = "/v1/streams/s/records"
EVENTS = ("accept", "text/event-stream")


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


async def open_stream(app: GatewayApp, query: str = "") -> FollowedBody:
    response = await app.handle(get(PATH, query, EVENTS))
    assert response.status == 200, response
    assert isinstance(response.body, FollowedBody)
    return response.body


def now() -> float:
    return asyncio.get_running_loop().time()


def test_pings_come_at_once_and_then_after_5_to_15_idle_seconds() -> None:
    """Over half an hour of silence every gap is in range, and they differ."""

    async def main() -> list[float]:
        backend = ScriptedBackend([nothing(3)])
        app, _ = make_app(backend)
        stream = await open_stream(app)
        begun = now()
        times = []
        async for event in stream:
            assert event.startswith(b"event: ping\n")
            times.append(now() - begun)
            if now() - begun > 1800:
                break
        await stream.aclose()
        return times

    times = simulate(main())
    assert times[0] == 0
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 5
    assert max(gaps) <= 15.01
    assert len({round(gap, 2) for gap in gaps}) > 10


def test_a_live_batch_puts_the_next_ping_off() -> None:
    """The gap is one of silence: records each 4 s leave no room for pings."""

    async def main() -> list[bytes]:
        number = 3

        async def live(call: ReadCall) -> Any:
            nonlocal number
            await asyncio.sleep(4)
            number += 1
            return records(number - 1, 1, tail=number)

        app, _ = make_app(ScriptedBackend([nothing(3), live]))
        stream = await open_stream(app)
        found = [await anext(stream) for _ in range(20)]
        await stream.aclose()
        return found

    found = simulate(main())
    assert found[0].startswith(b"event: ping")
    assert all(event.startswith(b"event: batch") for event in found[1:])


@pytest.mark.parametrize("failure", [UnavailableError(), HotServerError(), ReadDeadlineError()])
def test_an_outage_is_bridged_without_gap_or_repetition(failure: ServiceError) -> None:
    """After the failures the stream asks for exactly the record it owes."""

    async def main() -> tuple[list[bytes], ScriptedBackend, float]:
        backend = ScriptedBackend(
            [records(0, 3, tail=5, more=True), *[failure] * 9, records(3, 2, tail=5), nothing(5)]
        )
        app, _ = make_app(backend)
        stream = await open_stream(app)
        begun = now()
        events = [await anext(stream) for _ in range(3)]
        await stream.aclose()
        return events, backend, now() - begun

    events, backend, seconds = simulate(main())
    assert [event.split(b"\n")[1] for event in events[:2]] == [b"id: 2,3,24", b"id: 4,5,40"]
    assert events[2].startswith(b"event: ping")
    assert {(call.start.kind, call.start.value) for call in backend.calls[1:-1]} == {
        (StartKind.SEQ_NUM, 3)
    }
    assert len(backend.calls) == 11
    assert 2 < seconds < 10, "retries back off"


def test_an_outage_of_more_than_20_seconds_ends_the_stream_with_an_error() -> None:
    """An error event with the seed's and the canonical word, and no end mark."""

    async def main() -> tuple[list[bytes], float]:
        app, _ = make_app(ScriptedBackend([records(0, 1, tail=1), UnavailableError("no leader")]))
        stream = await open_stream(app)
        begun = now()
        return [event async for event in stream], now() - begun

    events, seconds = simulate(main())
    assert [event.partition(b"\n")[0] for event in events] == [
        b"event: batch",
        b"event: ping",
        b"event: error",
    ]
    error = json.loads(events[-1].partition(b"data: ")[2])
    assert error["code"] == error["error"] == "unavailable"
    assert error["message"] == "no leader"
    assert error["may_have_taken_effect"] is False
    assert 18 < seconds <= 20.1


def test_a_refusal_while_following_ends_the_stream() -> None:
    """Deletion is not an outage: the error comes at once."""

    async def main() -> tuple[list[bytes], float]:
        app, _ = make_app(ScriptedBackend([nothing(0), BasinDeletionPendingError()]))
        stream = await open_stream(app)
        begun = now()
        return [event async for event in stream], now() - begun

    events, seconds = simulate(main())
    assert b'"code":"basin_deletion_pending"' in events[-1]
    assert len(events) == 2
    assert seconds == 0


def test_a_successor_of_the_same_name_is_not_followed() -> None:
    """The stream was deleted and made anew between two reads: the follower of the first ends with
    an error instead of going on in the second, whose numbers begin at 0 again."""

    async def main() -> list[bytes]:
        old, new = nothing(3), records(3, 2, tail=5)
        calls: list[Step] = [replace(old, incarnation=(2, 1)), replace(new, incarnation=(2, 2))]
        app, _ = make_app(ScriptedBackend(calls))
        return [event async for event in await open_stream(app)]

    events = simulate(main())
    assert [event.split(b"\n")[0] for event in events] == [b"event: ping", b"event: error"]
    assert b'"code":"stream_not_found"' in events[-1]


def test_an_outage_before_the_first_read_is_a_plain_answer() -> None:
    """Nothing has begun, so the status still can say it."""

    async def main() -> int:
        app, _ = make_app(ScriptedBackend([UnavailableError()]))
        return (await app.handle(get(PATH, "", EVENTS))).status

    assert simulate(main()) == 503


def test_draining_ends_an_open_stream_within_one_read() -> None:
    """The event tells the client to go elsewhere."""

    async def main() -> tuple[list[bytes], float]:
        app, _ = make_app(ScriptedBackend([nothing(0)]))
        stream = await open_stream(app)
        events = [await anext(stream)]
        app.drain()
        begun = now()
        events += [event async for event in stream]
        return events, now() - begun

    events, seconds = simulate(main())
    assert b'"code":"server_draining"' in events[-1]
    assert seconds <= 5


def test_wait_is_counted_from_the_tail_and_again_from_each_batch() -> None:
    """8 s of wait, a batch after 6 s, the end 8 s after that."""

    async def main() -> tuple[list[bytes], float]:
        async def after_one_second(call: ReadCall) -> Any:
            await asyncio.sleep(1)
            return records(0, 1, tail=1)

        backend = ScriptedBackend([nothing(0), nothing(0), after_one_second, nothing(1)])
        app, _ = make_app(backend)
        stream = await open_stream(app, "wait=8")
        begun = now()
        events = [event async for event in stream if not event.startswith(b"event: ping")]
        return events, now() - begun

    events, seconds = simulate(main())
    assert events[-1] == b"data: [DONE]\n\n"
    assert len(events) == 2
    assert 13.9 < seconds < 14.2


def test_closing_a_stream_closes_its_session() -> None:
    """The gauge of open sessions goes back whatever the stream was doing."""

    async def main() -> list[float]:
        app, metrics = make_app(ScriptedBackend([nothing(0)]))
        stream = await open_stream(app)
        await anext(stream)
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(1)
        values = [metrics.read_sessions._value.get()]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stream.aclose()
        return [*values, metrics.read_sessions._value.get()]

    assert simulate(main()) == [1, 0]


def test_a_fault_while_following_is_told_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One error in the log, `internal` on the wire."""

    async def main() -> list[bytes]:
        app, _ = make_app(ScriptedBackend([nothing(0), RuntimeError("secret")]))
        return [event async for event in await open_stream(app)]

    events = simulate(main())
    assert b'"error":"internal","code":"other"' in events[-1]
    assert b"secret" not in b"".join(events)
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert errors == ["shared_tail_failed"]


@pytest.mark.parametrize(("wait", "seconds"), [(1, 1), (7, 7), (60, 60), (61, 60), (2**32 - 1, 60)])
def test_a_long_poll_waits_as_told_up_to_a_minute(wait: int, seconds: int) -> None:
    """In backend calls of 5 s at most, each from the same place."""

    async def main() -> tuple[float, ScriptedBackend, bytes]:
        backend = ScriptedBackend([nothing(3)])
        app, _ = make_app(backend)
        begun = now()
        response = await app.handle(get(PATH, f"tail_offset=0&wait={wait}"))
        assert response.status == 200
        return now() - begun, backend, body_of(response)

    waited, backend, body = simulate(main())
    assert seconds <= waited < seconds + 0.1
    assert backend.calls[0].start.kind is StartKind.TAIL_OFFSET
    assert {(c.start.kind, c.start.value) for c in backend.calls[1:]} <= {(StartKind.SEQ_NUM, 3)}
    assert json.loads(body) == {"records": [], "tail": {"seq_num": 3, "timestamp": 9}}


def test_a_unary_read_goes_on_where_the_node_stopped_early() -> None:
    """Results of one read may be short; the limits are still exact."""

    async def main() -> tuple[list[int], ScriptedBackend]:
        backend = ScriptedBackend(
            [records(0, 3, tail=9, more=True), records(3, 3, tail=9, more=True), nothing(9)]
        )
        app, _ = make_app(backend)
        response = await app.handle(get(PATH, "seq_num=1&count=4"))
        found = json.loads(body_of(response))["records"]
        return [record["seq_num"] for record in found], backend

    numbers, backend = simulate(main())
    assert numbers == [0, 1, 2, 3]
    assert [(c.start.value, c.bounds.count) for c in backend.calls] == [(1, 4), (3, 1)]


def test_a_node_that_applies_the_bounds_itself_ends_the_read() -> None:
    """Nothing found with more behind it means that the next record does not fit."""

    async def main() -> tuple[int, bytes]:
        backend = ScriptedBackend([replace(nothing(9, start=3), may_have_more=True)])
        app, _ = make_app(backend)
        response = await app.handle(get(PATH, "seq_num=3&bytes=20&wait=60"))
        return len(backend.calls), body_of(response)

    calls, body = simulate(main())
    assert calls == 1
    assert json.loads(body)["records"] == []
