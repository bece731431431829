"""NUL in names: refused wherever something would be made or looked for by it, in both dialects.

Rules: contract 2.2 and 2.4.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.client import Answer, Client

SHARES_A_BASIN = True

JSON = {"content-type": "application/json"}
NAMES = ["\0", "a\0b", "a\0", "\0a"]
SCOPE = {"ops": ["read"]}


def check(answer: Answer, code: str) -> None:
    """400 with the code of the place, no effect, and the rule in the sentence."""
    assert answer.status == 400, answer
    told = answer.json
    assert (told["code"], told["error"]) == (code, "validation_error")
    assert "NUL" in told["message"] or "name" in told["message"]
    if "may_have_taken_effect" in told:
        assert told["may_have_taken_effect"] is False


def everything(client: Client, basin: str) -> tuple[Any, Any]:
    streams = client.get("/v1/streams", {"svc-basin": basin}).json
    return streams, client.get("/v1/access-tokens").json


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_nul_is_refused_wherever_it_would_make_something(
    client: Client, basin: str, dialect: str, name: str
) -> None:
    """In a path, in JSON, with a body of JSON or protobuf, by a session; nothing is there after."""
    before = everything(client, basin)
    here = {f"{dialect}-basin": basin}
    raw = quote(name, safe="")
    check(client.post("/v1/streams", {"stream": name}, here), "bad_json")
    check(client.post("/v1/access-tokens", {"id": name, "scope": SCOPE}, here), "bad_json")
    for part in ("exact", "prefix"):
        for where in ("streams", "access_tokens"):
            body = {"id": "nul", "scope": {**SCOPE, where: {part: name}}}
            check(client.post("/v1/access-tokens", body, here), "bad_json")
    for method in ("PUT", "PATCH"):
        answer = client.request(method, f"/v1/streams/{raw}", b"{}", {**here, **JSON})
        check(answer, "bad_path")
    session = {"svc": "svcs/proto", "s2": "s2s/proto"}[dialect]
    for kind in ("application/json", "application/protobuf", session):
        answer = client.request(
            "POST",
            f"/v1/streams/{raw}/records",
            b'{"records":[{}]}' if kind == "application/json" else b"\x0a\x00",
            {**here, "content-type": kind},
        )
        check(answer, "bad_path")
    assert everything(client, basin) == before


def test_the_paths_of_the_seed_dialect_refuse_it_too(client: Client, basin: str) -> None:
    """The basin and the stream both in the path."""
    path = f"/v1/basins/{basin}/streams/a%00b/append"
    check(client.post(path, {"records": [{}]}), "bad_path")


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize("parameter", ["prefix", "start_after"])
@pytest.mark.parametrize("path", ["/v1/streams", "/v1/access-tokens", "/v1/basins"])
def test_pages_are_not_asked_for_by_it(
    client: Client, basin: str, dialect: str, parameter: str, path: str
) -> None:
    """As a prefix, and as the name behind which a page begins."""
    answer = client.get(f"{path}?{parameter}=a%00b", {f"{dialect}-basin": basin})
    check(answer, "bad_query")


@pytest.mark.parametrize("dialect", ["svc", "s2"])
def test_what_does_not_exist_is_not_made_by_looking_for_it(client: Client, dialect: str) -> None:
    """In a basin that makes streams by itself: reading is 404, as deleting is."""
    basin = f"nul-makes-{dialect}-{'h2' if 'Http2' in type(client.connection).__name__ else 'h1'}"
    config = {"create_stream_on_append": True, "create_stream_on_read": True}
    assert client.post("/v1/basins", {"basin": basin, "config": config}).status == 201
    here = {f"{dialect}-basin": basin}
    for path in ("", "/records?seq_num=0", "/records/tail"):
        assert client.get(f"/v1/streams/a%00b{path}", here).status == 404
    assert client.delete("/v1/streams/a%00b", here).status == 404
    assert client.delete("/v1/access-tokens/a%00b", here).status == 404
    assert client.get("/v1/streams", here).json == {"streams": [], "has_more": False}
