"""Every refusal is JSON of one form, says what it must, and leaves the connection usable.

Rules: contract 3.1, 3.2, 3.5 and 3.7.
"""

from __future__ import annotations

import pytest

from tests.contract.client import Answer, Client, b64
from tests.contract.conftest import ALSO_BY_LIBRARY

SHARES_A_BASIN = True
pytestmark = ALSO_BY_LIBRARY
RECORDS = {"records": [{"body": b64("x")}]}


def assert_refused(answer: Answer, status: int, error: str, code: str, effects: str | None) -> None:
    """The whole standard body, and the statement about effects on writes only."""
    assert answer.status == status, answer
    assert set(answer.json) == {"error", "code", "message", "may_have_taken_effect"}
    assert answer.json["error"] == error
    assert answer.json["code"] == code
    assert isinstance(answer.json["message"], str)
    assert answer.json["message"]
    assert answer.json["may_have_taken_effect"] is False
    assert answer.headers.get("svc-side-effects") == effects


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v2/basins", 404, "not_found"),
        ("GET", "/v1/basins/abcdefgh/streams/s/other", 404, "not_found"),
        ("GET", "/v1/streams/s/records/head", 404, "not_found"),
        ("GET", "/v1/streams/s/records/tail/x", 404, "not_found"),
        ("GET", "/health/x", 404, "not_found"),
        ("POST", "/v1/nowhere", 404, "not_found"),
        ("PUT", "/v1/basins", 405, "method_not_allowed"),
        ("POST", "/v1/streams/s", 405, "method_not_allowed"),
        ("GET", "/v1/basins/abcdefgh/streams/s/append", 405, "method_not_allowed"),
        ("POST", "/v1/basins/abcdefgh/streams/s/read", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("PROPFIND", "/v1/basins", 405, "method_not_allowed"),
        ("GET", "/v1/locations/other", 404, "not_found"),
        ("DELETE", "/v1/locations/default", 405, "method_not_allowed"),
        ("POST", "/v1/metrics/abcdefgh/s", 405, "method_not_allowed"),
    ],
)
def test_unserved_paths_and_methods_are_refused_in_json(
    client: Client, method: str, path: str, status: int, code: str
) -> None:
    """Router refusals have the same body as all others; 405 says what is allowed."""
    answer = client.request(method, path)
    assert_refused(answer, status, code, code, None if method == "GET" else "none")
    assert ("allow" in answer.headers) == (status == 405)


def test_what_does_not_exist_is_named(client: Client, basin: str) -> None:
    """A missing basin and a missing stream have codes of their own."""
    missing = {"svc-basin": "no-such-basin"}
    for answer in (
        client.get("/v1/streams", missing),
        client.get("/v1/streams/s", missing),
        client.get("/v1/basins/no-such-basin"),
        client.read("no-such-basin", "s"),
    ):
        assert_refused(answer, 404, "basin_not_found", "basin_not_found", None)
    gone = client.append("no-such-basin", "s", b"x")
    assert_refused(gone, 404, "basin_not_found", "basin_not_found", "none")
    assert_refused(client.read(basin, "s"), 404, "stream_not_found", "stream_not_found", None)
    assert_refused(
        client.append(basin, "s", b"x"), 404, "stream_not_found", "stream_not_found", "none"
    )
    assert_refused(
        client.delete("/v1/streams/s", {"svc-basin": basin}),
        404,
        "stream_not_found",
        "stream_not_found",
        "none",
    )


def test_a_marked_412_has_the_mismatch_beside_the_standard_body(
    client: Client, basin: str, stream: str
) -> None:
    """Positively seed: by any svc-* header, or by the path shape alone."""
    client.append(basin, stream, b"x")
    body = {**RECORDS, "match_seq_num": 7}
    by_header = client.post(f"/v1/streams/{stream}/records", body, {"svc-basin": basin})
    by_path = client.post(f"/v1/basins/{basin}/streams/{stream}/append", body)
    for answer in (by_header, by_path):
        assert answer.status == 412
        assert answer.json["error"] == answer.json["code"] == "append_condition_failed"
        assert answer.json["seq_num_mismatch"] == 1
        assert answer.json["message"]
        assert answer.headers["svc-side-effects"] == "none"


def test_an_unmarked_412_has_one_key(client: Client, basin: str, stream: str) -> None:
    """Clients that decode a tagged union would fail on a second key."""
    client.append(basin, stream, b"x")
    answer = client.post(
        f"/v1/streams/{stream}/records", {**RECORDS, "match_seq_num": 7}, {"s2-basin": basin}
    )
    assert answer.status == 412
    assert answer.json == {"seq_num_mismatch": 1}
    answer = client.post(
        f"/v1/streams/{stream}/records", {**RECORDS, "fencing_token": "mine"}, {"s2-basin": basin}
    )
    assert answer.json == {"fencing_token_mismatch": ""}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"records":null}',
        b'{"records":{}}',
        b'{"records":[null]}',
        b'{"records":["x"]}',
        b'{"records":[{"body":1}]}',
        b'{"records":[{"body":["x"]}]}',
        b'{"records":[{"headers":{}}]}',
        b'{"records":[{"headers":[["a"]]}]}',
        b'{"records":[{"headers":[["a","b","c"]]}]}',
        b'{"records":[{"headers":[[1,2]]}]}',
        b'{"records":[{"timestamp":-1}]}',
        b'{"records":[{"timestamp":1.5}]}',
        b'{"records":[{"timestamp":1e3}]}',
        b'{"records":[{"timestamp":"1"}]}',
        b'{"records":[{"timestamp":true}]}',
        b'{"records":[{"timestamp":18446744073709551616}]}',
        b'{"records":[{"timestamp":' + b"9" * 6000 + b"}]}",
        b'{"records":[{}],"match_seq_num":-1}',
        b'{"records":[{}],"match_seq_num":18446744073709551616}',
        b'{"records":[{}],"match_seq_num":"0"}',
        b'{"records":[{}],"fencing_token":7}',
        b'{"records":[{}],"records":[{}]}',
        b'{"records":[{"body":"YQ==","body":"Yg=="}]}',
        b'{"records":[{"body":"YQ==","b\\u006fdy":"Yg=="}]}',
        b'{"records":[{}],"x":{"a":1,"a":2}}',
        b'{"records":[{}],"x":NaN}',
        b'{"records":[{}],"x":Infinity}',
        b'{"records":[{}],"x":01}',
        b'{"records":[{}],"x":\'a\'}',
        b'{"records":[{}],"x":"\xff"}',
        b'{"records":[{"body":"\xff"}]}',
        b'{"records":[{"body":"\\ud800"}]}',
        b'{"records":[{"body":"a\nb"}]}',
        b'{"records":[{}]} {}',
        b'{"records":[{}],}',
        b'{"records":[{},]}',
        b"\xef\xbb\xbf" + b'{"records":[{}]}',
        '{"records":[{}]}'.encode("utf-16"),
        b'{"records":[{}],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b"\x00",
    ],
    ids=lambda body: body[:48].decode("latin-1") + f"({len(body)})",
)
def test_a_malformed_body_is_bad_json(client: Client, basin: str, stream: str, body: bytes) -> None:
    """Nothing of it is appended, and the connection goes on."""
    answer = client.post(f"/v1/streams/{stream}/records", body, {"svc-basin": basin})
    assert_refused(answer, 400, "validation_error", "bad_json", "none")
    assert client.tail(basin, stream) == 0


@pytest.mark.parametrize(
    "body",
    [
        '{"records":[{"body":"YR=="}]}',
        '{"records":[{"body":"YQ"}]}',
        '{"records":[{"body":"YQ="}]}',
        '{"records":[{"body":"YQ==YQ=="}]}',
        '{"records":[{"body":"_-=="}]}',
        '{"records":[{"body":" YQ=="}]}',
        '{"records":[{"body":"YQ==\\n"}]}',
        '{"records":[{"body":"é"}]}',
        '{"records":[{"body":"===="}]}',
        '{"records":[{"headers":[["YQ","YQ=="]]}]}',
    ],
)
def test_bad_base64_is_invalid(client: Client, basin: str, stream: str, body: str) -> None:
    """Standard alphabet, padded, canonical; anything else is no base64."""
    answer = client.post(f"/v1/streams/{stream}/records", body.encode(), {"svc-basin": basin})
    assert_refused(answer, 400, "validation_error", "invalid", "none")


@pytest.mark.parametrize(
    "body",
    [
        '{"records":[{"body":null,"headers":null,"timestamp":null}],"match_seq_num":null}',
        '{"unknown":[1,{"a":"b"}],"records":[{"body":"YQ==","also":null}]}',
        '\r\n{ "records" : [ { "b\\u006fdy" : "\\u0059Q==" } ] }\t',
    ],
)
def test_unknown_members_nulls_and_escapes_are_fine(
    client: Client, basin: str, stream: str, body: str
) -> None:
    """Strictness does not refuse what JSON allows."""
    answer = client.post(f"/v1/streams/{stream}/records", body.encode(), {"svc-basin": basin})
    assert answer.status == 200, answer


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("application/vnd.api+json", 200),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
        ("", 400),
        ("application/protobuf", 400),
    ],
)
def test_the_content_type_must_say_json(
    client: Client, basin: str, stream: str, content_type: str, status: int
) -> None:
    """Another type is a malformed request, and JSON is no protobuf."""
    answer = client.post(
        f"/v1/streams/{stream}/records", RECORDS, {"svc-basin": basin, "content-type": content_type}
    )
    assert answer.status == status, answer


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"svc-basin": "short"},
        {"svc-basin": "UPPERCASE"},
        {"svc-basin": "-abcdefgh"},
        {"svc-basin": "other-basin", "s2-basin": "another-basin"},
        {"svc-basin": "BASIN", "svc-format": "hex"},
        {"svc-basin": "BASIN", "s2-format": "hex"},
        {"svc-basin": "BASIN", "svc-request-token": ""},
        {"svc-basin": "BASIN", "svc-request-token": "x" * 37},
    ],
)
def test_a_bad_header_is_named_as_such(
    client: Client, basin: str, stream: str, headers: dict[str, str]
) -> None:
    """Basin, format and request token are checked before anything is done."""
    sent = {name: basin if value == "BASIN" else value for name, value in headers.items()}
    answer = client.post(f"/v1/streams/{stream}/records", RECORDS, sent)
    assert_refused(answer, 400, "validation_error", "bad_header", "none")


def test_path_and_header_must_name_one_basin(client: Client, basin: str, stream: str) -> None:
    """The same name twice is fine, two names are not."""
    path = f"/v1/basins/{basin}/streams/{stream}/append"
    assert client.post(path, RECORDS, {"svc-basin": basin, "s2-basin": basin}).status == 200
    answer = client.post(path, RECORDS, {"svc-basin": "other-basin"})
    assert_refused(answer, 400, "validation_error", "bad_header", "none")


def test_a_connection_is_used_again_after_each_error(
    client: Client, basin: str, stream: str
) -> None:
    """Refusals that leave nothing unread do not close the connection."""
    client.get("/health")
    sock = client.connection.sock
    assert sock is not None
    client.get("/nowhere")
    client.post(f"/v1/streams/{stream}/records", b"{", {"svc-basin": basin})
    client.post(f"/v1/streams/{stream}/records", RECORDS, {"svc-basin": "no-such-basin"})
    client.post(f"/v1/streams/{stream}/records", RECORDS, {})
    client.post(f"/v1/streams/{stream}/records", b"x" * 300_000, {"svc-basin": basin})
    client.post("/v1/nowhere", b"x" * 300_000)
    client.read(basin, stream, "seq_num=99")
    assert client.append(basin, stream, b"x").status == 200
    assert client.connection.sock is sock
