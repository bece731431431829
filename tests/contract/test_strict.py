"""`svc-strict: true` refuses what would mean nothing; without it nothing changes.

In both dialects, for every operation. Rule: contract 4.9.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.gateway.endpoints.table import ROUTER
from tests.contract.client import Answer, Client, b64

SHARES_A_BASIN = True
DIALECTS = ("svc", "s2")
_NUMBERS = itertools.count()

OPERATIONS = [
    (method, resource.template)
    for resource in ROUTER.resources
    for method, endpoint in resource.methods.items()
    if endpoint.need is not None
]


def strictly(dialect: str, basin: str, **more: str) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {f"{dialect}-basin": basin, f"{dialect}-strict": "true", **named}


def assert_unknown(answer: Answer, code: str, name: str, *known: str) -> None:
    assert (answer.status, answer.json["code"]) == (400, code), answer
    message = answer.json["message"]
    assert f"`{name}`" in message
    for word in known:
        assert f"`{word}`" in message, message
    assert answer.json["may_have_taken_effect"] is False


def send(client: Client, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
    return client.request(method, path, json.dumps(body).encode(), headers)


@pytest.mark.parametrize("query", ["a=1&a=2", "a=%zz", "%ff=1", "ticket=a&ticket=b"])
@pytest.mark.parametrize(("method", "template"), OPERATIONS)
def test_a_query_with_two_meanings_is_refused_everywhere(
    client: Client, basin: str, stream: str, method: str, template: str, query: str
) -> None:
    """Whoever looks at parameters or not, and without the header too (contract 4.5)."""
    path = template.replace("{basin}", basin).replace("{stream}", stream).replace("{id}", "none")
    headers = {} if template.startswith("/v1/basins") else {"svc-basin": basin}
    answer = client.request(
        *(method, f"{path}?{query}", b"{}"), {"content-type": "application/json", **headers}
    )
    assert (answer.status, answer.json["code"]) in ((400, "bad_query"), (401, "authn")), answer
    assert answer.json["may_have_taken_effect"] is False
    assert client.tail(basin, stream) == 0
    assert client.get(f"/v1/streams/{stream}", {"svc-basin": basin}).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_misspelt_condition_appends_nothing(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """Without the header it is an append without a condition."""
    path = f"/v1/streams/{stream}/records"
    body = {"records": [{"body": ""}], "match_seq_nmu": 7}
    answer = client.post(path, body, strictly(dialect, basin))
    assert_unknown(answer, "bad_json", "match_seq_nmu", "match_seq_num", "fencing_token", "records")
    assert answer.headers["svc-side-effects"] == "none"
    assert client.tail(basin, stream) == 0
    for said in ({}, {f"{dialect}-strict": "false"}):
        assert client.post(path, body, {f"{dialect}-basin": basin, **said}).status == 200
    assert client.tail(basin, stream) == 2
    right = {"records": [{"body": ""}], "match_seq_num": 2}
    assert client.post(path, right, strictly(dialect, basin)).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("pairs", [0, 20_000], ids=["light", "heavy"])
def test_an_unknown_member_of_a_record_is_named_with_its_record(
    client: Client, basin: str, stream: str, dialect: str, pairs: int
) -> None:
    """Also in a body of many headers, which is decoded another way; colons in strings are none."""
    path = f"/v1/streams/{stream}/records"
    name = b64("n") if dialect == "svc" else "n"
    records: list[dict[str, Any]] = [{"headers": [[name, ""]] * pairs}, {"body": b64(":")}]
    sent = {"records": records}
    assert client.post(path, sent, strictly(dialect, basin)).status == 200
    records[1]["bdoy"] = ""
    answer = client.post(path, sent, strictly(dialect, basin))
    assert_unknown(answer, "bad_json", "records[1].bdoy", "body", "headers", "timestamp")
    assert client.tail(basin, stream) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_change_of_nothing_is_refused(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """`config` around a PATCH is what PUT takes, and changes nothing here."""
    config = {"config": {"delete_on_empty": {"min_age_secs": 60}}}
    path = f"/v1/streams/{stream}"
    before = client.get(path, {f"{dialect}-basin": basin}).body
    answer = send(client, "PATCH", path, config, strictly(dialect, basin))
    assert_unknown(answer, "bad_json", "config", "delete_on_empty", "timestamping")
    answer = send(client, "PATCH", f"/v1/basins/{basin}", config, strictly(dialect, basin))
    assert_unknown(answer, "bad_json", "config", "default_stream_config")
    assert send(client, "PATCH", path, config, {f"{dialect}-basin": basin}).status == 200
    assert client.get(path, {f"{dialect}-basin": basin}).body == before
    assert send(client, "PUT", path, config, strictly(dialect, basin)).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unknown_members_are_refused_at_any_depth(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """Of every operation with a body, which then has no effect."""
    wrong = {"timestamping": {"mdoe": "arrival"}}
    number = next(_NUMBERS)
    new_basin, new_stream = f"strict-{number:05}", f"new-{number}"
    for method, path, body, name, known in (
        ("POST", "/v1/basins", {"basin": new_basin, "confg": {}}, "confg", "config"),
        (
            "POST",
            "/v1/basins",
            {"basin": new_basin, "config": {"default_stream_config": wrong}},
            "config.default_stream_config.timestamping.mdoe",
            "mode",
        ),
        ("PUT", f"/v1/basins/{new_basin}", {"basin": new_basin}, "basin", "location"),
        (
            "POST",
            "/v1/streams",
            {"stream": new_stream, "config": wrong},
            "config.timestamping.mdoe",
            "mode",
        ),
        ("PUT", f"/v1/streams/{new_stream}", wrong, "timestamping.mdoe", "mode"),
        ("PUT", f"/v1/streams/{new_stream}", {"config": wrong}, "config.timestamping.mdoe", "mode"),
        ("PATCH", f"/v1/streams/{stream}", wrong, "timestamping.mdoe", "mode"),
        (
            "PATCH",
            f"/v1/streams/{stream}",
            {"retention_policy": {"infinite": {"really": True}}},
            "retention_policy.infinite.really",
            "retention_policy.infinite.really",
        ),
        (
            "POST",
            "/v1/access-tokens",
            {"id": "never", "scope": {"streams": {"prefix": "", "suffix": ""}}},
            "scope.streams.suffix",
            "exact",
        ),
    ):
        headers = strictly(dialect, basin)
        if path.startswith("/v1/basins"):
            del headers[f"{dialect}-basin"]
        answer = send(client, method, path, body, headers)
        assert_unknown(answer, "bad_json", name, known)
        assert answer.headers["svc-side-effects"] == "none"
    assert client.get(f"/v1/basins/{new_basin}").status == 404
    assert client.get(f"/v1/streams/{new_stream}", {"svc-basin": basin}).status == 404


def test_the_alias_of_the_storage_class_is_unknown_in_the_dialect_that_has_none(
    client: Client, basin: str
) -> None:
    """Contract 9.6: it is the seed's."""
    change = {"storage_class": "express"}
    path = f"/v1/basins/{basin}"
    answer = send(client, "PATCH", path, change, strictly("s2", basin))
    assert_unknown(answer, "bad_json", "storage_class", "default_stream_config")
    answer = send(client, "PUT", path, {"config": change}, strictly("s2", basin))
    assert_unknown(answer, "bad_json", "config.storage_class", "default_stream_config")
    body = {"basin": "strict-never", "config": change}
    answer = client.post("/v1/basins", body, strictly("s2", basin))
    assert_unknown(answer, "bad_json", "config.storage_class", "default_stream_config")
    assert send(client, "PATCH", path, change, {"s2-basin": basin}).status == 200
    assert send(client, "PATCH", path, change, strictly("svc", basin)).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unknown_members_of_a_configuration_in_a_header_are_refused(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """As what is wrong with it otherwise: `bad_header`."""
    path = f"/v1/streams/{stream}/records/tail"
    config = {f"{dialect}_stream_config": '{"retention":{"age":1}}'}
    answer = client.get(path, strictly(dialect, basin, **config))
    assert_unknown(answer, "bad_header", "retention", "retention_policy")
    assert f"{dialect}-stream-config" in answer.json["message"]
    named = {name.replace("_", "-"): value for name, value in config.items()}
    assert client.get(path, {f"{dialect}-basin": basin, **named}).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("method", "template"), OPERATIONS)
def test_every_operation_refuses_a_parameter_that_it_does_not_know(
    client: Client, basin: str, stream: str, dialect: str, method: str, template: str
) -> None:
    """And tells those that it knows, as the OpenAPI document does."""
    path = template.format(basin=basin, stream=stream, id="some")
    answer = client.request(method, f"{path}?seqnum=1", b"", strictly(dialect, basin))
    document = client.get("/openapi.json").json["paths"][template][method.lower()]
    known = [each["name"] for each in document["parameters"] if each["in"] == "query"]
    assert_unknown(answer, "bad_query", "seqnum", *known)
    assert client.get(f"/v1/streams/{stream}", {"svc-basin": basin}).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_known_is_taken(client: Client, basin: str, stream: str, dialect: str) -> None:
    """Every parameter of a read, and protobuf, of which fields are not looked at."""
    path = f"/v1/streams/{stream}/records"
    wanted = pb.AppendInput()
    wanted.records.add(body=b"x")
    body = wanted.SerializeToString() + b"\x7a\x01x"
    kind = {"content_type": "application/protobuf"}
    assert client.post(path, body, strictly(dialect, basin, **kind)).status == 200
    query = "seq_num=0&clamp=true&count=9&bytes=999&until=99999999999999&wait=0"
    answer = client.get(f"{path}?{query}", strictly(dialect, basin))
    assert (answer.status, len(answer.json["records"])) == (200, 1), answer
    listing = "/v1/streams?prefix=&start_after=&limit=1"
    assert client.get(listing, strictly(dialect, basin)).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("word", ["", "yes", "1", "truee"])
def test_another_word_is_refused(client: Client, basin: str, dialect: str, word: str) -> None:
    """Who asks for strictness in vain would not know it."""
    answer = client.get("/v1/streams", {f"{dialect}-basin": basin, f"{dialect}-strict": word})
    assert (answer.status, answer.json["code"]) == (400, "bad_header")
    assert f"{dialect}-strict is `true`, `false`" in answer.json["message"]


def test_two_headers_that_differ_are_refused(client: Client, basin: str) -> None:
    """Contract 1.4."""
    both = {"svc-basin": basin, "svc-strict": "true", "s2-strict": "false"}
    answer = client.get("/v1/streams", both)
    assert (answer.status, answer.json["code"]) == (400, "bad_header")
    both["s2-strict"] = "TRUE"
    assert client.get("/v1/streams", both).status == 200
