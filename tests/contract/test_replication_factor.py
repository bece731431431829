"""How many replicas a basin is made with, on the wire.

Rule: contract 9.4. The cluster behind these tests has one node; simulation has larger ones.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.client import Answer, Client

S2 = {"user-agent": "s2-sdk-rust/1"}
SEED = {"svc-format": "utf8"}
DIALECTS = pytest.mark.parametrize("headers", [S2, SEED], ids=["s2", "seed"])


def made(client: Client, name: str, factor: Any, headers: dict[str, str]) -> Answer:
    body = {"basin": name, "replication_factor": factor}
    return client.post("/v1/basins", body, headers)


def put(client: Client, name: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
    headers = {"content-type": "application/json", **headers}
    return client.request("PUT", f"/v1/basins/{name}", json.dumps(body).encode(), headers)


def ensured(client: Client, name: str, factor: Any, headers: dict[str, str]) -> Answer:
    return put(client, name, {"replication_factor": factor}, headers)


def is_there(client: Client, name: str) -> bool:
    found = client.get(f"/v1/basins?prefix={name}").json["basins"]
    return name in [basin["name"] for basin in found]


@DIALECTS
@pytest.mark.parametrize("ask", [made, ensured])
@pytest.mark.parametrize("factor", [1, None])
def test_a_basin_is_made_with_as_many_replicas_as_it_asks_for(
    client: Client, basin: str, headers: dict[str, str], ask: Any, factor: int | None
) -> None:
    """Null is as if nothing were said. The answer is as any other."""
    name = f"{basin}-x"
    answer = ask(client, name, factor, headers)
    assert answer.status == 201, answer
    assert answer.json["name"] == name and "replication_factor" not in answer.json
    assert is_there(client, name)


@DIALECTS
@pytest.mark.parametrize("ask", [made, ensured])
@pytest.mark.parametrize("factor", [0, 2, 3, 4, 5, 7, -1, 2**40])
def test_a_number_that_cannot_be_had_makes_nothing(
    client: Client, basin: str, headers: dict[str, str], ask: Any, factor: int
) -> None:
    """3 and 5 are for clusters of as many nodes; the others no basin has."""
    name = f"{basin}-x"
    answer = ask(client, name, factor, headers)
    assert (answer.status, answer.json["code"]) == (422 if headers is S2 else 400, "invalid")
    assert answer.headers["svc-side-effects"] == "none"
    assert not is_there(client, name)


@pytest.mark.parametrize("factor", ["3", 3.5, True, [3], {}])
def test_what_is_no_number_is_malformed(client: Client, basin: str, factor: Any) -> None:
    for ask in (made, ensured):
        answer = ask(client, f"{basin}-x", factor, S2)
        assert (answer.status, answer.json["code"]) == (400, "bad_json")
    assert not is_there(client, f"{basin}-x")


@DIALECTS
def test_a_basin_that_is_there_keeps_its_replicas(
    client: Client, basin: str, headers: dict[str, str]
) -> None:
    """Ensured with the same number it is fine, with another one nothing is changed."""
    name = f"{basin}-x"
    assert made(client, name, 1, headers).status == 201
    config = client.get(f"/v1/basins/{name}").json
    assert ensured(client, name, 1, headers).status == 200
    body = {"replication_factor": 3, "config": {"create_stream_on_append": True}}
    refused = put(client, name, body, headers)
    assert (refused.status, refused.json["code"]) == (422 if headers is S2 else 400, "invalid")
    assert client.get(f"/v1/basins/{name}").json == config


def test_a_creation_is_repeated_with_the_same_number_alone(client: Client, basin: str) -> None:
    """By its token it is known again; with another number it is another request."""
    name, headers = f"{basin}-x", {**S2, "s2-request-token": f"token-{basin}"}
    assert made(client, name, 1, headers).headers["s2-provision-result"] == "created"
    again = made(client, name, 1, headers)
    assert (again.status, again.headers["s2-provision-result"]) == (201, "noop")
    for factor in (3, None):
        other = made(client, name, factor, headers)
        assert (other.status, other.json["code"]) == (409, "resource_already_exists")
