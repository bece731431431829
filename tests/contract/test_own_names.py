"""Browsers and a gateway without authentication: rebound names, pages of other origins."""

from __future__ import annotations

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


def test_with_authentication_hosts_and_origins_are_anybody_s(guarded: Account) -> None:
    """A page needs the token there; what carries it may come by any name."""
    answer = guarded.ask("GET", "/v1/basins", origin="https://page.example", host="any.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
