"""Appending and reading records.

Rules: contract 2.5, 2.6, 2.7, 2.8, 3.3, 4.1, 4.2, 4.4, 4.5, 5.1, 5.2, 5.3, 5.4, 5.5, 5.6, 5.8, 7.1,
7.2, 7.3 and 7.4.
"""

from __future__ import annotations

import struct
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.client import Client, b64
from tests.contract.conftest import ALSO_BY_LIBRARY

BODY_BYTES_MAX = 1_048_568


SHARES_A_BASIN = True
pytestmark = ALSO_BY_LIBRARY


def test_an_append_answers_with_the_positions_it_took(
    client: Client, basin: str, stream: str
) -> None:
    """start, end and tail are as the wire says, and end - start is the number of records."""
    first = client.append(basin, stream, b"a", b"b")
    second = client.append(basin, stream, b"c")
    assert first.status == second.status == 200
    assert first.json["start"]["seq_num"] == 0
    assert first.json["end"]["seq_num"] == 2
    assert second.json["start"]["seq_num"] == 2
    assert second.json["end"] == second.json["tail"]
    assert set(second.json) == {"start", "end", "tail"}


def test_a_read_returns_what_was_appended_in_both_formats(
    client: Client, basin: str, stream: str
) -> None:
    """Headers keep order and duplicates; each format encodes names, values and bodies alike."""
    record = {"headers": [["kéy", ""], ["a", "1"], ["a", "2"]], "body": "grüß"}
    sent = client.post(
        f"/v1/streams/{stream}/records",
        {"records": [record]},
        {"svc-basin": basin, "svc-format": "utf8"},
    )
    assert sent.status == 200, sent
    (plain,) = client.read(basin, stream, **{"svc-format": "utf8"}).json["records"]
    assert plain["headers"] == record["headers"]
    assert plain["body"] == record["body"]
    (coded,) = client.read(basin, stream).json["records"]
    assert coded["headers"] == [[b64(name), b64(value)] for name, value in record["headers"]]
    assert coded["body"] == b64("grüß")


@pytest.mark.parametrize("word", ["raw", "json", "utf8"])
def test_every_name_of_the_text_format_is_understood(
    client: Client, basin: str, stream: str, word: str
) -> None:
    """Either family's header with either family's word is honoured."""
    sent = client.post(
        f"/v1/streams/{stream}/records",
        {"records": [{"body": "=="}]},
        {"s2-basin": basin, "s2-format": word},
    )
    assert sent.status == 200, sent
    assert client.read(basin, stream).json["records"][0]["body"] == b64("==")


def test_the_data_format_is_raw_by_default_in_the_s2_dialect(
    client: Client, basin: str, stream: str
) -> None:
    """What is no base64 is text there; in the other dialect it is refused."""
    body = {"records": [{"headers": [["n", "="]], "body": "not base64!"}]}
    path = f"/v1/streams/{stream}/records"
    assert client.post(path, body, {"s2-basin": basin}).status == 200
    assert client.post(path, body, {"s2-basin": basin, "s2-format": "base64"}).status == 422
    assert client.post(path, body, {"svc-basin": basin}).status == 400
    (record,) = client.read(basin, stream).json["records"]
    assert record["body"] == b64("not base64!")


def test_invalid_utf8_is_replaced_in_the_text_format(
    client: Client, basin: str, stream: str
) -> None:
    """Bytes that are not text come out as U+FFFD, never as a failure."""
    client.append(basin, stream, b"a\xffb")
    (record,) = client.read(basin, stream, **{"svc-format": "utf8"}).json["records"]
    assert record["body"] == "a\N{REPLACEMENT CHARACTER}b"


def test_an_empty_record_takes_a_sequence_number_and_shows_no_members(
    client: Client, basin: str, stream: str
) -> None:
    """A record without headers and body is legal; empty members are omitted on reads."""
    sent = client.post(f"/v1/streams/{stream}/records", {"records": [{}]}, {"svc-basin": basin})
    assert sent.status == 200, sent
    (record,) = client.read(basin, stream).json["records"]
    assert set(record) == {"seq_num", "timestamp"}


def test_the_largest_record_is_accepted_and_one_byte_more_is_not(
    client: Client, basin: str, stream: str
) -> None:
    """1,048,568 bytes of body are exactly 1 MiB metered."""
    assert client.append(basin, stream, b"x" * BODY_BYTES_MAX).status == 200
    refused = client.append(basin, stream, b"x" * (BODY_BYTES_MAX + 1))
    assert refused.status == 400
    assert refused.json["error"] == "validation_error"
    assert refused.json["code"] == "invalid"
    assert client.tail(basin, stream) == 1
    (record,) = client.read(basin, stream).json["records"]
    assert len(record["body"]) == len(b64(b"x" * BODY_BYTES_MAX))


def test_headers_are_metered_too(client: Client, basin: str, stream: str) -> None:
    """8 + 2 a header + names + values + body is what counts against the limit."""
    for spare, status in ((0, 200), (1, 400)):
        body = b"x" * (BODY_BYTES_MAX - 2 - 3 - 4 + spare)
        record = {"headers": [[b64("abc"), b64("defg")]], "body": b64(body)}
        sent = client.post(
            f"/v1/streams/{stream}/records", {"records": [record]}, {"svc-basin": basin}
        )
        assert sent.status == status, sent.body[:200]


def test_a_batch_has_one_to_a_thousand_records(client: Client, basin: str, stream: str) -> None:
    """0 and 1001 are refused, 1000 are taken."""
    assert client.append(basin, stream).status == 400
    assert client.append(basin, stream, *[b"x"] * 1001).status == 400
    assert client.append(basin, stream, *[b"x"] * 1000).json["end"]["seq_num"] == 1000


def test_a_legal_batch_may_be_six_times_larger_as_json(
    client: Client, basin: str, stream: str
) -> None:
    """A 1 MiB text body written wholly in escapes is under the limit of a request body."""
    escaped = b"\\u0001" * BODY_BYTES_MAX
    sent = client.post(
        f"/v1/streams/{stream}/records",
        b'{"records":[{"body":"' + escaped + b'"}]}',
        {"svc-basin": basin, "svc-format": "utf8"},
    )
    assert sent.status == 200, sent.body[:200]


@pytest.mark.parametrize(
    "bad",
    [
        {"body": "not base64!"},
        {"headers": [["", "ZmVuY2U="], ["YQ==", "YQ=="]]},
        {"headers": [["", b64("unknown")]]},
        {"headers": [["", b64("trim")]], "body": b64(b"seven b")},
    ],
)
def test_one_bad_record_refuses_the_whole_batch(
    client: Client, basin: str, stream: str, bad: dict[str, Any]
) -> None:
    """Nothing gets a sequence number when any record of a batch is refused."""
    records = [{"body": b64("fine")}, bad, {"body": b64("fine")}]
    sent = client.post(f"/v1/streams/{stream}/records", {"records": records}, {"svc-basin": basin})
    assert sent.status == 400
    assert sent.json["code"] == "invalid"
    assert sent.headers["svc-side-effects"] == "none"
    assert client.tail(basin, stream) == 0


def test_both_path_shapes_are_one_stream(client: Client, basin: str, stream: str) -> None:
    """What is appended by one shape is read by the other, in either direction."""
    path = f"/v1/basins/{basin}/streams/{stream}"
    assert client.post(f"{path}/append", {"records": [{"body": b64("1")}]}).status == 200
    assert client.append(basin, stream, b"2").status == 200
    by_path = client.get(f"{path}/read")
    by_header = client.read(basin, stream)
    assert [r["body"] for r in by_path.json["records"]] == [b64("1"), b64("2")]
    assert by_path.json == by_header.json


@pytest.mark.parametrize(
    "name",
    ["a/b", "sp ace", "日本語", "🎉", "100%", "a?b#c", "..a", "a%2Fb", "+", "x" * 512, "records"],
)
def test_names_are_decoded_exactly_once(client: Client, basin: str, name: str) -> None:
    """A stream name of any UTF-8 survives create, append, read and list."""
    created = client.post("/v1/streams", {"stream": name}, {"svc-basin": basin})
    assert created.status == 201, created
    assert created.json["name"] == name
    segment = quote(name, safe="")
    assert client.append(basin, segment, b"x").status == 200
    assert len(client.get(f"/v1/basins/{basin}/streams/{segment}/read").json["records"]) == 1
    listed = client.get("/v1/streams", {"svc-basin": basin}).json["streams"]
    assert [info["name"] for info in listed].count(name) == 1


@pytest.mark.parametrize("segment", ["%", "%2", "%zz", "%ff", "a%2", "%2e", "%2E.", "x" * 513, ""])
def test_a_bad_name_in_a_path_is_a_bad_path(client: Client, basin: str, segment: str) -> None:
    """Broken escapes, bytes that are no UTF-8, dots alone, too long, empty."""
    answer = client.append(basin, segment, b"x")
    assert answer.status == 400
    assert answer.json["code"] == "bad_path"


def test_match_seq_num_of_zero_is_a_condition(client: Client, basin: str, stream: str) -> None:
    """0 passes on an empty stream and fails on another; null is no condition."""
    assert client.append(basin, stream, b"x", match_seq_num=0).status == 200
    assert client.append(basin, stream, b"x", match_seq_num=0).status == 412
    assert client.append(basin, stream, b"x", match_seq_num=None).status == 200


def test_fencing_is_tested_before_the_sequence_number(
    client: Client, basin: str, stream: str
) -> None:
    """The empty token passes on a fresh stream; a fence makes the other tokens fail; a request
    without a token always passes."""
    assert client.append(basin, stream, b"x", fencing_token="").status == 200
    fence = {"headers": [["", b64("fence")]], "body": b64("owner")}
    assert (
        client.post(
            f"/v1/streams/{stream}/records", {"records": [fence]}, {"svc-basin": basin}
        ).status
        == 200
    )
    refused = client.append(basin, stream, b"x", fencing_token="", match_seq_num=99)
    assert refused.status == 412
    assert refused.json["fencing_token_mismatch"] == "owner"
    assert client.append(basin, stream, b"x", fencing_token="owner").status == 200
    assert client.append(basin, stream, b"x").status == 200


def test_a_fence_is_read_back_as_an_ordinary_record(
    client: Client, basin: str, stream: str
) -> None:
    """An empty header name stays the empty string in both formats."""
    fence = {"headers": [["", "fence"]], "body": "owner"}
    client.post(
        f"/v1/streams/{stream}/records",
        {"records": [fence]},
        {"svc-basin": basin, "svc-format": "utf8"},
    )
    (plain,) = client.read(basin, stream, **{"svc-format": "utf8"}).json["records"]
    assert (plain["headers"], plain["body"]) == ([["", "fence"]], "owner")
    (coded,) = client.read(basin, stream).json["records"]
    assert (coded["headers"], coded["body"]) == ([["", "ZmVuY2U="]], b64("owner"))


def test_a_fencing_token_has_at_most_36_bytes(client: Client, basin: str, stream: str) -> None:
    """In the condition and in the command, counted in UTF-8."""
    assert client.append(basin, stream, b"x", fencing_token="é" * 18).status == 412
    assert client.append(basin, stream, b"x", fencing_token="é" * 18 + "a").status == 400
    for body, status in (("é" * 18, 200), ("é" * 19, 400)):
        record = {"headers": [["", b64("fence")]], "body": b64(body)}
        sent = client.post(
            f"/v1/streams/{stream}/records", {"records": [record]}, {"svc-basin": basin}
        )
        assert sent.status == status


def test_reads_begin_at_the_first_record_that_was_not_trimmed(
    client: Client, basin: str, stream: str
) -> None:
    """A trim hides records below its point, up to and including itself at most."""
    client.append(basin, stream, b"0", b"1", b"2")
    trim = {"headers": [["", b64("trim")]], "body": b64(struct.pack(">Q", 2))}
    client.post(f"/v1/streams/{stream}/records", {"records": [trim]}, {"svc-basin": basin})
    for query in ("", "seq_num=0", "seq_num=1&count=10"):
        numbers = [r["seq_num"] for r in client.read(basin, stream, query).json["records"]]
        assert numbers == [2, 3]
    everything = {"headers": [["", b64("trim")]], "body": b64(b"\xff" * 8)}
    client.post(f"/v1/streams/{stream}/records", {"records": [everything]}, {"svc-basin": basin})
    answer = client.read(basin, stream, "seq_num=0")
    assert answer.status == 200
    assert answer.json["records"] == []
    assert answer.json["tail"]["seq_num"] == 5


def test_client_timestamps_are_kept_and_never_go_back(
    client: Client, basin: str, stream: str
) -> None:
    """A lower timestamp is raised to the running maximum."""
    records = [{"timestamp": 2000}, {"timestamp": 1000}, {"timestamp": 2001}]
    sent = client.post(f"/v1/streams/{stream}/records", {"records": records}, {"svc-basin": basin})
    assert sent.json["start"]["timestamp"] == 2000
    assert sent.json["end"]["timestamp"] == 2001
    read = client.read(basin, stream).json["records"]
    assert [r["timestamp"] for r in read] == [2000, 2000, 2001]


def test_check_tail_of_an_empty_stream_is_zero(client: Client, basin: str, stream: str) -> None:
    """0/0, in an object of its own."""
    answer = client.get(f"/v1/streams/{stream}/records/tail", {"svc-basin": basin})
    assert answer.json == {"tail": {"seq_num": 0, "timestamp": 0}}
