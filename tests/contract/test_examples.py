"""The examples of the OpenAPI document: they fit its schemas, and the server answers so.

Rules: contract 3.1 and 4.10.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import pytest

from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.gateway.openapi.document import build_document
from tests.contract.client import Client
from tests.contract.conftest import Server

OWN_SERVER = True

DOCUMENT: Final = build_document(ROUTER.resources, "0.1.0")
OPERATIONS: Final[dict[str, tuple[str, str, Any]]] = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if "-at-" not in operation["operationId"]
}
NOT_SHOWN: Final = "binary"
"""The format of bodies that cannot stand in a document in JSON."""


def resolved(part: Any) -> Any:
    """What a reference refers to."""
    while "$ref" in part:
        found: Any = DOCUMENT
        for word in part["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        part = found
    return part


def assert_fits(value: Any, schema: Any, where: str) -> None:
    whole = {"allOf": [schema], "components": DOCUMENT["components"]}
    error = next(jsonschema_rs.validator_for(whole).iter_errors(value), None)
    assert error is None, f"{where}: {error}"


def bodies() -> Iterator[tuple[str, Any]]:
    """Every body of every request and answer of the document, with where it stands."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            for media, body in operation.get("requestBody", {"content": {}})["content"].items():
                yield f"{where} {media}", body
            for status, answer in operation["responses"].items():
                for media, body in resolved(answer).get("content", {}).items():
                    yield f"{where} {status} {media}", body


def test_every_body_has_an_example_that_fits_its_schema() -> None:
    """But those of bytes, whose schema says so and names the message that they are made of."""
    shown = 0
    for where, body in bodies():
        if resolved(body["schema"]).get("format") == NOT_SHOWN:
            assert resolved(body["schema"])["externalDocs"]["url"].endswith(".proto")
            continue
        examples = [resolved(one)["value"] for one in body.get("examples", {}).values()]
        examples += [body["example"]] if "example" in body else []
        assert examples, f"{where}: no example"
        for example in examples:
            assert_fits(example, body["schema"], where)
        shown += len(examples)
    assert shown > 500


def test_the_example_of_an_event_has_data_that_fits() -> None:
    """Each event's own schema, and the end behind them."""
    content = resolved(OPERATIONS["read"][2]["responses"]["200"])["content"]
    events = content["text/event-stream"]["example"].split("\n\n")
    assert events[1:] == ["data: [DONE]", ""]
    data = next(line for line in events[0].splitlines() if line.startswith("data: "))
    batch = json.loads(data.removeprefix("data: "))
    assert_fits(batch, {"$ref": "#/components/schemas/ReadBatch"}, "the event")
    assert batch == content["application/json"]["example"]


# -- the story that they tell, played to a server

_FLEETING: Final = (
    *("created_at", "timestamp", "access_token", "version", "location", "time", "request_id"),
)
"""Members whose values are another each time."""

STORY: Final = (
    ("create-basin", ""),
    ("reconfigure-basin", ""),
    ("ensure-basin", ""),
    ("reconfigure-basin", ""),
    ("get-basin-config", ""),
    ("list-basins", ""),
    ("create-stream", ""),
    ("ensure-stream", ""),
    ("reconfigure-stream", ""),
    ("get-stream-config", ""),
    ("list-streams", ""),
    ("append", ""),
    ("read", "?seq_num=0"),
    ("check-tail", ""),
    ("issue-access-token", ""),
    ("list-access-tokens", "?prefix=reader"),
    ("revoke-access-token", ""),
    ("list-locations", ""),
    ("set-default-location", ""),
    ("get-default-location", ""),
    ("get-cluster", ""),
    ("list-activity", ""),
    ("version", ""),
    ("health", ""),
    ("livez", ""),
    ("readyz", ""),
    ("account-metrics", "?set=active-basins&start={start}&end={end}"),
    ("basin-metrics", "?set=append-ops&start={start}&end={end}"),
    ("stream-metrics", "?set=storage&start={start}&end={end}"),
    ("metrics", ""),
    ("openapi", ""),
    ("docs", ""),
    ("console", ""),
    ("console-asset", ""),
    ("protocol", ""),
    ("delete-stream", ""),
    ("delete-basin", ""),
)
MADE_OF_MORE: Final = ("metrics", "openapi", "docs", "console", "console-asset", "protocol")
"""Of these the example is a part."""


def settled(value: Any) -> Any:
    """Without what is another each time, and of numbers that grow only that they are some."""
    if isinstance(value, list):
        return [settled(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: "…" if name in _FLEETING else settled(inside) for name, inside in value.items()}


@pytest.fixture(scope="module")
def asking(server: Server) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}") as client:
        yield client


def assert_answered(client: Client, name: str, query: str) -> None:
    """The operation is asked with the document's example, and answers as it says."""
    method, path, operation = OPERATIONS[name]
    headers = {"svc-basin": "orders-eu"} if path.startswith("/v1/streams") else {}
    sent: bytes | None = None
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        sent = json.dumps(content["example"]).encode()
        headers["content-type"] = "application/json"
    url = path.format(basin="orders-eu", stream="invoices", id="reader", asset="main.js") + query
    answer = client.request(method, url, sent, headers)
    described = operation["responses"][str(answer.status)]
    assert answer.status < 300, (name, answer)
    if "content" not in described:
        assert answer.body == b"", name
        return
    media = answer.headers["content-type"].partition(";")[0]
    example = described["content"][media]["example"]
    if media != "application/json":
        text = answer.body.decode()
        assert example in text if name in MADE_OF_MORE else example == text, name
        return
    assert_fits(answer.json, described["content"][media]["schema"], name)
    if name in MADE_OF_MORE:
        assert example.items() <= answer.json.items(), name
    elif name == "list-activity":
        assert settled(example["events"][0]) in settled(answer.json["events"]), name
    elif name.endswith("-metrics") or name == "get-cluster":
        assert shape(answer.json) == shape(example), name
    else:
        assert settled(answer.json) == settled(example), name


def shape(value: Any) -> Any:
    """The kinds of what there is, of a list those of its members, each once."""
    if isinstance(value, dict):
        return {name: shape(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(one)) for one in value})
    return type(value).__name__


def test_the_server_answers_as_the_examples_say(asking: Client) -> None:
    """The whole story, every operation of the document in it but read tickets: they are for who has
    a token, and this server asks nobody for one (test_read_tickets.py issues and shows them)."""
    assert {name for name, _ in STORY} == set(OPERATIONS) - {"issue-read-ticket"}
    now = int(time.time())
    for name, query in STORY:
        assert_answered(asking, name, query.format(start=now - 600, end=now + 30))
