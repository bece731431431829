"""Unary appends and reads in protobuf. Rules: contract 5.1 and 4.4."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
import zstandard

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from tests.contract.client import Answer, Client, b64
from tests.contract.session_client import append_input

SHARES_A_BASIN = True
PROTOBUF = "application/protobuf"


def post(client: Client, basin: str, stream: str, body: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(
        f"/v1/streams/{stream}/records",
        body,
        {"svc-basin": basin, "content-type": PROTOBUF, **named},
    )


def ack_of(answer: Answer) -> pb.AppendAck:
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == PROTOBUF
    return pb.AppendAck.FromString(answer.body)


def batch_of(answer: Answer) -> pb.ReadBatch:
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == PROTOBUF
    return pb.ReadBatch.FromString(answer.body)


@pytest.mark.parametrize("kind", [PROTOBUF, "application/x-protobuf", "Application/Protobuf; a=b"])
def test_both_media_types_are_understood_and_answered_with_the_one(
    client: Client, basin: str, stream: str, kind: str
) -> None:
    """In Content-Type and in Accept, of appends and reads."""
    sent = post(client, basin, stream, append_input(b"a\xff", b""), content_type=kind, accept=kind)
    ack = ack_of(sent)
    assert (ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num) == (0, 2, 2)
    assert ack.end.timestamp > 1_600_000_000_000
    batch = batch_of(client.read(basin, stream, "seq_num=0", accept=kind))
    assert [(r.seq_num, r.body) for r in batch.records] == [(0, b"a\xff"), (1, b"")]
    assert batch.tail.seq_num == 2


def test_the_answer_has_the_form_of_accept_whatever_the_request_has(
    client: Client, basin: str, stream: str
) -> None:
    """All four pairs."""
    for number, (kind, accept) in enumerate(
        [
            (PROTOBUF, PROTOBUF),
            (PROTOBUF, "application/json"),
            ("application/json", PROTOBUF),
            ("application/json", "*/*"),
        ]
    ):
        body = append_input(b"x") if kind == PROTOBUF else b'{"records":[{"body":"eA=="}]}'
        answer = post(client, basin, stream, body, content_type=kind, accept=accept)
        if accept == PROTOBUF:
            assert ack_of(answer).start.seq_num == number
        else:
            assert answer.json["start"]["seq_num"] == number


def test_what_one_form_writes_the_other_reads(client: Client, basin: str, stream: str) -> None:
    """Headers in order, empty members, client timestamps."""
    message = pb.AppendInput()
    record = message.records.add(timestamp=5, body=b"body")
    record.headers.add(name=b"n", value=b"\xff")
    record.headers.add(name=b"n")
    message.records.add()
    assert post(client, basin, stream, message.SerializeToString()).status == 200
    one, two = client.read(basin, stream).json["records"]
    assert one["headers"] == [[b64("n"), b64(b"\xff")], [b64("n"), ""]]
    assert (one["timestamp"], one["body"]) == (5, b64("body"))
    assert set(two) == {"seq_num", "timestamp"}
    client.append(basin, stream, b"json")
    batch = batch_of(client.read(basin, stream, accept=PROTOBUF))
    assert [(h.name, h.value) for h in batch.records[0].headers] == [(b"n", b"\xff"), (b"n", b"")]
    assert batch.records[2].body == b"json"


def test_zero_and_the_empty_token_are_conditions(client: Client, basin: str, stream: str) -> None:
    """Presence counts: both pass on a fresh stream, and fail on another."""
    fence = pb.AppendInput(match_seq_num=0, fencing_token="")
    fence.records.add(body=b"owner").headers.add(value=b"fence")
    assert post(client, basin, stream, fence.SerializeToString()).status == 200
    refused = post(client, basin, stream, append_input(b"x", match_seq_num=0))
    assert (refused.status, refused.json["seq_num_mismatch"]) == (412, 1)
    refused = post(client, basin, stream, append_input(b"x", fencing_token=""))
    assert (refused.status, refused.json["fencing_token_mismatch"]) == (412, "owner")
    assert post(client, basin, stream, append_input(b"x", fencing_token="owner")).status == 200
    assert post(client, basin, stream, append_input(b"x")).status == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\x0a", "bad_proto"),
        (b"\x0a\x7fx", "bad_proto"),
        (b'{"records":[{}]}', "bad_proto"),
        (b"\x10" + b"\xff" * 10 + b"\x01", "bad_proto"),
        (b"\x0a\x00\x1a\x01\xff", "bad_proto"),
        (b"", "invalid"),
        (append_input(*[b""] * 1001), "invalid"),
        (append_input(b"x" * 1_048_569), "invalid"),
        (append_input(b"", fencing_token="x" * 37), "invalid"),
    ],
)
def test_a_refusal_is_json_whatever_is_accepted(
    client: Client, basin: str, stream: str, body: bytes, code: str
) -> None:
    """400 in this dialect, with the code that says what is wrong; nothing is appended."""
    answer = post(client, basin, stream, body, accept=PROTOBUF)
    assert answer.status == 400
    assert answer.json["code"] == code
    assert answer.headers["svc-side-effects"] == "none"
    assert client.tail(basin, stream) == 0


def test_an_invalid_append_is_422_in_the_s2_dialect(
    client: Client, basin: str, stream: str
) -> None:
    """What does not parse is 400 in both."""
    for body, status in ((append_input(), 422), (b"\x0a", 400)):
        headers = {"s2-basin": basin, "content-type": PROTOBUF, "accept": PROTOBUF}
        answer = client.post(f"/v1/streams/{stream}/records", body, headers)
        assert answer.status == status, answer


def test_json_needs_its_media_type(client: Client, basin: str, stream: str) -> None:
    """A body of another or no type is refused as JSON that is not said to be."""
    for kind in ("text/plain", "application/octet-stream", ""):
        answer = post(client, basin, stream, b'{"records":[{}]}', content_type=kind)
        assert (answer.status, answer.json["code"]) == (400, "bad_json")


def test_the_largest_record_and_the_largest_body(client: Client, basin: str, stream: str) -> None:
    """1,048,568 bytes of body are taken; a request of more than 2 MiB is not looked at."""
    assert post(client, basin, stream, append_input(b"x" * 1_048_568)).status == 200
    batch = batch_of(client.read(basin, stream, accept=PROTOBUF))
    assert len(batch.records[0].body) == 1_048_568
    answer = post(client, basin, stream, append_input(b"x") + b"\x7a" + bytes(2 * 1024 * 1024))
    assert answer.status == 413
    assert client.tail(basin, stream) == 1


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_compressed_body_is_decompressed_within_its_bound(
    client: Client, basin: str, stream: str, coding: str
) -> None:
    """The limit of 2 MiB is of what comes out."""

    def packed(data: bytes) -> bytes:
        if coding == "gzip":
            return gzip.compress(data)
        return zstandard.ZstdCompressor().compress(data)

    good = post(client, basin, stream, packed(append_input(b"x" * 9000)), content_encoding=coding)
    assert good.status == 200, good
    bomb = post(client, basin, stream, packed(bytes(2 * 1024 * 1024 + 1)), content_encoding=coding)
    assert (bomb.status, bomb.json["code"]) == (400, "bad_proto")
    broken = post(client, basin, stream, packed(b"x" * 900)[:-9], content_encoding=coding)
    assert (broken.status, broken.json["code"]) == (400, "bad_proto")


def test_the_format_header_is_of_json_alone(client: Client, basin: str, stream: str) -> None:
    """Ignored with a protobuf append, honoured nowhere in protobuf, but checked on every read."""
    assert post(client, basin, stream, append_input(b"x"), svc_format="nonsense").status == 200
    headers: dict[str, Any] = {"svc-format": "utf8", "accept": PROTOBUF}
    assert batch_of(client.read(basin, stream, **headers)).records[0].body == b"x"
    refused = client.read(basin, stream, **{"svc-format": "nonsense", "accept": PROTOBUF})
    assert (refused.status, refused.json["code"]) == (400, "bad_header")
