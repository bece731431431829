"""`x-request-id` in and out, on every kind of answer. Rule: contract 3.10."""

from __future__ import annotations

import re

import pytest

from tests.contract.client import Answer, Client, EventStream, b64, raw_exchange
from tests.contract.conftest import ALSO_BY_LIBRARY

SHARES_A_BASIN = True
pytestmark = ALSO_BY_LIBRARY
FRESH = re.compile("[0-9a-f]{16}")


def answers(client: Client, basin: str, stream: str, dialect: str, name: str) -> list[Answer]:
    """A success, a write, refusals of several parts, a probe and a preflight."""
    named = {f"{dialect}-basin": basin, "x-request-id": name}
    records = f"/v1/streams/{stream}/records"
    protobuf = {**named, "accept": "application/protobuf"}
    return [
        client.get(records + "?seq_num=0", named),
        client.get(records + "?seq_num=0&clamp=true", protobuf),
        client.post(records, {"records": [{"body": b64("x")}]}, named),
        client.post(records, b"{", named),
        client.post(records, {"records": [{}], "match_seq_num": 99}, named),
        client.get("/v1/streams/none", named),
        client.get("/nowhere", named),
        client.request("PUT", "/v1/streams", b"", named),
        client.get("/health", named),
        client.request("OPTIONS", "/v1/basins", None, {"origin": "http://localhost", **named}),
    ]


@pytest.mark.parametrize("dialect", ["svc", "s2"])
def test_an_id_is_given_back(client: Client, basin: str, stream: str, dialect: str) -> None:
    """As it came, also with refusals; a page may read it."""
    client.append(basin, stream, b"x")
    for name in ("5f2c-1:2/3=+._", "a" * 128):
        found = answers(client, basin, stream, dialect, name)
        assert [answer.headers["x-request-id"] for answer in found] == [name] * len(found)
        assert "x-request-id" in found[-1].headers["access-control-expose-headers"]


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize("given", ["", "a" * 129, "a b", '"}', "<script>", "é"])
def test_what_can_be_no_id_gets_a_fresh_one(
    client: Client, basin: str, stream: str, dialect: str, given: str
) -> None:
    """Each request its own."""
    found = answers(client, basin, stream, dialect, given)
    ids = {answer.headers["x-request-id"] for answer in found}
    assert len(ids) == len(found)
    assert all(FRESH.fullmatch(name) for name in ids)


def test_streams_and_requests_that_never_were_have_one(
    client: Client, endpoint: str, server: object, basin: str, stream: str
) -> None:
    """The head of a stream of events, and of the refusal of a malformed head."""
    path = f"/v1/streams/{stream}/records"
    with EventStream(endpoint, basin, path, {"x-request-id": "of-events"}) as events:
        assert dict(events.response.headers.items())["x-request-id"] == "of-events"
    if endpoint.startswith("http:"):
        told = raw_exchange(endpoint, b"GET / HTTP/1.1\r\n\r\n").decode("latin-1")
        assert re.search(r"(?im)^x-request-id: [0-9a-f]{16}\r$", told)
