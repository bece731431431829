"""Read tickets in the audit log: whoever may only read cannot fill its disk by asking for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.gateway.access.audit import REFUSALS_BURST, REFUSALS_PER_SECOND
from svc_cluster.gateway.access.command_audit import MERGE_SECONDS
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.model.access_secret import secret_text
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, make_app, post
from tests.unit.gateway.test_audit import Lines
from tests.unit.gateway.test_read_ticket import control

TICKETS = 2_000


def with_holder(test: Callable[[GatewayApp, Lines, Callable[[], str]], Awaitable[None]]) -> None:
    async def main() -> None:
        lines = Lines()
        app, metrics = make_app(ScriptedBackend(), access=control(), audit=AuditTrail(lines))
        await test(app, lines, lambda: metrics.expose().decode())

    run(lambda loop: main())


async def issue(app: GatewayApp, stream: str) -> int:
    wanted = {"basin": "tickets-1", "streams": {"exact": stream}}
    shown = ("authorization", f"Bearer {secret_text(bytes([2]) * 32)}")
    answer = await app.handle(post("/v1/read-tickets", json.dumps(wanted).encode(), shown))
    return answer.status


def seen(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event[name] for name in ("operation", "token", "basin", "stream", "status"))


def test_alike_tickets_are_a_line_at_once_and_then_one_a_second() -> None:
    """Their counts add up, and each line says whose they are and for what."""

    async def main(app: GatewayApp, lines: Lines, metrics: Callable[[], str]) -> None:
        for _ in range(TICKETS):
            assert await issue(app, "events") == 201
        await asyncio.sleep(2 * MERGE_SECONDS)
        assert 2 <= len(lines.events) <= 4
        said = ("issue-read-ticket", "t2", "tickets-1", "events", 201)
        assert {seen(event) for event in lines.events} == {said}
        assert {event["effect"] for event in lines.events} == {"done"}
        assert sum(event["count"] for event in lines.events) == TICKETS
        assert "svc_audit_suppressed_total 0.0" in metrics()
        await app.close()

    with_holder(main)


def test_tickets_for_many_streams_are_rationed_and_counted() -> None:
    """However many names there are, as many lines are written as of refusals."""

    async def main(app: GatewayApp, lines: Lines, metrics: Callable[[], str]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(TICKETS):
            assert await issue(app, f"events-{number}") == 201
        lines_max = REFUSALS_BURST + REFUSALS_PER_SECOND * (loop.time() - began)
        assert REFUSALS_BURST <= len(lines.events) <= lines_max
        left_out = TICKETS - len(lines.events)
        assert f"svc_audit_suppressed_total {float(left_out)}" in metrics()
        await asyncio.sleep(2 * MERGE_SECONDS)
        lines.events.clear()
        assert await issue(app, "another") == 201
        assert [event["suppressed_before"] for event in lines.events] == [left_out]
        await app.close()

    with_holder(main)
