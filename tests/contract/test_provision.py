"""Basins and streams: create, list, configuration, delete.

Rules: contract 2.1, 2.3, 2.4, 2.10, 9.1, 9.3, 9.7, 9.9 and 9.11.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract.client import Answer, Client

OWN_SERVER = True
"""It makes some seventy basins, which is more than a shared server is to carry."""

RFC3339_MS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SYSTEM_DEFAULTS = {
    "storage_class": "standard",
    "retention_policy": {"age": 604800},
    "timestamping": {"mode": "client-prefer", "uncapped": False},
    "delete_on_empty": {"min_age_secs": 0},
}


def test_a_created_basin_is_described_the_same_in_the_list(client: Client, basin: str) -> None:
    """Whole objects compare equal, created_at included; the outcome is in a header."""
    created = client.post("/v1/basins", {"basin": f"{basin}-b"})
    assert created.status == 201
    assert created.headers["s2-provision-result"] == "created"
    info = created.json
    assert RFC3339_MS.fullmatch(info["created_at"])
    assert info == {
        "name": f"{basin}-b",
        "basin": f"{basin}-b",
        "location": "local",
        "created_at": info["created_at"],
        "deleted_at": None,
        "state": "active",
    }
    listed = client.get(f"/v1/basins?prefix={basin}-b").json
    assert listed == {"basins": [info], "has_more": False}


def test_a_created_stream_is_described_the_same_in_the_list(client: Client, basin: str) -> None:
    """As with basins; deleted_at and cipher are null, not absent."""
    created = client.post("/v1/streams", {"stream": "s"}, {"svc-basin": basin})
    assert created.status == 201
    assert created.headers["s2-provision-result"] == "created"
    info = created.json
    assert RFC3339_MS.fullmatch(info["created_at"])
    assert (info["name"], info["deleted_at"], info["cipher"]) == ("s", None, None)
    listed = client.get("/v1/streams", {"svc-basin": basin}).json
    assert listed == {"streams": [info], "has_more": False}


def test_a_second_create_is_a_conflict(client: Client, basin: str, stream: str) -> None:
    """Creates without a token never match each other."""
    for answer in (
        client.post("/v1/basins", {"basin": basin}),
        client.post("/v1/streams", {"stream": stream}, {"svc-basin": basin}),
    ):
        assert answer.status == 409
        assert answer.json["code"] == "resource_already_exists"
        assert answer.headers["svc-side-effects"] == "none"


def test_delete_answers_202_without_a_body(client: Client, basin: str, stream: str) -> None:
    """Content-Length is 0, not a chunked nothing; what was deleted is refused or gone."""
    for path, headers in (("/v1/streams/s", {"svc-basin": basin}), (f"/v1/basins/{basin}", {})):
        answer = client.delete(path, headers)
        assert answer.status == 202
        assert answer.body == b""
        assert answer.headers["content-length"] == "0"
        assert "transfer-encoding" not in answer.headers
    assert client.read(basin, stream).status in (404, 409)


def test_pages_are_exact(client: Client, basin: str) -> None:
    """Byte order, exclusive start_after, has_more exactly when one more matches."""
    names = ["a", "a/1", "a/2", "b", "é", "日", "🎉"]
    for name in names:
        client.post("/v1/streams", {"stream": name}, {"svc-basin": basin})

    def page(query: str) -> tuple[list[str], bool]:
        answer = client.get(f"/v1/streams?{query}", {"s2-basin": basin})
        assert answer.status == 200, answer
        return [info["name"] for info in answer.json["streams"]], answer.json["has_more"]

    assert page("") == (names, False)
    assert page("limit=6") == (names[:6], True)
    assert page("limit=7") == (names, False)
    assert page("limit=0") == (names, False)
    assert page("limit=1001") == (names, False)
    assert page("prefix=a%2F") == (["a/1", "a/2"], False)
    assert page("prefix=a%2F&limit=1") == (["a/1"], True)
    assert page("prefix=a&start_after=a%2F1") == (["a/2"], False)
    assert page("start_after=%C3%A9&limit=1") == (["日"], True)
    assert page("prefix=b&start_after=a") == (["b"], False)
    assert page("prefix=..") == ([], False)


def test_start_after_before_prefix_is_refused_where_marked(client: Client, basin: str) -> None:
    """Positively seed: 400. Unmarked: the ranges are intersected."""
    refused = client.get("/v1/streams?prefix=b&start_after=a", {"svc-basin": basin})
    assert (refused.status, refused.json["error"]) == (400, "validation_error")
    assert client.get("/v1/basins?prefix=b&start_after=a").status == 200


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "limit=1.0",
        "limit=",
        "prefix=UPPER",
        "start_after=-a",
        "prefix=a&prefix=b",
    ],
)
def test_a_bad_page_is_refused(client: Client, query: str) -> None:
    """Numbers are numbers, and prefixes of basins are beginnings of names."""
    answer = client.get(f"/v1/basins?{query}")
    assert (answer.status, answer.json["code"]) == (400, "bad_query")


@pytest.mark.parametrize(
    "name",
    ["", "short", "x" * 49, "UPPERCASE", "-leading", "trailing-", "with_underscore", "é" * 8],
)
def test_a_basin_name_is_checked_everywhere(client: Client, name: str) -> None:
    """In a body it is bad_json, in a path bad_path; where there is none the path is unknown."""
    answer = client.post("/v1/basins", {"basin": name})
    assert (answer.status, answer.json["code"]) == (400, "bad_json")
    if name.isascii():
        answer = client.get(f"/v1/basins/{name}")
        expected = (400, "bad_path") if name else (404, "not_found")
        assert (answer.status, answer.json["code"]) == expected


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 513, "é" * 257])
def test_a_stream_name_is_checked(client: Client, basin: str, name: str) -> None:
    """1 to 512 bytes, not dots alone."""
    answer = client.post("/v1/streams", {"stream": name}, {"svc-basin": basin})
    assert (answer.status, answer.json["code"]) == (400, "bad_json")


def test_a_stream_inherits_each_member_by_itself(client: Client) -> None:
    """Own, else the basin's default, else the system's; all four are always present."""
    default = {"retention_policy": {"infinite": {}}, "timestamping": {"uncapped": True}}
    basin = "inherits-members"
    created = client.post(
        "/v1/basins", {"basin": basin, "config": {"default_stream_config": default}}
    )
    assert created.status == 201, created
    own = {"storage_class": "express", "timestamping": {"mode": "arrival"}}
    for name, config in (("own", own), ("bare", None)):
        body: dict[str, Any] = {"stream": name, "config": config}
        assert client.post("/v1/streams", body, {"svc-basin": basin}).status == 201
    assert client.get("/v1/streams/own", {"svc-basin": basin}).json == {
        "storage_class": "express",
        "retention_policy": {"infinite": {}},
        "timestamping": {"mode": "arrival", "uncapped": True},
        "delete_on_empty": {"min_age_secs": 0},
    }
    assert client.get("/v1/streams/bare", {"svc-basin": basin}).json == {
        **SYSTEM_DEFAULTS,
        "retention_policy": {"infinite": {}},
        "timestamping": {"mode": "client-prefer", "uncapped": True},
    }
    client.delete(f"/v1/basins/{basin}")


def test_a_basin_configuration_comes_back_as_it_was_given(client: Client, basin: str) -> None:
    """Unset members are null, booleans are always there, storage_class is reported."""
    assert client.get(f"/v1/basins/{basin}").json == {
        "default_stream_config": None,
        "stream_cipher": None,
        "create_stream_on_append": False,
        "create_stream_on_read": False,
        "storage_class": "standard",
    }
    config = {
        "default_stream_config": {
            "storage_class": "express",
            "retention_policy": {"age": 60},
            "timestamping": {"mode": None, "uncapped": False},
            "delete_on_empty": {"min_age_secs": 5},
        },
        "stream_cipher": None,
        "create_stream_on_append": True,
        "create_stream_on_read": False,
    }
    name = f"{basin}-full"
    assert client.post("/v1/basins", {"basin": name, "config": config}).status == 201
    assert client.get(f"/v1/basins/{name}").json == {**config, "storage_class": "express"}


def test_the_storage_class_of_a_basin_is_an_alias(client: Client, basin: str) -> None:
    """It stands for the default of streams, and loses against that member itself."""
    for suffix, config, expected in (
        ("a", {"storage_class": "express"}, "express"),
        (
            "b",
            {"storage_class": "express", "default_stream_config": {"storage_class": "standard"}},
            "standard",
        ),
    ):
        name = f"{basin}-{suffix}"
        assert client.post("/v1/basins", {"basin": name, "config": config}).status == 201
        client.post("/v1/streams", {"stream": "s"}, {"svc-basin": name})
        assert client.get(f"/v1/basins/{name}").json["storage_class"] == expected
        found = client.get("/v1/streams/s", {"svc-basin": name}).json
        assert found["storage_class"] == expected


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"storage_class": "glacier"}, "invalid"),
        ({"retention_policy": {"age": 0}}, "invalid"),
        ({"retention_policy": {}}, "bad_json"),
        ({"retention_policy": {"age": 1, "infinite": {}}}, "bad_json"),
        ({"retention_policy": {"age": -1}}, "bad_json"),
        ({"retention_policy": {"age": 2**64}}, "bad_json"),
        ({"retention_policy": {"age": "1"}}, "bad_json"),
        ({"retention_policy": "infinite"}, "bad_json"),
        ({"timestamping": {"mode": "server"}}, "bad_json"),
        ({"timestamping": {"uncapped": "yes"}}, "bad_json"),
        ({"delete_on_empty": {"min_age_secs": -1}}, "bad_json"),
        ([], "bad_json"),
    ],
)
def test_a_bad_stream_configuration_is_refused(
    client: Client, basin: str, config: Any, code: str
) -> None:
    """Types are bad_json, meanings invalid; both 400 here; nothing is created."""
    answer = client.post("/v1/streams", {"stream": "s", "config": config}, {"svc-basin": basin})
    assert (answer.status, answer.json["code"]) == (400, code)
    assert client.get("/v1/streams", {"svc-basin": basin}).json["streams"] == []


def test_an_append_creates_the_stream_where_the_basin_says_so(client: Client, basin: str) -> None:
    """create_stream_on_append; without it the stream is missing."""
    name = f"{basin}-auto"
    client.post("/v1/basins", {"basin": name, "config": {"create_stream_on_append": True}})
    assert client.append(name, "made", b"x").status == 200
    assert client.append(basin, "made", b"x").status == 404


def test_health_version_and_metrics_are_served(client: Client) -> None:
    """Plain text for probes, JSON for the version, Prometheus text for scrapes."""
    for path in ("/health", "/ping"):
        answer = client.get(path)
        assert (answer.status, answer.body) == (200, b"OK")
    assert client.get("/livez").status == 200
    assert b"[+]not_draining ok" in client.get("/readyz?verbose").body
    assert set(client.get("/version").json) >= {"name", "version"}
    exposed = client.get("/metrics")
    assert exposed.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"svc_http_requests_total" in exposed.body
    assert b'route="/health"' in exposed.body


@pytest.mark.parametrize(("header", "status"), [("svc-basin", 400), ("s2-basin", 422)])
def test_a_storage_class_is_an_open_string_that_a_location_has(
    client: Client, basin: str, header: str, status: int
) -> None:
    """Wherever one can be named, of a stream and of a basin's default; the words that there are
    stand in the message, and nothing is made or changed. The alias is none in S2, and ignored."""
    class_of_default = {"default_stream_config": {"storage_class": "glacier"}}

    def ask(method: str, path: str, body: Any) -> Answer:
        about = f"{basin}-no" if path.endswith("-no") else basin
        named = {header: about, "content-type": "application/json"}
        return client.request(method, path, json.dumps(body).encode(), named)

    asked: list[tuple[str, str, Any]] = [
        ("POST", "/v1/streams", {"stream": "s", "config": {"storage_class": "glacier"}}),
        ("PUT", "/v1/streams/s", {"storage_class": ""}),
        ("PUT", "/v1/streams/s", {"config": {"storage_class": "EXPRESS"}}),
        ("POST", "/v1/basins", {"basin": f"{basin}-no", "config": class_of_default}),
        ("PUT", f"/v1/basins/{basin}-no", {"config": class_of_default}),
        ("PATCH", f"/v1/basins/{basin}", class_of_default),
    ]
    alias: dict[str, Any] = {"storage_class": "glacier"}
    aliased: list[tuple[str, str, Any]] = [
        ("POST", "/v1/basins", {"basin": f"{basin}-no", "config": alias}),
        ("PUT", f"/v1/basins/{basin}-no", {"config": alias}),
        ("PATCH", f"/v1/basins/{basin}", alias),
    ]
    for method, path, body in (*asked, *(aliased if header == "svc-basin" else [])):
        answer = ask(method, path, body)
        assert (answer.status, answer.json["code"]) == (status, "invalid"), (method, path, answer)
        assert "`express` or `standard`" in answer.json["message"]
        assert answer.headers["svc-side-effects"] == "none"
    assert client.get(f"/v1/basins/{basin}-no", {header: f"{basin}-no"}).status == 404
    assert client.get("/v1/streams", {header: basin}).json["streams"] == []
    assert client.get(f"/v1/basins/{basin}", {header: basin}).json["default_stream_config"] is None
    if header == "s2-basin":
        for method, path, body in aliased:
            answer = ask(method, path, body)
            assert answer.status in (200, 201), (method, path, answer)
