"""What a gateway tells of single requests in its log. Rules: docs/operations/request-log.md."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.access import ROOT_SECRET, Account, bearer
from tests.contract.client import Client, EventStream, b64
from tests.contract.conftest import Server, running
from tests.log_lines import json_lines

BASIN = "told-basin"
SECONDS = 30.0
ENDPOINTS = ("http", "h2c")


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that tells of each request, and of nearly all that they are slow."""
    settings = {"access_log": True, "slow_request_ms": 0.001}
    made = Server(tmp_path_factory.mktemp("told"), 10.0, ROOT_SECRET, gateway=settings)
    with running(made), Account(f"http://127.0.0.1:{made.port}", made.directory) as account:
        assert account.ask("POST", "/v1/basins", {"basin": BASIN}).status in (200, 201)
        for kind in ENDPOINTS:
            body = {"stream": f"orders-{kind}"}
            assert account.ask("POST", "/v1/streams", body, svc_basin=BASIN).status in (200, 201)
        yield made


def lines(server: Server, event: str, request_id: str) -> list[dict[str, Any]]:
    """The log's lines of one request, once there are some."""
    deadline = time.monotonic() + SECONDS
    while True:
        told = json_lines(server.log)
        found = [
            line for line in told if line["event"] == event and line.get("request_id") == request_id
        ]
        if found:
            return found
        assert time.monotonic() < deadline, f"no line {event} of {request_id}"


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_each_request_has_one_line_with_what_it_was(telling: Server, kind: str) -> None:
    """An append, a refused read, one of nobody and one of no path: names, sizes, status and time,
    and of each but one line."""
    stream = f"orders-{kind}"
    path = f"/v1/streams/{stream}/records"
    body = json.dumps({"records": [{"body": b64("x")}]}).encode()
    asked = {"svc-basin": BASIN, "content-type": "application/json", **bearer(ROOT_SECRET)}
    with Client(f"{kind}://127.0.0.1:{telling.port}") as client:

        def ask(method: str, where: str, data: bytes | None, name: str, **more: Any) -> Any:
            headers = more.get("headers", asked)
            return client.request(method, where, data, headers | {"x-request-id": f"{kind}-{name}"})

        answers = {
            "append": ask("POST", path, body, "append"),
            "beyond": ask("GET", path + "?seq_num=99", None, "beyond"),
            "nobody": ask("GET", path, None, "nobody", headers={"svc-basin": BASIN}),
            "nowhere": ask("GET", "/v1/nowhere", None, "nowhere"),
        }
        told = {
            name: lines(telling, "request_served", f"{kind}-{name}") for name in reversed(answers)
        }
    assert {name: len(found) for name, found in told.items()} == dict.fromkeys(answers, 1)
    route = "/v1/streams/{stream}/records"
    whole = {"operation": "append", "method": "POST", "route": route, "status": 200, "code": None}
    whole |= {"basin": BASIN, "stream": stream, "address": "127.0.0.1", "level": "info"}
    whole |= {"request_bytes": len(body), "response_bytes": len(answers["append"].body)}
    assert whole.items() <= told["append"][0].items()
    assert 0 < told["append"][0]["duration_ms"] < 60_000
    shown = ("operation", "basin", "stream", "status", "code", "request_bytes", "response_bytes")

    def short(name: str) -> tuple[Any, ...]:
        return tuple(told[name][0][key] for key in shown)

    size = {name: len(answer.body) for name, answer in answers.items()}
    beyond = answers["beyond"]
    assert short("beyond") == (
        *("read", BASIN, stream, beyond.status),
        *(told["beyond"][0]["code"], 0, size["beyond"]),
    )
    assert short("nobody") == (None, None, None, 401, "authn", 0, size["nobody"])
    assert short("nowhere") == (None, None, None, 404, "not_found", 0, size["nowhere"])


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_stream_is_told_once_it_has_ended(telling: Server, kind: str) -> None:
    """With all that was sent of it, and how long it was open; there is no line before."""
    name = f"{kind}-followed"
    headers = {**bearer(ROOT_SECRET), "x-request-id": name}
    path = f"/v1/streams/orders-{kind}/records?seq_num=0"
    with Client(f"{kind}://127.0.0.1:{telling.port}") as client:
        assert (
            client.append(BASIN, f"orders-{kind}", b"x", headers=bearer(ROOT_SECRET)).status == 200
        )
    with EventStream(f"{kind}://127.0.0.1:{telling.port}", BASIN, path, headers) as events:
        events.next("batch")
        lines(telling, "request_slow", name)
        assert f'"request_served", "request_id": "{name}"' not in telling.log.read_text()
    (line,) = lines(telling, "request_served", name)
    assert (line["operation"], line["status"]) == ("read", 200)
    assert line["response_bytes"] > 0
    assert line["duration_ms"] > 0


def test_where_the_time_went_adds_up(telling: Server) -> None:
    """Of a slow append: each stage that it went through, those on its leader too, and together they
    are all of its time."""
    with Client(f"http://127.0.0.1:{telling.port}") as client:
        given = {**bearer(ROOT_SECRET), "x-request-id": "slow-append"}
        answer = client.append(BASIN, "orders-http", b"x", headers=given)
        assert answer.status == 200
        (line,) = lines(telling, "request_slow", "slow-append")
    stages = line["stages_ms"]
    assert [*stages] == [
        *("admission", "access", "handler", "body", "memory", "decode", "cluster"),
        *("leader_queue", "leader_wal", "leader_quorum", "leader_apply", "answer"),
    ]
    assert line["level"] == "warning"
    for stage in ("cluster", "leader_wal", "leader_apply"):
        assert stages[stage] > 0, stage
    assert sum(stages.values()) == pytest.approx(line["duration_ms"], abs=0.5)


def test_nothing_that_is_secret_is_told(telling: Server) -> None:
    """Neither what stands in a query string, nor a token, be it in the wrong place, nor a body."""
    canary = "canary-that-nobody-should-see"
    headers = {"svc-basin": BASIN, "x-request-id": "planted", **bearer(ROOT_SECRET)}
    with Client(f"http://127.0.0.1:{telling.port}") as client:
        path = "/v1/streams/orders-http/records"
        client.get(f"{path}?seq_num=0&clamp=true&ticket={canary}", headers)
        client.get(f"{path}?ticket={canary}", {"svc-basin": BASIN, "cookie": canary})
        client.post(path, {"records": [{"body": canary}]}, {**headers, "svc-format": "utf8"})
        client.get(f"/v1/basins/{ROOT_SECRET}", headers)
        last = headers | {"x-request-id": "planted-last"}
        assert client.get("/v1/basins", last).status == 200
    lines(telling, "request_served", "planted-last")
    text = telling.log.read_text()
    assert len(lines(telling, "request_served", "planted")) == 3
    assert canary not in text
    assert ROOT_SECRET not in text
