"""Every stream operation below `/v1/basins/{basin}/streams`, and headers without a gap.

Rules: contract 1.6, 1.4, 5.9, 9.1 and 10.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.gateway.endpoints.record_endpoints import RECORDS
from svc_cluster.gateway.endpoints.stream_endpoints import STREAMS
from tests.contract.client import Answer, Client, b64

JSON = {"content-type": "application/json"}
PROTOBUF = {"content-type": "application/protobuf", "accept": "application/protobuf"}
AGE = {"retention_policy": {"age": 77}}
ALL = {"create_stream_on_append": True, "create_stream_on_read": True}


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        return client.request(method, path, None, named)
    return client.request(method, path, json.dumps(body).encode(), {**JSON, **named})


def outcomes(answer: Answer) -> tuple[int, str | None, str | None]:
    """The status, and the outcome under either name."""
    found = answer.headers
    return answer.status, found.get("svc-provision-result"), found.get("s2-provision-result")


# -- paths


def test_every_stream_operation_has_a_path_that_names_the_basin() -> None:
    """One each, behind its own."""
    for row in (*STREAMS, *RECORDS):
        own, *others = row.paths
        assert own.startswith("/v1/streams"), row.operation
        (other,) = others
        assert other.startswith("/v1/basins/{basin}/streams"), row.operation
        assert ("{stream}" in own) == ("{stream}" in other)


def test_a_stream_s_whole_life_without_a_header(client: Client, basin: str) -> None:
    """Created, listed, configured, written, read and deleted; both shapes see the same."""
    streams = f"/v1/basins/{basin}/streams"
    assert outcomes(send(client, "POST", streams, {"stream": "a/b"})) == (
        201,
        "created",
        "created",
    )
    path = f"{streams}/a%2Fb"
    assert outcomes(send(client, "PUT", path)) == (200, "noop", "noop")
    assert outcomes(send(client, "PUT", path, {"config": AGE})) == (200, "updated", "updated")
    assert outcomes(send(client, "PUT", f"{streams}/c")) == (201, "created", "created")
    told = client.get(path)
    assert (told.status, told.json["retention_policy"]) == (200, {"age": 77})
    changed = send(client, "PATCH", path, {"retention_policy": {"age": 78}})
    assert (changed.status, changed.json["retention_policy"]) == (200, {"age": 78})
    by_header = client.get("/v1/streams/a%2Fb", {"svc-basin": basin})
    assert (by_header.status, by_header.json) == (200, changed.json)
    ack = send(client, "POST", f"{path}/append", {"records": [{"body": b64("x")}]})
    assert (ack.status, ack.json["tail"]["seq_num"]) == (200, 1)
    tail = client.get(f"{path}/tail")
    assert (tail.status, tail.json["tail"]) == (200, ack.json["tail"])
    assert tail.json == client.get("/v1/streams/a%2Fb/records/tail", {"s2-basin": basin}).json
    found = client.get(f"{path}/read")
    assert [record["body"] for record in found.json["records"]] == [b64("x")], "base64: it is seed"
    page = client.get(f"{streams}?limit=1")
    assert [info["name"] for info in page.json["streams"]] == ["a/b"]
    assert page.json["has_more"] is True
    gone = client.delete(path)
    assert (gone.status, gone.body) == (202, b"")
    assert client.get(f"{path}/tail").json["code"] in (
        "stream_deletion_pending",
        "stream_not_found",
    )


def test_protobuf_at_the_paths_that_name_the_basin(client: Client, basin: str, stream: str) -> None:
    path = f"/v1/basins/{basin}/streams/{stream}"
    body = pb.AppendInput(records=[pb.AppendRecord(body=b"x")]).SerializeToString()
    ack = client.request("POST", f"{path}/append", body, PROTOBUF)
    assert (ack.status, pb.AppendAck.FromString(ack.body).tail.seq_num) == (200, 1)
    found = client.request("GET", f"{path}/read?seq_num=0", None, PROTOBUF)
    assert [record.body for record in pb.ReadBatch.FromString(found.body).records] == [b"x"]
    assert client.get(f"{path}/tail").json["tail"]["seq_num"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("POST", "", {"stream": "t"}),
        ("GET", "/s", None),
        ("PUT", "/s", {}),
        ("PATCH", "/s", {}),
        ("DELETE", "/s", None),
        ("GET", "/s/tail", None),
    ],
)
def test_the_shape_is_a_mark_of_the_seed_and_a_name(
    client: Client, basin: str, stream: str, method: str, path: str, body: Any
) -> None:
    """Whatever header says otherwise: another basin is refused, and nothing is done."""
    streams = f"/v1/basins/{basin}/streams{path}"
    for header in ("svc_basin", "s2_basin"):
        other = send(client, method, streams, body, **{header: "another-basin"})
        assert (other.status, other.json["code"]) == (400, "bad_header"), (header, other)
    missing = send(client, method, f"/v1/basins/no-such-basin/streams{path}", body)
    assert (missing.status, missing.json["code"]) == (404, "basin_not_found")
    bad = send(client, method, f"/v1/basins/BAD/streams{path}", body)
    assert (bad.status, bad.json["code"]) == (400, "bad_path")
    assert [info["name"] for info in client.get(f"/v1/basins/{basin}/streams").json["streams"]] == [
        "s"
    ]


def test_a_rule_of_meaning_is_400_at_the_list_too(client: Client, basin: str) -> None:
    """The list's path has no slash behind `streams`, and is the seed's all the same: a header of
    S2 beside it makes no 422 of it."""
    path = f"/v1/basins/{basin}/streams"
    ill: dict[str, Any] = {"stream": "s", "config": {"retention_policy": {"age": 0}}}
    for answer in (
        send(client, "GET", f"{path}?prefix=b&start_after=a", s2_basin=basin),
        send(client, "POST", path, ill, s2_basin=basin),
    ):
        assert (answer.status, answer.json["code"]) == (400, "invalid")


def test_both_shapes_are_one_request(client: Client, basin: str) -> None:
    """A creation that is repeated by the other path is told again, and not carried out."""
    token = {"svc_request_token": "neutral-1"}
    first = send(client, "POST", f"/v1/basins/{basin}/streams", {"stream": "s"}, **token)
    again = send(client, "POST", "/v1/streams", {"stream": "s"}, svc_basin=basin, **token)
    assert outcomes(first) == outcomes(again) == (201, "created", "created")
    assert again.body == first.body


# -- headers


@pytest.mark.parametrize(("header", "is_s2"), [("svc_basin", False), ("s2_basin", True)])
def test_what_came_of_it_is_told_by_the_dialect_s_names(
    client: Client, basin: str, header: str, is_s2: bool
) -> None:
    """Of basins and of streams, to the seed and without a mark under both names, to S2 under its
    own; nothing else has it."""

    def told(status: int, word: str | None) -> tuple[int, str | None, str | None]:
        return status, None if is_s2 else word, word

    named = {header: basin}
    made = send(client, "POST", "/v1/streams", {"stream": "s"}, **named)
    assert outcomes(made) == told(201, "created")
    changed = send(client, "PUT", "/v1/streams/s", {"config": AGE}, **named)
    assert outcomes(changed) == told(200, "updated")
    assert outcomes(send(client, "PUT", f"/v1/basins/{basin}", **named)) == told(200, "noop")
    assert outcomes(send(client, "PUT", f"/v1/basins/{basin}")) == (200, "noop", "noop")
    assert outcomes(send(client, "GET", "/v1/streams/s", **named)) == told(200, None)
    taken = send(client, "POST", "/v1/streams", {"stream": "s"}, **named)
    assert outcomes(taken) == told(409, None)


@pytest.mark.parametrize("header", ["svc-stream-config", "s2-stream-config"])
@pytest.mark.parametrize("by", ["svc-basin", "s2-basin"])
def test_either_name_configures_a_stream_that_is_made(
    client: Client, basin: str, header: str, by: str
) -> None:
    """By an append in JSON and in protobuf, a read and a check of the tail; what is malformed is
    refused by its own name, and makes nothing."""
    assert send(client, "PATCH", f"/v1/basins/{basin}", ALL).status == 200
    named: dict[str, str] = {by: basin, header: json.dumps(AGE)}
    body = pb.AppendInput(records=[pb.AppendRecord(body=b"x")]).SerializeToString()
    asked: dict[str, Callable[[], Answer]] = {
        "json": lambda: client.post(
            "/v1/streams/json/records", {"records": [{"body": "eA=="}]}, named
        ),
        "protobuf": lambda: client.request(
            "POST", "/v1/streams/protobuf/records", body, {**PROTOBUF, **named}
        ),
        "read": lambda: client.get("/v1/streams/read/records?tail_offset=0&wait=0", named),
        "tail": lambda: client.get("/v1/streams/tail/records/tail", named),
    }
    for name, ask in asked.items():
        assert ask().status in (200, 416), name
        told = client.get(f"/v1/streams/{name}", {by: basin}).json
        assert told["retention_policy"] == {"age": 77}, name
    bad = client.get("/v1/streams/bad/records/tail", {by: basin, header: "{"})
    assert (bad.status, bad.json["code"]) == (400, "bad_header")
    assert bad.json["message"].startswith(f"{header}: ")
    assert client.get("/v1/streams/bad", {by: basin}).status == 404


def test_two_configurations_must_agree(client: Client, basin: str) -> None:
    """As with every header that both families have."""
    assert send(client, "PATCH", f"/v1/basins/{basin}", ALL).status == 200
    one, other = json.dumps(AGE), json.dumps({"retention_policy": {"age": 1}})
    both = {"svc-basin": basin, "svc-stream-config": one, "s2-stream-config": other}
    refused = client.get("/v1/streams/s/records/tail", both)
    assert (refused.status, refused.json["code"]) == (400, "bad_header")
    assert client.get("/v1/streams/s", {"svc-basin": basin}).status == 404
    agreed = client.get("/v1/streams/s/records/tail", {**both, "s2-stream-config": one})
    assert agreed.status == 200
    told = client.get("/v1/streams/s", {"svc-basin": basin}).json
    assert told["retention_policy"] == {"age": 77}


def test_a_page_can_read_the_outcome_under_either_name(client: Client, basin: str) -> None:
    answer = client.get("/v1/streams", {"svc-basin": basin, "origin": "http://127.0.0.1:3000"})
    shown = set(answer.headers["access-control-expose-headers"].split(", "))
    assert {"svc-provision-result", "s2-provision-result"} <= shown
