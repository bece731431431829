"""Every status of a refusal that the document lists of an operation, made to occur.

What can be asked for is asked of a server. What depends on the state of the cluster (nobody leads,
a deadline, another change at the same time) comes from the seams of a gateway, which raise what
their descriptions say. Rule: contract 3.11.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    DeadlineError,
    HotServerError,
    ReadDeadlineError,
    StreamDeletionPendingError,
    TransactionConflictError,
)
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.gateway.limits.rate_limit import Rates
from svc_cluster.gateway.limits.rate_limiter import RateLimiter
from svc_cluster.gateway.openapi.document import build_document
from svc_cluster.http.message import BytesBody, Request, Response
from tests.contract.access import Account
from tests.contract.client import Answer, Client
from tests.contract.conftest import Server
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import make_app

DOCUMENT: Final = build_document(ROUTER.resources, "0")
BASIN: Final = "statuses-basin"
NO_AGE: Final = {"retention_policy": {"age": 0}}
PAGES: Final = {
    "/console",
    "/console/{asset}",
    "/docs",
    "/openapi.json",
    "/proto/s2/v1/s2.proto",
}
ANNOUNCED: Final = str(9 * 1024 * 1024)
"""More bytes than any body may have."""


@dataclass(frozen=True)
class Operation:
    """One of the document, with the request that it carries out."""

    method: str
    path: str
    described: Any = field(repr=False)

    @property
    def name(self) -> str:
        """The same at every path."""
        name: str = self.described["operationId"]
        return name.partition("-at-")[0]

    @property
    def is_free(self) -> bool:
        return "401" not in self.described["responses"]

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def refusals(self) -> set[int]:
        return {int(status) for status in self.described["responses"] if int(status) >= 400}

    @property
    def body(self) -> Any:
        """The example of the document."""
        if "requestBody" not in self.described:
            return None
        return self.described["requestBody"]["content"]["application/json"]["example"]

    def url(self, query: str = "", **names: str) -> str:
        given = {"basin": BASIN, "stream": "s", "id": "reader", **names}
        if self.name.endswith("-metrics") and not query:
            sets = {"account-metrics": "account-ops", "basin-metrics": "storage"}
            query = f"set={sets.get(self.name, 'storage')}&start=1&end=60"
        return self.path.format(**given) + (f"?{query}" if query else "")

    def headers(self, basin: str = BASIN) -> dict[str, str]:
        return {"svc-basin": basin} if self.path.startswith("/v1/streams") else {}


OPERATIONS: Final = [
    Operation(method.upper(), path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if any(int(status) >= 400 for status in operation["responses"])
]
GUARDED: Final = [each for each in OPERATIONS if not each.is_free]


def listing(status: int) -> list[Operation]:
    """The operations of which the document lists the status."""
    return [each for each in OPERATIONS if status in each.refusals and not each.is_free]


ASKS_NO_NODE: Final = frozenset({"issue-read-ticket", "get-cluster", "list-activity"})
"""What the gateway does by itself: its body may be too slow or find no room, as any body may
(test_slow_bodies.py), but nobody else can fail it. A node that does not answer is told as such."""


def of(status: int, *, but: frozenset[str] = frozenset()) -> pytest.MarkDecorator:
    listed = [each for each in listing(status) if each.name not in but]
    return pytest.mark.parametrize(
        "operation", listed, ids=lambda each: each.described["operationId"]
    )


# -- what can be asked for


@pytest.fixture(scope="module")
def asking(server: Server) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}") as client:
        config = {"create_stream_on_append": True, "create_stream_on_read": True}
        body = {"basin": BASIN, "config": config}
        assert client.post("/v1/basins", body).status == 201
        assert client.create_stream(BASIN, "s") == "s"
        token = {"id": "reader", "scope": {"ops": ["read"]}}
        assert client.post("/v1/access-tokens", token).status == 201
        yield client


def ask(
    client: Client, operation: Operation, body: Any = None, query: str = "", **more: str
) -> Answer:
    """The operation's own request, with what is given instead."""
    sent = operation.body if body is None else body
    named = {name.replace("_", "-"): value for name, value in more.items()}
    headers = {**operation.headers(), **named}
    data = None
    if sent is not None:
        data = json.dumps(sent).encode()
        headers = {"content-type": "application/json", **headers}
    return client.request(operation.method, operation.url(query), data, headers)


def assert_told(operation: Operation, answer: Answer | Response, status: int) -> None:
    """The status, with a code that the description of the status names."""
    assert answer.status == status, (operation, answer)
    told = operation.described["responses"][str(status)]
    name = told["$ref"].rpartition("/")[2]
    assert isinstance(answer.body, bytes)
    body = json.loads(answer.body)
    if status == 412:
        assert "seq_num_mismatch" in body
        return
    code = body["code"]
    assert f"`{code}`" in DOCUMENT["components"]["responses"][name]["description"]


@of(400)
def test_400_occurs(asking: Client, operation: Operation) -> None:
    """Where a header says what it cannot."""
    assert_told(operation, ask(asking, operation, svc_strict="perhaps"), 400)


@of(401)
def test_401_occurs(guarded: Account, operation: Operation) -> None:
    """Without a token."""
    assert_told(operation, ask(guarded.client, operation), 401)


@of(403)
def test_403_occurs(guarded: Account, operation: Operation) -> None:
    """With a token for something else."""
    other = "list-basins" if operation.name != "list-basins" else "list-locations"
    _, secret = guarded.issue({"ops": [other]})
    answer = ask(guarded.client, operation, authorization=f"Bearer {secret}")
    assert_told(operation, answer, 403)


@of(404)
def test_404_occurs(asking: Client, operation: Operation) -> None:
    """Where there is no basin, or no token, of the name."""
    headers = operation.headers("no-such-basin")
    data = None
    if operation.body is not None:
        data = json.dumps(operation.body).encode()
        headers["content-type"] = "application/json"
    url = operation.url(basin="no-such-basin", id="nobody")
    assert_told(operation, asking.request(operation.method, url, data, headers), 404)


@of(412)
def test_412_occurs(asking: Client, operation: Operation) -> None:
    """Where another record is next."""
    body = {"records": [{}], "match_seq_num": 99}
    assert_told(operation, ask(asking, operation, body), 412)


@of(413)
def test_413_occurs(asking: Client, operation: Operation) -> None:
    """Where more is announced than a body may have."""
    headers = {**operation.headers(), "content-type": "application/json"}
    headers["content-length"] = ANNOUNCED
    answer = asking.request(operation.method, operation.url(), None, headers)
    assert_told(operation, answer, 413)


@of(415)
def test_415_occurs(asking: Client, operation: Operation) -> None:
    """Where the body has a coding that is not known."""
    assert_told(operation, ask(asking, operation, content_encoding="br"), 415)


@of(416)
def test_416_occurs(asking: Client, operation: Operation) -> None:
    """Behind the tail."""
    assert_told(operation, ask(asking, operation, query="seq_num=99"), 416)


INVALID: Final[dict[str, dict[str, Any]]] = {
    "create-basin": {"body": {"basin": "never-made", "config": {"default_stream_config": NO_AGE}}},
    "ensure-basin": {"body": {"config": {"default_stream_config": NO_AGE}}},
    "reconfigure-basin": {"body": {"default_stream_config": NO_AGE}},
    "create-stream": {"body": {"stream": "never", "config": NO_AGE}},
    "ensure-stream": {"body": NO_AGE},
    "reconfigure-stream": {"body": NO_AGE},
    "append": {"body": {"records": []}},
    "read": {"query": "seq_num=0&tail_offset=0"},
    "check-tail": {"header": json.dumps(NO_AGE)},
    "issue-access-token": {"body": {"id": "never", "scope": {"ops": []}}},
    "issue-read-ticket": {"body": {"basin": BASIN, "streams": {"prefix": ""}}},
    "set-default-location": {"body": "nowhere"},
    "account-metrics": {"query": "set=account-ops&start=60&end=1"},
    "basin-metrics": {"query": "set=storage&start=60&end=1"},
    "stream-metrics": {"query": "set=storage&start=60&end=1"},
}
"""What is against a rule of meaning; the header is that of the stream that would be made. A ticket
is for who has a token, and nobody has one here."""


@of(422)
def test_422_occurs(asking: Client, operation: Operation) -> None:
    """In the S2 dialect, which a header of its own marks."""
    own = operation.headers()
    marked = {"s2-strict": "false", **({"s2-basin": BASIN} if own else {})}
    wrong = INVALID[operation.name]
    sent = wrong.get("body")
    data = None if sent is None else json.dumps(sent).encode()
    if data is not None:
        marked["content-type"] = "application/json"
    if "header" in wrong:
        marked["s2-stream-config"] = wrong["header"]
    url = operation.url(wrong.get("query", ""), stream="never-made")
    assert_told(operation, asking.request(operation.method, url, data, marked), 422)


@of(501)
def test_501_occurs(asking: Client, operation: Operation) -> None:
    """The set of what is billed."""
    query = "set=estimated-billable-usage&start=1&end=60"
    assert_told(operation, ask(asking, operation, query=query), 501)


def test_the_probes_refuse_a_parameter_that_is_given_twice(asking: Client) -> None:
    """All that probes answer in JSON."""
    found = {each.path for each in OPERATIONS if each.is_free and 400 in each.refusals}
    assert found == {"/livez", "/readyz"}
    for path in sorted(found):
        answer = asking.get(f"{path}?exclude=a&exclude=b")
        assert (answer.status, answer.json["code"]) == (400, "bad_query")


# -- what depends on the state of the cluster


class FailingSeam:
    """Whatever the gateway asks of the cluster fails so."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def fail(*_: Any, **__: Any) -> Any:
            raise self._failure

        return fail


def answer_of(
    operation: Operation, failure: Exception, *, drain: bool = False, limited: bool = False
) -> Response:
    """What a gateway answers whose cluster fails so. `drain`: the gateway stops; `limited`: the
    account has had all that it may have."""

    async def main() -> Response:
        seam = FailingSeam(failure)
        clock = SimClock(asyncio.get_running_loop())
        limiter = RateLimiter(
            Rates(requests=0.001), Rates(), clock=clock, rng=random.Random(1), metrics=Metrics()
        )
        options = {"limiter": limiter} if limited else {}
        app, _ = make_app(seam, tokens=seam, usage=seam, **options)
        if drain:
            app.drain()
        response = await app.handle(request_of(operation))
        for _ in range(50):
            if not limited or response.status == 429:
                break
            response = await app.handle(request_of(operation))
        return response

    return run(lambda loop: main(), failures_allowed=True)


def request_of(operation: Operation) -> Request:
    path, _, query = operation.url().partition("?")
    headers = list(operation.headers().items())
    if operation.body is None:
        return Request(operation.method, path, query, headers)
    data = json.dumps(operation.body).encode()
    headers += [("content-type", "application/json"), ("content-length", str(len(data)))]
    return Request(operation.method, path, query, headers, BytesBody(data))


@of(408, but=ASKS_NO_NODE)
def test_408_occurs(operation: Operation) -> None:
    """Where the cluster does not answer in time: of a write it may have happened."""
    late = DeadlineError if operation.is_write else ReadDeadlineError
    response = answer_of(operation, late("no answer by the deadline"))
    assert_told(operation, response, 408)
    assert isinstance(response.body, bytes)
    assert json.loads(response.body)["may_have_taken_effect"] is operation.is_write


@of(429)
def test_429_occurs(operation: Operation) -> None:
    """Beyond the rate of the account."""
    assert_told(operation, answer_of(operation, HotServerError("full"), limited=True), 429)


@of(500, but=ASKS_NO_NODE)
def test_500_occurs(operation: Operation) -> None:
    """Where something fails that nobody has foreseen."""
    assert_told(operation, answer_of(operation, RuntimeError("a fault of ours")), 500)


@of(502, but=ASKS_NO_NODE)
def test_502_occurs(operation: Operation) -> None:
    """Where a queue is full."""
    assert_told(operation, answer_of(operation, HotServerError("full")), 502)


@of(503)
def test_503_occurs(operation: Operation) -> None:
    """Where the gateway stops."""
    response = answer_of(operation, HotServerError("full"), drain=True)
    assert_told(operation, response, 503)


def test_the_probes_say_that_the_gateway_stops() -> None:
    """503 in plain text, of those alone of which it is listed beside the pages, which are refused
    with too much to do as all others are; and like all others it says when to come again."""
    free = [each for each in OPERATIONS if each.is_free and 503 in each.refusals]
    found = [each for each in free if each.path not in PAGES]
    assert {each.path for each in found} == {"/health", "/ping", "/readyz"}
    assert {each.path for each in free if each.path in PAGES} == PAGES
    for operation in found:
        response = answer_of(operation, HotServerError("full"), drain=True)
        assert (response.status, response.body) == (503, b"not ready")
        told = dict(response.headers)
        assert (told["retry-after-ms"], told["retry-after"]) == ("500", "1")
        described = set(operation.described["responses"]["503"]["headers"])
        assert described == {"retry-after-ms", "retry-after"}


_CONFLICT: Final = TransactionConflictError("another leader has changed it meanwhile")
_BASIN: Final = BasinDeletionPendingError("the basin is being deleted")
_STREAM: Final = StreamDeletionPendingError("the stream is being deleted")
CONFLICTS: Final = {
    "create-basin": _BASIN,
    "ensure-basin": _BASIN,
    "reconfigure-basin": _BASIN,
    "delete-basin": _CONFLICT,
    "create-stream": _BASIN,
    "get-stream-config": _STREAM,
    "ensure-stream": _BASIN,
    "reconfigure-stream": _BASIN,
    "delete-stream": _BASIN,
    "append": _STREAM,
    "read": _STREAM,
    "check-tail": _STREAM,
    "issue-access-token": _CONFLICT,
    "revoke-access-token": _CONFLICT,
    "set-default-location": _CONFLICT,
}
"""With what the cluster refuses what it is in the midst of changing. A basin that is being deleted
is listed and told of as long as it is there; a second deletion of a basin is no conflict."""


@of(409)
def test_409_occurs(operation: Operation) -> None:
    """Only where the cluster has a conflict to tell."""
    assert_told(operation, answer_of(operation, CONFLICTS[operation.name]), 409)


def test_every_listed_status_has_its_test() -> None:
    """No status is listed that nothing here brings about, and each operation has those of all."""
    statuses = {status for each in OPERATIONS for status in each.refusals}
    tested = {400, 401, 403, 404, 408, 409, 412, 413, 415, 416, 422, 429, 500, 501, 502, 503}
    assert statuses == tested
    assert {each.name for each in listing(409)} == set(CONFLICTS)
    assert {each.name for each in listing(422)} == set(INVALID)
    assert {each.name for each in listing(501)} == {"account-metrics"}
    for each in GUARDED:
        assert {400, 401, 403, 408, 429, 500, 502, 503} <= each.refusals
