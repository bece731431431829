"""Browsers and a gateway without authentication: rebound names, pages of other origins.

Rules: contract 1.3, 14.4 and 14.5.
"""

from __future__ import annotations

import json

import pytest

from tests.contract.access import Account
from tests.contract.client import Client
from tests.contract.test_dialects import to_host

EVIL = "rebound.example"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/basins"),
        ("POST", "/v1/basins"),
        ("OPTIONS", "/v1/basins"),
        ("GET", "/metrics"),
        ("GET", "/health"),
        ("GET", "/nowhere"),
    ],
)
def test_a_foreign_host_is_refused_everywhere(endpoint: str, method: str, path: str) -> None:
    """By `Host` and by `:authority`, with what to set, before anything is told or done."""
    answer = to_host(endpoint, EVIL, method, path, {"origin": f"http://{EVIL}"})
    assert (answer.status, answer.json["code"]) == (403, "permission_denied")
    assert "public_hosts" in answer.json["message"]
    assert answer.json["may_have_taken_effect"] is False
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_basin_s_name_in_front_of_a_foreign_host_does_not_help(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """`b` and any domain selects a basin, and is everybody's to own."""
    path = f"/v1/streams/{stream}/records/tail"
    assert to_host(endpoint, f"{basin}.b.{EVIL}", "GET", path).status == 403
    assert to_host(endpoint, f"{basin}.b.localhost", "GET", path).status == 200


def test_a_page_of_another_origin_changes_nothing_and_reads_nothing(
    client: Client, basin: str
) -> None:
    """A write without preflight (no content-type, all in the path) is refused; a preflight and a
    read get no leave."""
    page = {"origin": "https://page.example"}
    answer = client.post("/v1/basins", {"basin": "made-by-a-page"}, page)
    assert (answer.status, answer.json["code"]) == (403, "permission_denied")
    assert answer.headers["svc-side-effects"] == "none"
    assert client.get("/v1/basins/made-by-a-page").status == 404
    assert client.delete(f"/v1/basins/{basin}", page).status == 403
    assert client.get(f"/v1/basins/{basin}").status == 200
    asked = {**page, "access-control-request-method": "POST"}
    for answer in (
        client.request("OPTIONS", "/v1/basins", None, asked),
        client.get("/health", page),
    ):
        assert answer.status in (200, 204)
        assert not [name for name in answer.headers if name.startswith("access-control")]


FOREIGN_MARKS = [
    {"sec-fetch-site": "cross-site", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "Cross-Site"},
    {"sec-fetch-site": "same-origin", "origin": "https://page.example"},
    {"origin": "https://page.example"},
    {"origin": "null"},
]
OWN_MARKS = [
    {},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:3000"},
    {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:3000"},
]
ASKS = ["read", "read?seq_num=0", "tail"]


@pytest.fixture
def made_by_reading(client: Client, basin: str) -> str:
    """A basin in which a read makes its stream."""
    config = {"create_stream_on_read": True}
    marks = {"content-type": "application/json"}
    body = json.dumps(config).encode()
    assert client.request("PATCH", f"/v1/basins/{basin}", body, marks).status == 200
    return basin


@pytest.mark.parametrize("marks", FOREIGN_MARKS, ids=str)
def test_a_page_of_another_origin_makes_no_stream_by_reading(
    client: Client, made_by_reading: str, marks: dict[str, str]
) -> None:
    """What a page embeds is fetched without being asked for; the streams that it names stay
    missing, and one that is there is answered as ever."""
    streams = f"/v1/basins/{made_by_reading}/streams"
    for number, ask in enumerate(ASKS):
        for method in ("GET", "HEAD"):
            answer = client.request(method, f"{streams}/page-{number}/{ask}", None, marks)
            assert answer.status == 404, (method, ask)
    assert client.get(streams).json["streams"] == []
    assert client.get(f"{streams}/there/tail").status == 200
    assert client.get(f"{streams}/there/tail", marks).status == 200
    assert [each["name"] for each in client.get(streams).json["streams"]] == ["there"]


@pytest.mark.parametrize("marks", OWN_MARKS, ids=str)
def test_own_pages_and_clients_that_are_no_browser_make_streams_by_reading(
    client: Client, made_by_reading: str, marks: dict[str, str]
) -> None:
    """A page that this machine serves says so by its origin."""
    streams = f"/v1/basins/{made_by_reading}/streams"
    assert client.get(f"{streams}/made/tail", marks).status == 200
    assert [each["name"] for each in client.get(streams).json["streams"]] == ["made"]


def test_with_authentication_hosts_and_origins_are_anybody_s(guarded: Account) -> None:
    """A page needs the token there; what carries it may come by any name."""
    answer = guarded.ask("GET", "/v1/basins", origin="https://page.example", host="any.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
