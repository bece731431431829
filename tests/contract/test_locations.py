"""Locations: which there are, the default, and those of basins, on the wire.

Rules: contract 2.11 and 13.1.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc_cluster.http.message import BytesBody, Request
from svc_cluster.model.location import Location
from tests.contract.client import Answer, Client
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import body_of, make_app

_NUMBERS = itertools.count()
S2 = {"user-agent": "s2-sdk-rust/1"}
SEED = {"svc-format": "utf8"}
LOCAL = {
    "name": "local",
    "is_private": False,
    "storage_classes": ["express", "standard"],
    "default_storage_class": "standard",
}


def send(
    client: Client, method: str, path: str, body: Any, headers: dict[str, str] | None = None
) -> Answer:
    content = {"content-type": "application/json"}
    return client.request(method, path, json.dumps(body).encode(), {**content, **(headers or {})})


@pytest.fixture
def fresh() -> str:
    return f"located-{next(_NUMBERS):05d}"


def test_there_is_one_and_it_is_the_default(client: Client) -> None:
    """An array without an envelope; the default is in it."""
    listed = client.request("GET", "/v1/locations")
    assert (listed.status, listed.json) == (200, [LOCAL])
    default = client.request("GET", "/v1/locations/default")
    assert (default.status, default.json) == (200, LOCAL)


@pytest.mark.parametrize(("headers", "default"), [(S2, "express"), (SEED, "standard")])
def test_a_location_tells_the_storage_classes_that_streams_can_have(
    client: Client, fresh: str, headers: dict[str, str], default: str
) -> None:
    """Each that is told is taken, another is not, and a stream that names none has the default that
    is told, in either dialect."""
    told = client.request("GET", "/v1/locations/default", b"", headers).json
    assert told["default_storage_class"] == default
    assert client.request("GET", "/v1/locations", b"", headers).json == [told]
    named = headers | {"svc-basin" if headers is SEED else "s2-basin": fresh}
    assert send(client, "POST", "/v1/basins", {"basin": fresh}, headers).status == 201
    assert send(client, "POST", "/v1/streams", {"stream": "unnamed"}, named).status == 201
    for word in told["storage_classes"]:
        body = {"stream": word, "config": {"storage_class": word}}
        assert send(client, "POST", "/v1/streams", body, named).status == 201
    other = {"stream": "other", "config": {"storage_class": "glacier"}}
    refused = send(client, "POST", "/v1/streams", other, named)
    assert (refused.status, refused.json["code"]) == (422 if headers is S2 else 400, "invalid")
    for stream, word in (("unnamed", default), ("express", "express"), ("standard", "standard")):
        config = client.request("GET", f"/v1/streams/{stream}", b"", named).json
        assert config["storage_class"] == word


def test_the_default_is_chosen_by_a_bare_string(client: Client) -> None:
    """The same again is fine, and 200 shows the new default."""
    for _ in range(2):
        answer = client.request(
            "PUT", "/v1/locations/default", b'"local"', {"content-type": "application/json"}
        )
        assert (answer.status, answer.json) == (200, LOCAL)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"name":"local"}', "application/json"),
        (b"local", "application/json"),
        (b"null", "application/json"),
        (b"", "application/json"),
        (b'["local"]', "application/json"),
        (b'""', "application/json"),
        (b'"a b"', "application/json"),
        (b'"a/b"', "application/json"),
        (b'"caf\xc3\xa9"', "application/json"),
        (b'"' + b"x" * 65 + b'"', "application/json"),
        (b'"local"', "text/plain"),
    ],
)
def test_what_is_no_name_is_malformed(client: Client, body: bytes, content_type: str) -> None:
    """400 bad_json in both dialects; the default stays."""
    for dialect in (S2, SEED):
        answer = client.request(
            "PUT", "/v1/locations/default", body, {"content-type": content_type, **dialect}
        )
        assert (answer.status, answer.json["code"]) == (400, "bad_json"), answer
        assert answer.headers["svc-side-effects"] == "none"
    assert client.request("GET", "/v1/locations/default").json["name"] == "local"


@pytest.mark.parametrize("name", ["elsewhere", "Local", "x" * 64, "aws:eu-1.a"])
def test_an_unknown_name_is_invalid(client: Client, fresh: str, name: str) -> None:
    """422 where that is the dialect's word, else 400, and nothing is made or chosen."""
    for dialect, status in ((S2, 422), (SEED, 400)):
        for method, path, body in (
            ("PUT", "/v1/locations/default", name),
            ("POST", "/v1/basins", {"basin": fresh, "location": name}),
            ("PUT", f"/v1/basins/{fresh}", {"location": name}),
        ):
            answer = send(client, method, path, body, dialect)
            assert (answer.status, answer.json["code"]) == (status, "invalid"), answer
            assert answer.json["may_have_taken_effect"] is False
    assert client.request("GET", f"/v1/basins/{fresh}").status == 404
    assert client.request("GET", "/v1/locations/default").json["name"] == "local"


def test_a_malformed_name_makes_no_basin(client: Client, fresh: str) -> None:
    """A location that breaks the rules of names is an error of the JSON."""
    for name in ("", "a b", "x" * 65, 7, ["local"]):
        for method, path, body in (
            ("POST", "/v1/basins", {"basin": fresh, "location": name}),
            ("PUT", f"/v1/basins/{fresh}", {"location": name}),
        ):
            answer = send(client, method, path, body)
            assert (answer.status, answer.json["code"]) == (400, "bad_json"), (name, answer)
    assert client.request("GET", f"/v1/basins/{fresh}").status == 404


def test_a_basin_tells_where_it_is(client: Client, fresh: str) -> None:
    """When it is created, listed and ensured; null means absent."""
    made = client.post("/v1/basins", {"basin": fresh, "location": None})
    assert (made.status, made.json["location"]) == (201, "local")
    listed = client.request("GET", f"/v1/basins?prefix={fresh}").json["basins"]
    assert listed == [made.json]
    for body in ({}, {"location": None}, {"location": "local"}):
        again = send(client, "PUT", f"/v1/basins/{fresh}", body)
        assert (again.status, again.json) == (200, made.json)


def test_a_repeated_creation_is_one_with_its_location(client: Client, fresh: str) -> None:
    """With the same token, the same creation again is `noop`; another location makes it another."""
    token = {"s2-request-token": "t-1"}
    for result in ("created", "noop"):
        made = send(client, "POST", "/v1/basins", {"basin": fresh}, token)
        assert (made.status, made.headers["s2-provision-result"]) == (201, result)
    other = send(client, "POST", "/v1/basins", {"basin": fresh, "location": "local"}, token)
    assert (other.status, other.json["code"]) == (409, "resource_already_exists")


# -- several of them, without a cluster: the backend here holds what the catalog does

OFFERED = (Location("eu-1"), Location("us:2.b"), Location("lab", is_private=True))
Ask = Callable[..., Awaitable[tuple[int, Any]]]


def _with_three(test: Callable[[Ask], Awaitable[None]]) -> None:
    async def main() -> None:
        app, _ = make_app(MemoryBackend(SimClock(asyncio.get_running_loop()), OFFERED))

        async def ask(method: str, path: str, body: str = "") -> tuple[int, Any]:
            headers = [*S2.items(), *([("content-type", "application/json")] if body else [])]
            request = Request(method, path, "", headers, BytesBody(body.encode()))
            response = await app.handle(request)
            return response.status, json.loads(body_of(response))

        await test(ask)

    run(lambda loop: main())


def test_the_default_is_that_of_new_basins_and_of_no_other() -> None:
    """Chosen, it holds for basins made from then on that name none; those that exist stay, and
    cannot be moved."""

    async def test(ask: Ask) -> None:
        status, listed = await ask("GET", "/v1/locations")
        assert status == 200
        assert [(each["name"], each["is_private"]) for each in listed] == [
            ("eu-1", False),
            ("us:2.b", False),
            ("lab", True),
        ]
        assert await ask("GET", "/v1/locations/default") == (200, listed[0])
        assert (await ask("POST", "/v1/basins", '{"basin":"first-basin"}'))[1]["location"] == "eu-1"
        assert await ask("PUT", "/v1/locations/default", '"lab"') == (200, listed[2])
        assert await ask("GET", "/v1/locations/default") == (200, listed[2])
        assert (await ask("PUT", "/v1/basins/second-basin", "{}"))[1]["location"] == "lab"
        named = '{"basin":"third-basin","location":"us:2.b"}'
        assert (await ask("POST", "/v1/basins", named))[1]["location"] == "us:2.b"
        assert (await ask("PUT", "/v1/basins/first-basin", "{}"))[1]["location"] == "eu-1"
        for name in ("lab", "us:2.b"):
            status, answer = await ask("PUT", "/v1/basins/first-basin", f'{{"location":"{name}"}}')
            assert (status, answer["code"]) == (422, "invalid")

    _with_three(test)
