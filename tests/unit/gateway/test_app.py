"""The gateway as a function: errors, metrics, draining, budget."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from svc_cluster.base import errors
from svc_cluster.base.errors import (
    DeadlineError,
    ErrorCode,
    InternalError,
    MalformedError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.log import JsonFormatter, get_logger
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.error_answers import error_response
from svc_cluster.gateway.request.fault_lines import FAULT_LINES_MAX, FAULT_SECONDS, FaultLines
from svc_cluster.http.message import Request, Response
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, body_of, get, make_app, nothing, post

RECORDS = "/v1/streams/s/records"
ONE = b'{"records":[{}]}'


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


def answer_to(request: Request, backend: Any, **options: Any) -> Response:
    async def main() -> Response:
        app, _ = make_app(backend, **options)
        return await app.handle(request)

    response: Response = simulate(main())
    return response


# The table of the wire contract, held here once more: a changed status must be changed twice.
CONTRACT_STATUS = {
    "access_token_not_found": 404,
    "authn": 401,
    "bad_frame": 400,
    "bad_header": 400,
    "bad_json": 400,
    "bad_path": 400,
    "bad_proto": 400,
    "bad_query": 400,
    "basin_deletion_pending": 409,
    "basin_not_found": 404,
    "decryption_failed": 400,
    "hot_server": 502,
    "invalid": 422,
    "method_not_allowed": 405,
    "not_found": 404,
    "not_implemented": 501,
    "other": 500,
    "payload_too_large": 413,
    "target_too_long": 414,
    "headers_too_large": 431,
    "permission_denied": 403,
    "quota_exhausted": 403,
    "rate_limited": 429,
    "request_timeout": 408,
    "resource_already_exists": 409,
    "server_draining": 503,
    "storage": 500,
    "stream_deletion_pending": 409,
    "stream_not_found": 404,
    "transaction_conflict": 409,
    "unavailable": 503,
    "unsupported_media_type": 415,
    "append_condition_failed": 412,
    "range_not_satisfiable": 416,
}
SEED_WORDS = {
    "authn": "unauthorized",
    "permission_denied": "forbidden",
    "quota_exhausted": "forbidden",
    "other": "internal",
    "invalid": "validation_error",
}


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_its_status_and_its_words(code: ErrorCode, dialect: Dialect) -> None:
    """Status, seed word and canonical word, against a table of the test's own. Only what is
    `invalid` has another status outside the S2 dialect."""
    response = error_response(MalformedError(code, "text"), dialect, is_write=False)
    body = json.loads(body_of(response))
    folded = code is ErrorCode.INVALID and dialect is not Dialect.S2
    assert response.status == (400 if folded else CONTRACT_STATUS[code.value])
    word = "validation_error" if code.value.startswith("bad_") else code.value
    assert body["error"] == SEED_WORDS.get(code.value, word)
    assert body["code"] == code.value
    assert body["message"] == "text"


REFUSALS: list[ServiceError] = [
    kind()
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, ServiceError)
    and kind.__init__ is ServiceError.__init__
    and kind not in (ServiceError, InternalError)
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_a_failed_append_says_whether_it_may_have_happened(refusal: ServiceError) -> None:
    """Header and key agree with the class that was raised."""
    response = answer_to(post(RECORDS, ONE), ScriptedBackend(failure=refusal))
    possible = type(refusal) is DeadlineError
    assert dict(response.headers)["svc-side-effects"] == ("possible" if possible else "none")
    assert json.loads(body_of(response))["may_have_taken_effect"] is possible


def test_a_failed_read_has_no_side_effects_header() -> None:
    """Reads have no effects to speak of."""
    response = answer_to(get(RECORDS), ScriptedBackend([UnavailableError()]))
    assert response.status == 503
    assert "svc-side-effects" not in dict(response.headers)


@pytest.mark.parametrize("failure", [KeyError("secret"), InternalError("secret"), TimeoutError()])
def test_a_fault_is_a_500_without_its_text_and_one_log_line(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A write that ends so may have happened."""
    response = answer_to(post(RECORDS, ONE), ScriptedBackend(failure=failure))
    assert response.status == 500
    body = json.loads(body_of(response))
    assert (body["error"], body["code"]) == ("internal", "other")
    assert body["may_have_taken_effect"] is True
    assert dict(response.headers)["svc-side-effects"] == "possible"
    assert "secret" not in str(response)
    logged = [r for r in caplog.records if r.levelname == "ERROR"]
    assert [r.getMessage() for r in logged] == ["request_failed"]


def test_faults_that_anybody_can_repeat_are_told_so_many_times_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each request is answered alike; the first line of the next minute says what was left out."""
    more = 7

    async def main() -> list[int]:
        app, _ = make_app(ScriptedBackend(failure=KeyError("secret")))
        asked = [await app.handle(post(RECORDS, ONE)) for _ in range(FAULT_LINES_MAX + more)]
        told = len(caplog.records)
        await asyncio.sleep(FAULT_SECONDS)
        asked += [await app.handle(post(RECORDS, ONE)) for _ in range(2)]
        assert {response.status for response in asked} == {500}
        return [told, len(caplog.records)]

    assert simulate(main()) == [FAULT_LINES_MAX + 1, FAULT_LINES_MAX + 3]
    said, *last = [json.loads(JsonFormatter().format(record)) for record in caplog.records[-3:]]
    assert (said["event"], said["level"], said["of"]) == (
        "faults_left_out",
        "warning",
        "request_failed",
    )
    assert [line.get("left_out") for line in last] == [more, None]
    assert {line["event"] for line in last} == {"request_failed"}
    assert all("KeyError" in line["exception"] for line in last)


def test_lines_of_faults_are_counted_over_any_time_so_long_and_for_each_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There is no moment at which twice as many are written, and one fault hides no other."""

    class Now:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        def wall_ms(self) -> TimestampMs:
            raise AssertionError("nobody asks for it")

    clock, log, failure = Now(), get_logger("tests"), ValueError("x")
    lines = FaultLines(clock)
    lines.tell(log, "one", failure)
    clock.now = FAULT_SECONDS - 1.0
    for _ in range(FAULT_LINES_MAX - 1):
        lines.tell(log, "one", failure)
    assert [r.getMessage() for r in caplog.records] == ["one"] * FAULT_LINES_MAX
    caplog.clear()
    clock.now = FAULT_SECONDS
    for _ in range(FAULT_LINES_MAX):
        lines.tell(log, "one", failure)
    assert [r.getMessage() for r in caplog.records] == ["one", "faults_left_out"]
    lines.tell(log, "another", failure)
    assert caplog.records[-1].getMessage() == "another"


def test_a_draining_gateway_refuses_all_but_probes() -> None:
    """503 server_draining without effect; liveness holds, readiness does not."""

    async def main() -> list[Response]:
        app, _ = make_app(ScriptedBackend([nothing(0)]))
        app.drain()
        return [
            await app.handle(request)
            for request in (post(RECORDS, ONE), get(RECORDS), get("/livez"), get("/readyz"))
        ]

    append, read, livez, readyz = simulate(main())
    assert [r.status for r in (append, read, livez, readyz)] == [503, 503, 200, 503]
    assert json.loads(body_of(append))["code"] == "server_draining"
    assert dict(append.headers)["svc-side-effects"] == "none"


def test_readiness_names_each_check() -> None:
    """Verbose lines, exclusion, and the same verdict at /health."""

    async def main() -> list[Response]:
        app, _ = make_app(
            ScriptedBackend(), readiness=lambda: {"linearizable_read": False, "wal": True}
        )
        return [
            await app.handle(get(path, query))
            for path, query in (
                ("/readyz", "verbose"),
                ("/readyz", "exclude=linearizable_read"),
                ("/health", ""),
                ("/livez", ""),
            )
        ]

    verbose, excluded, health, livez = simulate(main())
    assert [r.status for r in (verbose, excluded, health, livez)] == [503, 200, 503, 200]
    lines = body_of(verbose).decode().splitlines()
    assert lines == ["[-]linearizable_read failed", "[+]wal ok", "[+]not_draining ok", "not ready"]


def test_bodies_in_flight_are_bounded_together() -> None:
    """The body that would exceed the budget is refused unread; room comes back when one ends."""

    async def main() -> list[int]:
        go_on = asyncio.Event()

        class Slow(ScriptedBackend):
            async def append(self, *_: Any, **named: Any) -> Any:
                await go_on.wait()
                raise UnavailableError

        app, _ = make_app(Slow(), body_bytes_in_flight_max=len(ONE) + 1)
        first = asyncio.ensure_future(app.handle(post(RECORDS, ONE)))
        await asyncio.sleep(0)
        refused = await app.handle(post(RECORDS, ONE))
        go_on.set()
        return [refused.status, (await first).status, (await app.handle(post(RECORDS, ONE))).status]

    assert simulate(main()) == [502, 503, 503]


def test_requests_are_counted_by_route_never_by_path() -> None:
    """Labels are bounded: templates, known methods, statuses."""

    async def main() -> str:
        app, metrics = make_app(ScriptedBackend([nothing(0)]))
        for name in ("a", "b", "c"):
            await app.handle(get(f"/v1/streams/{name}/records"))
            await app.handle(get(f"/nowhere/{name}"))
            await app.handle(Request(f"ODD{name}", "/health", "", []))
        return metrics.expose().decode()

    exposed = simulate(main())
    counts = [line for line in exposed.splitlines() if line.startswith("svc_http_requests_total")]
    read = 'route="/v1/streams/{stream}/records"'
    assert sorted(counts) == [
        f'svc_http_requests_total{{code="200",method="GET",{read}}} 3.0',
        'svc_http_requests_total{code="404",method="GET",route="unknown"} 3.0',
        'svc_http_requests_total{code="405",method="OTHER",route="/health"} 3.0',
    ]


def test_what_is_answered_is_not_in_flight() -> None:
    """Nor is what was refused; what waits is."""

    async def main() -> None:
        app, metrics = make_app(ScriptedBackend([nothing(3)]))

        def in_flight() -> dict[str, float]:
            [told] = metrics.http_requests_in_flight.collect()
            return {sample.labels["route"]: sample.value for sample in told.samples}

        path, route = "/v1/streams/s/records", "/v1/streams/{stream}/records"
        await app.handle(get("/nowhere"))
        await app.handle(post(path, b"{"))
        waiting = asyncio.create_task(app.handle(get(path, "seq_num=3&wait=2")))
        await asyncio.sleep(1)
        assert in_flight()[route] == 1.0
        await waiting
        assert set(in_flight().values()) == {0.0}

    simulate(main())


def test_browsers_get_nothing_more_where_cors_is_off() -> None:
    """Nor a preflight's answer; on, a preflight is answered while draining as well."""
    origin = ("origin", "http://localhost:3000")
    preflight = Request("OPTIONS", RECORDS, "", [origin, ("access-control-request-method", "POST")])

    async def main(cors: bool) -> tuple[Response, Response]:
        app, _ = make_app(ScriptedBackend([nothing(0)]), cors=cors)
        app.drain()
        return await app.handle(preflight), await app.handle(get(RECORDS, "", origin))

    for response in simulate(main(cors=False)):
        assert not [name for name, _ in response.headers if name.startswith("access-control")]
    asked, refused = simulate(main(cors=True))
    assert asked.status == 204
    assert dict(asked.headers)["access-control-allow-methods"] == "POST"
    assert dict(refused.headers)["access-control-allow-origin"] == "http://localhost:3000"


def test_answers_are_compressed_unless_that_is_off() -> None:
    """For a client that takes it; the content is the same."""
    request = Request("GET", "/openapi.json", "", [("accept-encoding", "gzip")])
    plain = answer_to(request, ScriptedBackend(), compression=False)
    assert "content-encoding" not in dict(plain.headers)
    packed = answer_to(request, ScriptedBackend())
    assert dict(packed.headers)["content-encoding"] == "gzip"
    assert gzip.decompress(body_of(packed)) == body_of(plain)


def test_configured_host_suffixes_name_the_basin() -> None:
    """And replace the default shape."""

    def read(host: str, suffixes: list[str] | None) -> int:
        request = Request("GET", RECORDS, "seq_num=0", [("host", host)])
        return answer_to(
            request,
            ScriptedBackend([nothing(1, 0)]),
            basin_host_suffixes=suffixes,
            public_hosts=["example", host],
        ).status

    assert read("basin-01.b.example", None) == 200
    assert read("basin-01.s.example", ["s.example"]) == 200
    assert read("basin-01.b.example", ["s.example"]) == 400
    assert read("basin-01.b.example", []) == 400
