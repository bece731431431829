"""What pages of other origins can do in a browser. Rules: contract 6.11 and 14.6."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.access import Account
from tests.contract.client import Client, EventStream, b64

SHARES_A_BASIN = True
PAGE = {"origin": "http://localhost:3000"}
DIALECTS = ("svc-basin", "s2-basin")


def preflight(client: Client, path: str, method: str = "GET") -> Any:
    asked = {
        **PAGE,
        "access-control-request-method": method,
        "access-control-request-headers": "authorization, s2-basin",
    }
    return client.request("OPTIONS", path, None, asked)


# -- leave for pages


def test_a_preflight_holds_for_two_hours_and_for_its_page(client: Client) -> None:
    """So that not every request of a page is two, and no cache mixes up pages."""
    answer = preflight(client, "/v1/streams/s/records")
    assert answer.headers["access-control-max-age"] == "7200"
    varying = set(answer.headers["vary"].split(", "))
    assert {"origin", "access-control-request-method", "access-control-request-headers"} <= varying


def test_a_preflight_of_an_unknown_path_is_granted_and_the_path_then_is_404(
    client: Client, guarded: Account
) -> None:
    """Else no page could tell a misspelt path from a lost connection; tokens or not."""
    for asked in (client, guarded.client):
        answer = preflight(asked, "/v1/strems", "PATCH")
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == PAGE["origin"]
        assert answer.headers["access-control-allow-methods"] == "PATCH"
        assert answer.headers["access-control-allow-headers"] == "authorization, s2-basin"
    found = guarded.ask("GET", "/v1/strems", **PAGE)
    assert (found.status, found.json["code"]) == (404, "not_found")
    assert found.headers["access-control-allow-origin"] == PAGE["origin"]
    assert guarded.ask("OPTIONS", "/v1/strems", secret=None).status == 401


def test_answers_to_pages_depend_on_the_origin_and_show_their_headers(
    client: Client, basin: str
) -> None:
    """`vary` also where the answer is an error; what a client goes by can be read by a page."""
    for path in ("/v1/streams", "/v1/streams/none", "/health"):
        answer = client.get(path, {"svc-basin": basin, **PAGE})
        assert "origin" in answer.headers["vary"].split(", ")
        shown = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {"retry-after", "retry-after-ms", "etag", "x-request-id"} <= shown


# -- the format as a parameter


@pytest.mark.parametrize("named", DIALECTS)
@pytest.mark.parametrize(
    ("word", "shown"),
    [("utf8", "é"), ("raw", "é"), ("base64", b64("é")), ("Json-Binsafe", b64("é"))],
)
def test_a_read_says_its_format_in_the_query(
    client: Client, endpoint: str, basin: str, stream: str, named: str, word: str, shown: str
) -> None:
    """For those that send no header: unary and as events, with the words of the header."""
    client.append(basin, stream, "é")
    path = f"/v1/streams/{stream}/records?seq_num=0&count=1&format={word}"
    assert client.get(path, {named: basin}).json["records"][0]["body"] == shown
    with EventStream(endpoint, basin, path, {named: basin}) as events:
        batch = next(event for event in events if event.name == "batch")
    assert batch.json["records"][0]["body"] == shown


def test_a_format_that_is_unknown_or_said_in_two_ways_is_refused(
    client: Client, basin: str, stream: str
) -> None:
    """The query is to blame; the same word twice is fine, and strict requests know it."""
    client.append(basin, stream, b"x")
    unknown = client.read(basin, stream, "format=utf16")
    assert (unknown.status, unknown.json["code"]) == (400, "bad_query")
    assert "`utf8`" in unknown.json["message"] and "`utf16`" in unknown.json["message"]
    two = client.read(basin, stream, "format=utf8", **{"svc-format": "base64"})
    assert (two.status, two.json["code"]) == (400, "bad_query")
    same = client.read(basin, stream, "format=utf8", **{"s2-format": "raw", "svc-strict": "true"})
    assert same.json["records"][0]["body"] == "x"
    records = f"/v1/streams/{stream}/records?format=utf8"
    strict = {"svc-basin": basin, "svc-strict": "true"}
    on_append = client.post(records, {"records": [{"body": ""}]}, strict)
    assert (on_append.status, on_append.json["code"]) == (400, "bad_query")
