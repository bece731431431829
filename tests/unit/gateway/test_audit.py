"""The audit trail of a gateway: what is told, what never is, and what happens when it cannot be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc_cluster.base.audit_trail import REFUSALS_WAITING_MAX, AuditTrail, Event
from svc_cluster.base.errors import DeadlineError, DrainingError
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.access.audit import (
    EVENT_BYTES,
    REFUSALS_BURST,
    REFUSALS_PER_SECOND,
    Audit,
)
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.endpoints.table import ENDPOINTS, ROUTER
from svc_cluster.http.message import BytesBody, ClientGoneError, Request, Response
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, body_of, make_app

AUDITED = {row.operation for row in ENDPOINTS if row.is_audited}

B = ("svc-basin", "basin-0001")


class Lines:
    """A sink whose disk can be full."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.is_full = False
        self.attempts = 0

    def write(self, event: Event) -> None:
        self.attempts += 1
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.events.append(dict(event))

    def reopen(self) -> None: ...

    def close(self) -> None: ...


class Gateway:
    def __init__(self, app: GatewayApp, metrics: Metrics, lines: Lines) -> None:
        self.app = app
        self.metrics = metrics
        self.lines = lines

    async def ask(
        self, method: str, path: str, body: Any = None, *headers: tuple[str, str]
    ) -> Response:
        data = b"" if body is None else json.dumps(body).encode()
        content = [] if body is None else [("content-type", "application/json")]
        path, _, query = path.partition("?")
        request = Request(method, path, query, [*content, *headers], BytesBody(data))
        return await self.app.handle(request)

    def told(self) -> list[dict[str, Any]]:
        """What was told since this was asked last, without what is null."""
        events, self.lines.events = self.lines.events, []
        return [{k: v for k, v in event.items() if v is not None} for event in events]


def with_gateway(
    test: Callable[[Gateway], Awaitable[None]], backend: Any = None, *, guarded: bool = False
) -> None:
    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        lines = Lines()
        access = None
        if guarded:
            directory = TokenDirectory(clock)
            keeper: LeaseKeeper = None  # type: ignore[assignment]  # asked for unknown secrets only
            access = AccessControl(directory, keeper)
        app, metrics = make_app(
            backend or MemoryBackend(clock), audit=AuditTrail(lines), access=access
        )
        await test(Gateway(app, metrics, lines))

    run(lambda loop: main())


STEPS: list[tuple[str, str, Any, dict[str, Any]]] = [
    (
        "POST",
        "/v1/basins",
        {"basin": "basin-0001"},
        {"operation": "create-basin", "basin": "basin-0001", "status": 201, "outcome": "created"},
    ),
    (
        "POST",
        "/v1/basins",
        {"basin": "basin-0001"},
        {
            "operation": "create-basin",
            "basin": "basin-0001",
            "status": 409,
            "code": "resource_already_exists",
            "effect": "none",
        },
    ),
    (
        "POST",
        "/v1/basins",
        {"basin": "NO"},
        {"operation": "create-basin", "status": 400, "code": "bad_json", "effect": "none"},
    ),
    (
        "PUT",
        "/v1/basins/basin-0001",
        {"config": {"create_stream_on_read": True}},
        {"operation": "ensure-basin", "basin": "basin-0001", "status": 200, "outcome": "updated"},
    ),
    (
        "PATCH",
        "/v1/basins/basin-0001",
        {},
        {"operation": "reconfigure-basin", "basin": "basin-0001", "status": 200},
    ),
    (
        "POST",
        "/v1/streams",
        {"stream": "s/\n1"},
        {
            "operation": "create-stream",
            "basin": "basin-0001",
            "stream": "s/\n1",
            "status": 201,
            "outcome": "created",
        },
    ),
    (
        "PUT",
        "/v1/streams/s%2F%0A1",
        None,
        {
            "operation": "ensure-stream",
            "basin": "basin-0001",
            "stream": "s/\n1",
            "status": 200,
            "outcome": "noop",
        },
    ),
    (
        "PATCH",
        "/v1/streams/other",
        {},
        {
            "operation": "reconfigure-stream",
            "basin": "basin-0001",
            "stream": "other",
            "status": 404,
            "code": "stream_not_found",
            "effect": "none",
        },
    ),
    (
        "GET",
        "/v1/streams/made/records/tail",
        None,
        {
            "operation": "auto-create-stream",
            "basin": "basin-0001",
            "stream": "made",
            "effect": "done",
        },
    ),
    (
        "DELETE",
        "/v1/streams/s%2F%0A1",
        None,
        {
            "operation": "delete-stream",
            "basin": "basin-0001",
            "stream": "s/\n1",
            "status": 202,
        },
    ),
    (
        "POST",
        "/v1/read-tickets",
        {"basin": "basin-0001", "streams": {"exact": "s"}},
        {
            "operation": "issue-read-ticket",
            "basin": "basin-0001",
            "stream": "s",
            "status": 400,
            "code": "invalid",
            "effect": "none",
        },
    ),
    (
        "POST",
        "/v1/access-tokens",
        {"id": "t-1", "scope": {"ops": ["read"]}},
        {
            "operation": "issue-access-token",
            "status": 501,
            "code": "not_implemented",
            "effect": "none",
        },
    ),
    (
        "DELETE",
        "/v1/access-tokens/t-1",
        None,
        {
            "operation": "revoke-access-token",
            "token_id": "t-1",
            "status": 501,
            "code": "not_implemented",
            "effect": "none",
        },
    ),
    (
        "PUT",
        "/v1/locations/default",
        "local",
        {"operation": "set-default-location", "location": "local", "status": 200},
    ),
    (
        "DELETE",
        "/v1/basins/basin-0001",
        None,
        {"operation": "delete-basin", "basin": "basin-0001", "status": 202},
    ),
]


def test_each_write_is_told_once_with_its_names_and_its_result() -> None:
    """One event for each request of the table, which has every operation that is an event."""

    async def test(gateway: Gateway) -> None:
        for number, (method, path, body, expected) in enumerate(STEPS):
            is_basin = "basins" in path or "locations" in path or "tokens" in path
            headers = [("x-request-id", f"r-{number}"), *([] if is_basin else [B])]
            await gateway.ask(method, path, body, *headers)
            (event,) = gateway.told()
            assert event.pop("time").endswith("Z")
            assert event.pop("token") == "-"
            event.pop("address", None)
            assert event.pop("request_id") == f"r-{number}"
            assert event == {"effect": "done", **expected}, (method, path)

    with_gateway(test)
    seen = {expected["operation"] for *_, expected in STEPS} - {"auto-create-stream"}
    assert seen == AUDITED


def test_what_is_an_event_is_every_write_but_the_append() -> None:
    """Reads, lists and probes are none, nor is what has no route."""
    names = ("create", "ensure", "reconfigure", "delete", "issue", "revoke", "set")
    writes = {row.operation for row in ENDPOINTS if row.operation.split("-")[0] in names}
    assert writes == AUDITED

    async def test(gateway: Gateway) -> None:
        await gateway.ask("POST", "/v1/basins", {"basin": "basin-0001"})
        await gateway.ask("POST", "/v1/streams", {"stream": "s"}, B)
        gateway.told()
        for method, path, body in (
            ("GET", "/v1/basins", None),
            ("GET", "/v1/streams", None),
            ("POST", "/v1/streams/s/records", {"records": [{"body": "eA=="}]}),
            ("GET", "/v1/streams/s/records?seq_num=0", None),
            ("GET", "/metrics", None),
            ("OPTIONS", "/v1/basins", None),
            ("POST", "/v1/nothing", {}),
            ("POST", "/v1/streams/s", {}),
        ):
            await gateway.ask(method, path, body, B)
        assert gateway.told() == []

    with_gateway(test)


def test_a_request_id_is_told_only_if_it_is_short_and_plain() -> None:
    """Nothing long, and nothing that could be taken for something else, gets into the log."""

    async def test(gateway: Gateway) -> None:
        for given, told in (
            ("a" * 128, "a" * 128),
            ("5f2c-1:2/3=", "5f2c-1:2/3="),
            ("a" * 129, None),
            ("a b", None),
            ('"}', None),
            ("", None),  # it then has one of ours
        ):
            await gateway.ask("DELETE", "/v1/basins/basin-0001", None, ("x-request-id", given))
            found = gateway.told()[0]["request_id"]
            assert found == told or (told is None and re.fullmatch("[0-9a-f]{16}", str(found)))

    with_gateway(test)


def test_names_that_contradict_each_other_are_not_told() -> None:
    """Which of two basins is meant is nobody's guess."""

    async def test(gateway: Gateway) -> None:
        other = ("s2-basin", "basin-0002")
        assert (await gateway.ask("DELETE", "/v1/streams/s", None, B, other)).status == 400
        (event,) = gateway.told()
        assert (event.get("basin"), event["code"]) == (None, "bad_header")

    with_gateway(test)


@pytest.mark.parametrize(
    ("failure", "status", "code", "effect"),
    [
        (DeadlineError("late"), 408, "request_timeout", "possible"),
        (ClientGoneError(), 499, None, "possible"),
        (asyncio.CancelledError(), 499, None, "possible"),
    ],
)
def test_what_may_have_happened_is_told_so(
    failure: BaseException, status: int, code: str | None, effect: str
) -> None:
    """An unknown outcome, and a client that went away before there was one."""

    class Fails(ScriptedBackend):
        async def delete_basin(self, name: str, *, request_key: bytes = b"") -> None:
            raise failure

    async def test(gateway: Gateway) -> None:
        with contextlib.suppress(ClientGoneError, asyncio.CancelledError):
            await gateway.ask("DELETE", "/v1/basins/basin-0001")
        (event,) = gateway.told()
        assert (event["status"], event.get("code"), event["effect"]) == (status, code, effect)

    with_gateway(test, Fails())


@pytest.mark.parametrize("guarded", [True, False])
def test_refusals_are_told_at_a_bounded_rate(guarded: bool) -> None:
    """A flood that is refused, for want of a token or of a basin, makes so many lines and no more;
    how many were left out is told with the next one. What has an effect is told all the same."""
    code = "authn" if guarded else "basin_not_found"

    async def test(gateway: Gateway) -> None:
        burst = int(REFUSALS_BURST)
        for _ in range(5 * burst):
            answer = await gateway.ask("DELETE", "/v1/basins/basin-0001")
            assert json.loads(body_of(answer))["code"] == code
        told = gateway.told()
        assert len(told) == burst
        assert {(event["code"], event["token"]) for event in told} == {(code, "-")}
        if not guarded:
            for number in range(3):
                await gateway.ask("POST", "/v1/basins", {"basin": f"basin-100{number}"})
            assert [event["effect"] for event in gateway.told()] == ["done"] * 3
        await asyncio.sleep(1.0)
        await gateway.ask("DELETE", "/v1/basins/basin-0001")
        (event,) = gateway.told()
        assert event["suppressed_before"] == 4 * burst
        assert f"svc_audit_suppressed_total {4.0 * burst}" in gateway.metrics.expose().decode()

    with_gateway(test, guarded=guarded)


def test_while_it_cannot_be_written_nothing_more_is_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The request under way when the disk fills is done and told later, in its place; those behind
    it are refused without effect until there is room. Appends go on; no stream is made by one."""

    async def test(gateway: Gateway) -> None:
        config = {"config": {"create_stream_on_append": True}}
        await gateway.ask("POST", "/v1/basins", {"basin": "basin-0001", **config})
        await gateway.ask("POST", "/v1/streams", {"stream": "s"}, B)
        gateway.told()
        gateway.lines.is_full = True
        assert (await gateway.ask("POST", "/v1/streams", {"stream": "first"}, B)).status == 201
        for _ in range(3):
            answer = await gateway.ask("POST", "/v1/streams", {"stream": "second"}, B)
            assert answer.status == 503
            assert dict(answer.headers)["svc-side-effects"] == "none"
            assert json.loads(body_of(answer))["code"] == "unavailable"
        record = {"records": [{"body": "eA=="}]}
        assert (await gateway.ask("POST", "/v1/streams/s/records", record, B)).status == 200
        assert (await gateway.ask("POST", "/v1/streams/t/records", record, B)).status == 503
        page = json.loads(body_of(await gateway.ask("GET", "/v1/streams", None, B)))
        assert [each["name"] for each in page["streams"]] == ["first", "s"]
        gateway.lines.is_full = False
        assert (await gateway.ask("POST", "/v1/streams", {"stream": "third"}, B)).status == 201
        told = [(event["stream"], event["effect"]) for event in gateway.told() if "stream" in event]
        assert told == [("first", "done"), ("third", "done")]

    with_gateway(test)
    assert caplog.text.count("audit_log_unwritable") == 1
    caplog.clear()


def test_what_waits_is_bounded_and_what_was_left_out_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Refusals beyond the bound are dropped, effects never; how many is told behind the rest."""
    lines = Lines()
    trail = AuditTrail(lines)
    lines.is_full = True
    for number in range(REFUSALS_WAITING_MAX + 7):
        trail.record({"number": number}, is_refusal=True)
    trail.record({"number": "done"}, is_refusal=False)
    assert lines.events == []
    lines.is_full = False
    trail.check()
    assert len(lines.events) == REFUSALS_WAITING_MAX + 2
    assert lines.events[-2] == {"number": "done"}
    assert lines.events[-1] == {"operation": "refusals-not-recorded", "count": 7}
    caplog.clear()


def test_what_was_left_out_is_told_when_its_token_is_forgotten() -> None:
    """Of a token that is refused nothing more the last refusal is told late, with how many there
    were before it: when room is made for other tokens, and when the gateway stops."""

    async def main() -> None:
        clock, lines = SimClock(asyncio.get_running_loop()), Lines()
        audit = Audit(AuditTrail(lines), clock, Metrics().audit_suppressed)

        def refuse(token: str, count: int) -> None:
            resource = ROUTER.find(["v1", "basins", "basin-0001"])
            request = Request("DELETE", "/v1/basins/basin-0001", "", [])
            for _ in range(count):
                note = audit.begin(request, resource, ["v1", "basins", "basin-0001"], None)
                assert note is not None
                note.token, note.refusal = token, DrainingError("no")
                audit.end(note, Response(503))

        burst = int(REFUSALS_BURST)
        before = audit.held_bytes
        refuse("noisy", burst + 7)
        assert len(lines.events) == burst
        assert audit.held_bytes - before == EVENT_BYTES * (1 + min(burst, audit._trail.kept))
        await asyncio.sleep(2 * REFUSALS_BURST / REFUSALS_PER_SECOND)
        for number in range(1000):
            refuse(f"quiet-{number}", 1)
        told = [event for event in lines.events if event.get("suppressed_before")]
        assert [(event["token"], event["suppressed_before"]) for event in told] == [("noisy", 6)]
        assert len(lines.events) == burst + 1 + 1000
        refuse("late", burst + 1)
        audit.flush()
        assert lines.events[-1]["token"] == "late"
        assert len(lines.events) == 2 * burst + 1002
        audit.flush()
        assert len(lines.events) == 2 * burst + 1002

    run(lambda loop: main())
