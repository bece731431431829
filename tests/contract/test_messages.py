"""What a refusal says in words: which record, how many, which word, which member.

In both dialects, in JSON and protobuf. Rule: contract 3.8.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from tests.contract.client import Answer, Client, b64
from tests.contract.conftest import new_basin

SHARES_A_BASIN = True
JSON = "application/json"
PROTOBUF = "application/protobuf"
DIALECTS = ("svc", "s2")


def refused(answer: Answer, code: str, *told: str, status: int | None = None) -> str:
    """The message of a refusal without effect that says all this."""
    assert answer.json["code"] == code, answer
    assert answer.status == status or status is None
    assert answer.json["may_have_taken_effect"] is False
    message: str = answer.json["message"]
    for words in told:
        assert words in message, message
    return message


def append_json(
    client: Client, dialect: str, basin: str, stream: str, body: Any, **headers: str
) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"/v1/streams/{stream}/records"
    return client.post(path, body, {f"{dialect}-basin": basin, **named})


def append_proto(
    client: Client, dialect: str, basin: str, stream: str, body: pb.AppendInput
) -> Answer:
    path = f"/v1/streams/{stream}/records"
    headers = {f"{dialect}-basin": basin, "content-type": PROTOBUF}
    return client.post(path, body.SerializeToString(), headers)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "record", [{"body": "plain text"}, {"headers": [[b64("n"), "?"]]}, {"body": "YR=="}]
)
def test_base64_that_is_not_is_told_with_its_record_and_the_way_out(
    client: Client, basin: str, stream: str, dialect: str, record: dict[str, Any]
) -> None:
    """The record by its index, and the header by the name it has in the caller's dialect."""
    wanted = {"records": [{"body": b64("fine")}, {}, record]}
    path = f"/v1/streams/{stream}/records"
    named = {f"{dialect}-basin": basin, f"{dialect}-format": "base64"}
    answer = client.post(path, wanted, named)
    other = "s2" if dialect == "svc" else "svc"
    message = refused(answer, "invalid", "records[2]", "base64", f"{dialect}-format: utf8")
    assert f"{other}-" not in message
    assert client.tail(basin, stream) == 0
    named[f"{dialect}-format"] = "utf8"
    if "headers" not in record:
        assert client.post(path, wanted, named).status == 200


def test_base64_is_told_with_its_record_in_a_body_of_many_headers(
    client: Client, basin: str, stream: str
) -> None:
    """Such a body is decoded another way."""
    pair = [b64("n"), ""]
    wanted = {"records": [{"headers": [pair] * 9000}, {"headers": [[b64("n"), "-"]]}]}
    refused(append_json(client, "svc", basin, stream, wanted), "invalid", "records[1]")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_limits_of_a_batch_say_how_many_there_were_and_may_be(
    client: Client, basin: str, stream: str, dialect: str, kind: str
) -> None:
    """Records, metered bytes (counted to the end) and the fencing token."""

    def append(bodies: list[bytes], token: str | None = None) -> Answer:
        if kind == PROTOBUF:
            wanted = pb.AppendInput(fencing_token=token)
            for body in bodies:
                wanted.records.add(body=body)
            return append_proto(client, dialect, basin, stream, wanted)
        records = [{"body": body.decode()} for body in bodies]
        fence = {} if token is None else {"fencing_token": token}
        named = {f"{dialect}_format": "utf8"}
        return append_json(client, dialect, basin, stream, {"records": records, **fence}, **named)

    refused(append([b""] * 1001), "invalid", "1 to 1000 records", "1001")
    bodies = [b"x" * 600_000] * 3
    refused(append(bodies), "invalid", "at most 1048576 metered bytes", str(3 * 600_008))
    refused(append([b""], "é" * 19), "invalid", "at most 36 bytes", "38")
    assert client.tail(basin, stream) == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_command_that_is_none_is_told_with_its_record(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """What it may be, and what it was."""
    for name, body, told in (
        ("fnece", b"", "`fence` or `trim`, not `fnece`"),
        ("trim", b"1234", "8 bytes, this one has 4"),
        ("fence", b"x" * 40, "at most 36 bytes, this one has 40"),
    ):
        wanted = pb.AppendInput()
        wanted.records.add(body=b"data")
        wanted.records.add(body=body).headers.add(name=b"", value=name.encode())
        answer = append_proto(client, dialect, basin, stream, wanted)
        refused(answer, "invalid", "records[1]", told)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_limits_of_names_and_tokens_say_how_many_there_were_and_may_be(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """In paths, headers, queries and bodies."""
    named = {f"{dialect}-basin": basin}
    refused(client.get("/v1/basins/abc", named), "bad_path", "8 to 48", "this one has 3")
    answer = client.get("/v1/streams", {f"{dialect}-basin": "x" * 49})
    refused(answer, "bad_header", "8 to 48", "this one has 49")
    answer = client.get(f"/v1/streams/{'s' * 513}", named)
    refused(answer, "bad_path", "1 to 512", "this one has 513")
    answer = client.post("/v1/streams", {"stream": ""}, named)
    refused(answer, "bad_json", "1 to 512", "this one has 0")
    answer = client.post("/v1/basins", {"basin": "abc"}, named)
    refused(answer, "bad_json", "8 to 48", "this one has 3")
    answer = client.get(f"/v1/streams?prefix={'p' * 600}", named)
    refused(answer, "bad_query", "at most 512 bytes", "this one has 600")
    answer = client.post("/v1/access-tokens", {"id": "t" * 97, "scope": {}}, named)
    refused(answer, "bad_json", "1 to 96", "this one has 97")
    answer = append_json(
        client, dialect, basin, stream, {"records": [{}]}, svc_request_token="x" * 37
    )
    refused(answer, "bad_header", "svc-request-token", "1 to 36 bytes", "37")
    key = {f"{dialect}_encryption_key": "k" * 45}
    answer = append_json(client, dialect, basin, stream, {"records": [{}]}, **key)
    message = refused(answer, "bad_header", f"{dialect}-encryption-key", "1 to 44", "45")
    assert "kkk" not in message


@pytest.mark.parametrize("dialect", DIALECTS)
def test_limits_of_bodies_say_how_many_there_were_and_may_be(
    client: Client, basin: str, dialect: str
) -> None:
    """Where the request announces its length."""
    body = b'{"stream":"' + b"x" * 70_000 + b'"}'
    answer = client.post("/v1/streams", body, {f"{dialect}-basin": basin})
    refused(answer, "payload_too_large", "at most 65536 bytes", str(len(body)), status=413)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_word_is_told_with_those_that_there_are(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """Of members, parameters and headers."""
    named = {f"{dialect}-basin": basin}
    config = {"timestamping": {"mode": "server"}}
    told = ("`arrival`, `client-prefer`, `client-require`", "not `server`", "timestamping.mode")
    for answer in (
        client.request("PATCH", f"/v1/streams/{stream}", json.dumps(config).encode(), named),
        client.post("/v1/streams", {"stream": "t", "config": config}, named),
        client.post(
            "/v1/basins",
            {"basin": "never-made", "config": {"default_stream_config": config}},
            named,
        ),
    ):
        refused(answer, "bad_json", *told, status=400)
    cipher = {"basin": "never-made", "config": {"stream_cipher": "rot13"}}
    answer = client.post("/v1/basins", cipher, named)
    refused(answer, "bad_json", "`aegis-256`, `aes-256-gcm`", "not `rot13`", "config.stream_cipher")
    scope = {"id": "never-issued", "scope": {"ops": ["read", "write"]}}
    answer = client.post("/v1/access-tokens", scope, named)
    refused(answer, "bad_json", "`append`", "`trim`", "ops has `write`")
    answer = client.read(basin, stream, "clamp=yes")
    refused(answer, "bad_query", "clamp", "`true` or `false`", "not `yes`")
    answer = client.read(basin, stream, "count=few")
    refused(answer, "bad_query", "count", "0 to", "not `few`")
    answer = append_json(
        client, dialect, basin, stream, {"records": [{}]}, **{f"{dialect}_format": "hex"}
    )
    refused(answer, "bad_header", "`base64`", "`utf8`", "`raw`", "not `hex`")
    answer = append_json(client, dialect, basin, stream, {"records": [{}]}, content_encoding="br")
    refused(answer, "unsupported_media_type", "`gzip` or `zstd`", "not `br`")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_given_twice_is_named(
    client: Client, basin: str, stream: str, dialect: str
) -> None:
    """Members, nested ones too, and parameters."""
    body = b'{"records":[{"body":"YQ==","body":"Yg=="}]}'
    answer = append_json(client, dialect, basin, stream, body)
    refused(answer, "bad_json", "`body`", "twice")
    body = b'{"stream":"t","config":{"delete_on_empty":{},"delete_on_empty":{}}}'
    answer = client.post("/v1/streams", body, {f"{dialect}-basin": basin})
    refused(answer, "bad_json", "`delete_on_empty`", "twice")
    answer = client.get(
        f"/v1/streams/{stream}/records?seq_num=0&count=1&seq_num=0", {f"{dialect}-basin": basin}
    )
    refused(answer, "bad_query", "`seq_num`", "twice")


def test_a_word_is_repeated_in_part_and_as_it_can_be_printed(
    client: Client, basin: str, stream: str
) -> None:
    """64 characters of it, without what a terminal would obey."""
    name = "\\u001b[31m`" + "x" * 5000
    body = f'{{"records":[{{}}],"{name}":1,"{name}":2}}'.encode()
    answer = append_json(client, "svc", basin, stream, body)
    message = refused(answer, "bad_json", "`?[31m?xxx")
    assert len(message) < 150
    assert message.isprintable()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_body_says_so(client: Client, basin: str, stream: str, dialect: str) -> None:
    """Also one of blanks, and one of no protobuf fields."""
    named = {f"{dialect}-basin": basin}
    for body in (b"", b" \r\n"):
        answer = append_json(client, dialect, basin, stream, body)
        refused(answer, "bad_json", "the body is empty")
        refused(client.post("/v1/streams", body, named), "bad_json", "the body is empty")
        answer = client.request("PATCH", f"/v1/streams/{stream}", body, named)
        refused(answer, "bad_json", "the body is empty")
    answer = append_proto(client, dialect, basin, stream, pb.AppendInput())
    refused(answer, "invalid", "the body is empty", "1 to 1000 records")
    assert client.tail(basin, stream) == 0


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/basins"),
        ("PATCH", "/v1/basins/{basin}"),
        ("POST", "/v1/access-tokens"),
        ("PUT", "/v1/locations/default"),
    ],
)
def test_an_empty_body_says_so_of_what_belongs_to_no_stream(
    client: Client, basin: str, dialect: str, method: str, path: str
) -> None:
    """Where a body is needed; the header that marks the dialect says nothing else."""
    marked = {f"{dialect}-strict": "false", "content-type": "application/json"}
    answer = client.request(method, path.format(basin=basin), b"", marked)
    refused(answer, "bad_json", "the body is empty", status=400)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_errors_of_encryption_name_the_header_of_the_dialect(
    client: Client, dialect: str, kind: str
) -> None:
    """Appends and reads without a key."""
    basin = new_basin(client)
    named = {f"{dialect}-basin": basin}
    change = b'{"stream_cipher":"aegis-256"}'
    assert client.request("PATCH", f"/v1/basins/{basin}", change, named).status == 200
    client.create_stream(basin, "sealed")
    wanted = pb.AppendInput()
    wanted.records.add(body=b"x")
    answers = [client.get("/v1/streams/sealed/records?seq_num=0", {**named, "accept": kind})]
    if kind == PROTOBUF:
        answers.append(append_proto(client, dialect, basin, "sealed", wanted))
    else:
        answers.append(append_json(client, dialect, basin, "sealed", {"records": [{}]}))
    other = "s2" if dialect == "svc" else "svc"
    for answer in answers:
        message = refused(answer, "bad_header", "aegis-256", f"{dialect}-encryption-key")
        assert f"{other}-encryption-key" not in message


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF, "text/event-stream"])
def test_a_key_that_opens_nothing_is_told_by_its_header(
    client: Client, dialect: str, kind: str
) -> None:
    """Another key of 32 bytes, and text that is none; neither is repeated."""
    basin = new_basin(client)
    named = {f"{dialect}-basin": basin, "accept": kind}
    change = b'{"stream_cipher":"aegis-256"}'
    assert client.request("PATCH", f"/v1/basins/{basin}", change, named).status == 200
    client.create_stream(basin, "sealed")
    header = f"{dialect}-encryption-key"
    key, wrong = b64(b"k" * 32), b64(b"w" * 32)
    appended = append_json(client, dialect, basin, "sealed", {"records": [{}, {}]}, **{header: key})
    assert appended.status == 200, appended
    path = "/v1/streams/sealed/records?seq_num=0"
    other = "s2" if dialect == "svc" else "svc"
    for text, code in ((wrong, "decryption_failed"), ("c2hvcnQ=", "bad_header")):
        answer = client.get(path, {**named, header: text})
        if answer.headers["content-type"] == "text/event-stream":
            # what is found while records are opened is an event, the last one
            assert code == "decryption_failed", answer
            event = answer.body.decode().removeprefix("event: error\ndata: ")
            answer = Answer(400, {"content-type": JSON}, event.encode())
        message = refused(answer, code, header, status=400)
        assert f"{other}-" not in message
        assert text not in message
