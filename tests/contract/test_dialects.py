"""One interface, two dialects on one port: how they are told apart, and what differs.

Rules: contract 1.1, 1.2, 1.4 and 1.5.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.client import Answer, Client, b64
from tests.contract.h2_client import H2Session

PATH = "/v1/streams/s/records"
ONE = {"records": [{"body": b64("x")}]}
NOTHING: dict[str, Any] = {"records": []}

SEED = "svc-basin"
S2 = "s2-basin"


def to_host(
    endpoint: str, host: str, method: str, path: str, headers: dict[str, str] | None = None
) -> Answer:
    """A request without a body, to a host name that is not the server's own."""
    if endpoint.startswith("http:"):
        with Client(endpoint) as client:
            return client.request(method, path, None, {"host": host, **(headers or {})})
    parts = urlsplit(endpoint)
    assert parts.hostname is not None
    assert parts.port is not None
    session = H2Session(parts.hostname, parts.port)
    try:
        session.authority = host
        response = session.request(method, path, headers or {}, None)
        body = response.read()
        return Answer(response.status, dict(response.headers.items()), body)
    finally:
        session.close()


# -- statuses


@pytest.mark.parametrize(
    ("marks", "status"),
    [
        ({SEED: "BASIN"}, 400),
        ({SEED: "BASIN", S2: "BASIN"}, 400),
        ({SEED: "BASIN", "user-agent": "s2-sdk-python/0.13.0"}, 400),
        ({S2: "BASIN", "accept": "svcs/proto"}, 400),
        ({S2: "BASIN"}, 422),
        ({S2: "BASIN", "user-agent": "curl/8"}, 422),
    ],
)
def test_what_is_against_a_rule_has_the_status_of_the_dialect(
    client: Client, basin: str, stream: str, marks: dict[str, str], status: int
) -> None:
    """422 `invalid` in S2, 400 in the seed; both words are in both bodies."""
    headers = {name: basin if value == "BASIN" else value for name, value in marks.items()}
    answer = client.post(PATH, NOTHING, headers)
    assert answer.status == status, answer
    assert (answer.json["error"], answer.json["code"]) == ("validation_error", "invalid")
    assert answer.headers["svc-side-effects"] == "none"
    assert answer.json["may_have_taken_effect"] is False


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 400), ({"user-agent": "s2-cli/0.30 (channel=cargo)"}, 422), ({"s2-format": "raw"}, 422)],
)
def test_a_request_without_a_mark_is_the_seed_s(
    client: Client, headers: dict[str, str], status: int
) -> None:
    """Account calls carry no basin; S2's clients are known by their names there."""
    config = {"default_stream_config": {"retention_policy": {"age": 0}}}
    answer = client.post("/v1/basins", {"basin": "dialect-mark", "config": config}, headers)
    assert (answer.status, answer.json["code"]) == (status, "invalid")


@pytest.mark.parametrize("header", [SEED, S2])
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("PUT", "/v1/streams", 405, "method_not_allowed"),
        ("GET", "/v1/streams/%", 400, "bad_path"),
        ("GET", "/v1/streams/%FF", 400, "bad_path"),
        ("GET", "/v1/streams?limit=x", 400, "bad_query"),
        ("GET", "/v1/streams?prefix=%FF", 400, "bad_query"),
        ("PATCH", "/v1/streams/s", 400, "bad_json"),
        ("DELETE", "/v1/streams/none", 404, "stream_not_found"),
    ],
)
def test_other_refusals_are_the_same_in_both(
    client: Client, basin: str, header: str, method: str, path: str, status: int, code: str
) -> None:
    """Also what the router refuses: JSON, with the canonical status of the code."""
    answer = client.request(method, path, None, {header: basin})
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.json["message"]
    assert ("svc-side-effects" in answer.headers) == (method != "GET")


def test_only_the_seed_gets_more_than_one_key_in_a_412(
    client: Client, basin: str, stream: str
) -> None:
    """S2's clients decode a tagged union."""
    path = f"/v1/basins/{basin}/streams/s/append"
    body = {**ONE, "match_seq_num": 9}
    for answer in (client.post(PATH, body, {SEED: basin}), client.post(path, body)):
        assert answer.status == 412
        assert answer.json["seq_num_mismatch"] == 0
        assert answer.json["error"] == answer.json["code"] == "append_condition_failed"
        assert answer.headers["svc-side-effects"] == "none"
    answer = client.post(PATH, body, {S2: basin})
    assert (answer.status, answer.json) == (412, {"seq_num_mismatch": 0})
    assert answer.headers["svc-side-effects"] == "none"


# -- basins by header, path and host name


def test_the_host_name_names_the_basin(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """With no header at all, and then the request is S2's."""
    for host in (f"{basin}.b.localhost", f"{basin.upper()}.B.LocalHost:8080"):
        answer = to_host(endpoint, host, "GET", f"{PATH}/tail")
        assert (answer.status, answer.json["tail"]["seq_num"]) == (200, 0)
    assert to_host(endpoint, f"{basin}.b.localhost", "GET", "/v1/streams").status == 200
    # Reading at the tail is an error in S2 alone.
    assert to_host(endpoint, f"{basin}.b.localhost", "GET", f"{PATH}?seq_num=0").status == 416
    seed = to_host(endpoint, f"{basin}.b.localhost", "GET", f"{PATH}?seq_num=0", {SEED: basin})
    assert seed.status == 200


def test_a_basin_that_is_not_there_is_missing_by_host_name_too(endpoint: str) -> None:
    """As by any other name; a host that names none leaves the header to do it."""
    answer = to_host(endpoint, "no-such-basin.b.localhost", "GET", f"{PATH}/tail")
    assert (answer.status, answer.json["code"]) == (404, "basin_not_found")
    for host in ("b1.b.localhost", "no-such-basin.localhost"):
        answer = to_host(endpoint, host, "GET", f"{PATH}/tail")
        assert (answer.status, answer.json["code"]) == (400, "bad_header")


def test_two_names_for_the_basin_must_agree(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """Header, path and host in any pair."""
    host, other = f"{basin}.b.localhost", "other-basin"
    seed_path = f"/v1/basins/{basin}/streams/s/read"
    agreeing = [
        (host, PATH, {SEED: basin, S2: basin}),
        (host, seed_path, {S2: basin}),
        (host, f"/v1/basins/{basin}", {SEED: basin}),
    ]
    for name, path, headers in agreeing:
        answer = to_host(endpoint, name, "GET", path, headers)
        assert answer.status == 200, answer
    differing: list[tuple[str, str, dict[str, str]]] = [
        ("localhost", PATH, {SEED: basin, S2: other}),
        (host, PATH, {SEED: other}),
        (host, PATH, {S2: other}),
        ("other-basin.b.localhost", seed_path, {}),
        ("localhost", seed_path, {S2: other}),
        ("localhost", f"/v1/basins/{basin}", {SEED: other}),
        ("other-basin.b.localhost", f"/v1/basins/{basin}", {}),
    ]
    for name, path, headers in differing:
        answer = to_host(endpoint, name, "GET", path, headers)
        assert (answer.status, answer.json["code"]) == (400, "bad_header"), (name, path, headers)


@pytest.mark.parametrize("header", [SEED, S2])
def test_a_bad_name_is_reported_where_it_stands(client: Client, basin: str, header: str) -> None:
    """In the path, the header, the query or the body."""
    for answer, code in (
        (client.get("/v1/streams", {header: "Bad"}), "bad_header"),
        (client.get("/v1/streams", {header: ""}), "bad_header"),
        (client.get("/v1/basins/Bad", {header: basin}), "bad_path"),
        (client.get("/v1/streams/..", {header: basin}), "bad_path"),
        (client.get("/v1/basins?prefix=Bad", {header: basin}), "bad_query"),
        (client.get(f"/v1/streams?prefix={'x' * 513}", {header: basin}), "bad_query"),
        (client.post("/v1/basins", {"basin": "Bad"}, {header: basin}), "bad_json"),
        (client.post("/v1/streams", {"stream": ".."}, {header: basin}), "bad_json"),
    ):
        assert (answer.status, answer.json["code"]) == (400, code)
        assert answer.json["error"] == "validation_error"


def test_a_name_is_decoded_once(client: Client, basin: str) -> None:
    """One segment is one name, slashes and percent signs in it included."""
    for name, segment in (("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb"), ("é ?", "%C3%A9%20%3F")):
        assert client.post("/v1/streams", {"stream": name}, {S2: basin}).status == 201
        assert client.get(f"/v1/streams/{segment}", {S2: basin}).status == 200
    listed = client.get("/v1/streams", {S2: basin}).json["streams"]
    assert [info["name"] for info in listed] == ["a%2Fb", "a/b", "é ?"]


# -- formats and tokens


def test_records_are_text_in_s2_and_base64_in_the_seed(
    client: Client, basin: str, stream: str
) -> None:
    """Unless a header of either family says otherwise, whichever dialect the rest is in."""
    text, coded = {"records": [{"body": "eA=="}]}, b64("eA==")
    assert client.post(PATH, text, {S2: basin}).status == 200
    for headers, expected in (
        ({S2: basin}, "eA=="),
        ({SEED: basin}, coded),
        ({S2: basin, "s2-format": "base64"}, coded),
        ({S2: basin, "s2-format": "json-binsafe"}, coded),
        ({S2: basin, "s2-format": "json"}, "eA=="),
        ({SEED: basin, "svc-format": "utf8"}, "eA=="),
        ({SEED: basin, "s2-format": "RAW"}, "eA=="),
        ({SEED: basin, "svc-format": "raw", "s2-format": "utf8"}, "eA=="),
    ):
        answer = client.get(f"{PATH}?seq_num=0", headers)
        assert answer.json["records"][0]["body"] == expected, headers
    mixed = {SEED: basin, "svc-format": "raw", "s2-format": "base64"}
    answer = client.get(f"{PATH}?seq_num=0", mixed)
    assert (answer.status, answer.json["code"]) == (400, "bad_header")


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("svc-request-token", "", 400),
        ("svc-request-token", "t" * 36, 201),
        ("svc-request-token", "t" * 37, 400),
        ("s2-request-token", "", 201),
        ("s2-request-token", "t" * 36, 201),
        ("s2-request-token", "t" * 37, 400),
    ],
)
def test_a_request_token_has_36_bytes_at_most(
    client: Client, basin: str, header: str, value: str, status: int
) -> None:
    """An empty one is none in S2."""
    answer = client.post("/v1/streams", {"stream": "s"}, {S2: basin, header: value})
    assert answer.status == status
    if status == 400:
        assert answer.json["code"] == "bad_header"


# -- configuration


def test_the_storage_class_has_a_default_in_each_dialect(client: Client, basin: str) -> None:
    """`express` for a stream that is made in S2, `standard` for one made in the seed, and the
    basin's own default before both."""
    made: dict[str, dict[str, Any]] = {
        "s2": {S2: basin},
        "seed": {SEED: basin},
    }
    for name, headers in made.items():
        assert client.post("/v1/streams", {"stream": name}, headers).status == 201
    for headers in made.values():
        assert client.get("/v1/streams/s2", headers).json["storage_class"] == "express"
        assert client.get("/v1/streams/seed", headers).json["storage_class"] == "standard"
    default = {"default_stream_config": {"storage_class": "standard"}}
    name = f"{basin}-std"
    assert client.post("/v1/basins", {"basin": name, "config": default}).status == 201
    assert client.post("/v1/streams", {"stream": "s"}, {S2: name}).status == 201
    assert client.get("/v1/streams/s", {S2: name}).json["storage_class"] == "standard"
    own = {"stream": "own", "config": {"storage_class": "standard"}}
    assert client.post("/v1/streams", own, {S2: basin}).status == 201
    assert client.get("/v1/streams/own", {S2: basin}).json["storage_class"] == "standard"


def test_the_alias_of_the_storage_class_is_the_seed_s(client: Client, basin: str) -> None:
    """In S2 it is an unknown member: ignored when given, absent when told."""
    agent = {"user-agent": "s2-sdk-go/0.1"}
    config = {"storage_class": "express"}
    for suffix, headers, expected in (("a", agent, None), ("b", {}, {"storage_class": "express"})):
        name = f"{basin}-{suffix}"
        client.post("/v1/basins", {"basin": name, "config": config}, headers)
        told = client.get(f"/v1/basins/{name}", agent).json
        assert "storage_class" not in told
        found = told["default_stream_config"]
        assert (found if found is None else {"storage_class": found["storage_class"]}) == expected
        assert "storage_class" in client.get(f"/v1/basins/{name}").json


def test_pages_before_the_prefix_are_refused_to_the_seed_alone(
    client: Client, basin: str, stream: str
) -> None:
    """S2 and unmarked requests get the intersection of both ranges."""
    query = "?prefix=s&start_after=a"
    refused = client.get(f"/v1/streams{query}", {SEED: basin})
    assert (refused.status, refused.json["error"]) == (400, "validation_error")
    answer = client.get(f"/v1/streams{query}", {S2: basin})
    assert [info["name"] for info in answer.json["streams"]] == ["s"]
    assert client.get(f"/v1/basins{query}").status == 200


# -- browsers


def test_a_preflight_is_granted_what_it_asks_for(client: Client) -> None:
    """Origin, method and headers are mirrored; the answers' own headers are shown to the page."""
    answer = client.request(
        "OPTIONS",
        "/v1/streams/s/records",
        None,
        {
            "origin": "http://127.0.0.1:3000",
            "access-control-request-method": "POST",
            "access-control-request-headers": "s2-basin, content-type",
        },
    )
    assert answer.status == 204
    assert answer.body == b""
    assert answer.headers["access-control-allow-origin"] == "http://127.0.0.1:3000"
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert answer.headers["access-control-allow-headers"] == "s2-basin, content-type"
    refused = client.get("/v1/streams", {"origin": "http://127.0.0.1:3000"})
    shown = refused.headers["access-control-expose-headers"]
    wanted = {"s2-provision-result", "svc-side-effects", "retry-after-ms", "retry-after"}
    assert wanted <= set(shown.split(", "))
    assert "access-control-allow-origin" not in client.get("/v1/streams").headers
