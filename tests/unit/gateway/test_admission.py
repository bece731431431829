"""What is refused when there is too much to do, and what never is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.gateway.limits.admission import (
    IN_PROGRESS_MAX,
    LATE_LOOKS,
    LATE_SECONDS,
    Admission,
    Lateness,
    OverloadReason,
    refusal,
)
from svc_cluster.http.message import Request, Response
from svc_cluster.model.record import AppendAck
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
from tests.unit.gateway.scripted import BASIN, body_of, get, make_app

MAX = 4
PROBES = (
    "/health",
    "/ping",
    "/livez",
    "/readyz",
    "/metrics",
    "/version",
)
PAGES = ("/openapi.json", "/docs", "/console", "/console/main.js", "/proto/s2/v1/s2.proto")
ONE = b'{"records":[{}]}'


class UntouchedBody:
    """Fails whoever reads it."""

    async def read(self, limit_bytes: int) -> bytes:
        raise AssertionError("a refused body is not read")

    def chunks(self, idle_seconds: float | None = None) -> AsyncIterator[bytes]:
        raise AssertionError("a refused body is not read")


class BusyBackend(MemoryBackend):
    """Tails are told once `go_on` is set; everything else at once."""

    def __init__(self) -> None:
        super().__init__(SimClock(asyncio.get_running_loop()))
        self.go_on = asyncio.Event()
        self.appended = 0

    async def check_tail(self, basin: str, stream: str) -> Any:
        await self.go_on.wait()
        return await super().check_tail(basin, stream)

    async def append(self, *arguments: Any, **named: Any) -> AppendAck:
        self.appended += 1
        return await super().append(*arguments, **named)


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


def shed(metrics: Metrics, reason: OverloadReason) -> float:
    labels = {"reason": reason.value}
    return metrics.registry.get_sample_value("svc_http_requests_shed_total", labels) or 0.0


def post(body: Any) -> Request:
    headers = [BASIN, ("content-type", "application/json"), ("content-length", str(len(ONE)))]
    return Request("POST", RECORDS, "", headers, body)


def assert_shed(response: Response, *, is_write: bool) -> None:
    """A definite 503 that says when to come again."""
    headers = dict(response.headers)
    said = json.loads(body_of(response))
    assert (response.status, said["code"]) == (503, "unavailable")
    assert said["may_have_taken_effect"] is False
    assert headers.get("svc-side-effects") == ("none" if is_write else None)
    assert int(headers["retry-after-ms"]) > 0
    assert int(headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("probe", "in_progress", "late", "found"),
    [
        (False, MAX - 1, False, None),
        (False, MAX, False, OverloadReason.IN_PROGRESS),
        (False, 0, True, OverloadReason.LATE),
        (True, MAX, True, None),
    ],
)
def test_what_is_new_is_refused_and_probes_never(
    probe: bool, in_progress: int, late: bool, found: OverloadReason | None
) -> None:
    """At the bound exactly, or while the loop is late."""
    told = refusal(is_probe=probe, in_progress=in_progress, in_progress_max=MAX, late=late)
    assert told is found


def test_only_a_loop_that_stays_late_is_an_overload() -> None:
    """One look that is a second late, or many with one in time between them, is none."""
    lateness = Lateness()
    found = []
    late, in_time = LATE_SECONDS * 1.1, LATE_SECONDS * 0.9
    for seconds in (1.0, in_time, *[late] * (LATE_LOOKS + 1), in_time, late):
        lateness.look(seconds)
        found.append(lateness.is_overload)
    assert found == [False, False, *[False] * (LATE_LOOKS - 1), True, True, False, False]


def test_whoever_is_refused_or_ends_leaves_no_trace() -> None:
    """Probes take no place, and are let in where there is none."""

    async def main() -> None:
        admission = Admission(1, 1, SimClock(asyncio.get_running_loop()), Metrics())
        probe = admission.enter(is_probe=True)
        assert admission.in_progress == 0
        place = admission.enter(is_probe=False)
        with pytest.raises(UnavailableError):
            admission.enter(is_probe=False)
        assert admission.in_progress == 1
        admission.leave(probe)
        admission.leave(place)
        assert admission.in_progress == 0
        admission.leave(admission.enter(is_probe=False))

    simulate(main())


def test_a_full_gateway_refuses_what_is_new_and_goes_on_with_what_has_begun() -> None:
    """With as many requests in progress as there may be: reads, appends, sessions and what is
    unknown are refused with nothing of their bodies read, and pages for people; probes are
    answered, a session that was open goes on, the lease is renewed; and once there is room all is
    as before."""

    async def main() -> None:
        backend = BusyBackend()
        app, metrics = make_app(backend, requests_in_progress_max=MAX)
        app.start()
        keeper = LeaseKeeper(
            Tokens(), TokenDirectory(SimClock(asyncio.get_running_loop())), app.clock, "g"
        )
        keeper.start()
        await backend.create_basin(BASIN[1], BasinConfig())
        await backend.create_stream(BASIN[1], "s", NewStream())
        body = PipeBody()
        frames = Frames(await app.handle(append_session(body)))
        waiting = [asyncio.ensure_future(app.handle(get(f"{RECORDS}/tail"))) for _ in range(MAX)]
        await asyncio.sleep(0.01)

        assert_shed(await app.handle(get(f"{RECORDS}/tail")), is_write=False)
        assert_shed(await app.handle(get("/v1/nowhere")), is_write=False)
        assert_shed(await app.handle(post(UntouchedBody())), is_write=True)
        assert_shed(await app.handle(append_session(PipeBody())), is_write=True)
        for path in PAGES:
            assert_shed(await app.handle(get(path)), is_write=False)
        assert shed(metrics, OverloadReason.IN_PROGRESS) == 4 + len(PAGES)
        assert shed(metrics, OverloadReason.LATE) == 0
        for path in PROBES:
            assert (await app.handle(get(path))).status == 200, path
        before = keeper.renewals
        for _ in range(3):
            body.put(input_frame(b"a"))
            assert ack_of(await frames.next()) is not None
            await asyncio.sleep(1.0)
        assert backend.appended == 3, "of the session, and of nothing that was refused"
        assert keeper.renewals >= before + 10, "about five a second"

        waiting.pop().cancel()  # a client that goes away makes room
        await asyncio.sleep(0.01)
        waiting.append(asyncio.ensure_future(app.handle(get(f"{RECORDS}/tail"))))
        await asyncio.sleep(0.01)
        assert_shed(await app.handle(get(f"{RECORDS}/tail")), is_write=False)
        backend.go_on.set()
        assert [(await each).status for each in waiting] == [200] * MAX
        assert (await app.handle(get(f"{RECORDS}/tail"))).status == 200
        body.put(None)
        await frames.rest()
        await keeper.close()
        await app.close()

    simulate(main())


class Tokens:
    async def renew(self, *_: Any, **__: Any) -> TokenNews:
        return TokenNews(True, 0, False, (), False, 1)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_there_is_a_bound_where_none_is_set() -> None:
    assert 1_000 <= IN_PROGRESS_MAX <= 100_000
