"""JSON bodies: strict in, exact out."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import InvalidError, MalformedError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import RecordOut
from svc_cluster.codec.config_json import rfc3339
from svc_cluster.codec.json_body import DataFormat, encode_read_batch
from svc_cluster.model.record import Position
from tests.at_once import decode_json_append
from tests.unit.codec.stored import records_of

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
U64 = st.integers(0, 2**64 - 1)


@given(
    records=st.lists(
        st.tuples(st.none() | U64, st.lists(st.tuples(NAME, TEXT), max_size=3), TEXT),
        min_size=1,
        max_size=4,
    ),
    match_seq_num=st.none() | U64,
    data_format=st.sampled_from(DataFormat),
    ascii_only=st.booleans(),
)
def test_any_append_is_decoded_to_what_was_encoded(
    records: list[Any], match_seq_num: int | None, data_format: DataFormat, ascii_only: bool
) -> None:
    """Both formats, escaped or not, with colons and quotes in every string."""

    def wire(text: str) -> str:
        if data_format is DataFormat.UTF8:
            return text
        return base64.b64encode(text.encode()).decode()

    body = {
        "records": [
            {
                "timestamp": timestamp,
                "headers": [[wire(n), wire(v)] for n, v in headers],
                "body": wire(text),
            }
            for timestamp, headers, text in records
        ],
        "match_seq_num": match_seq_num,
    }
    encoded = json.dumps(body, ensure_ascii=ascii_only).encode()
    request = decode_json_append(encoded, data_format)
    assert request.match_seq_num == match_seq_num
    assert request.fencing_token is None
    assert records_of(request.batch) == [
        (t, [(n.encode(), v.encode()) for n, v in h], text.encode()) for t, h, text in records
    ]


@given(data=st.binary(max_size=40))
def test_arbitrary_bytes_are_refused_or_decoded_never_a_fault(data: bytes) -> None:
    """No input makes the decoder raise anything but a refusal."""
    for body in (data, b'{"records":[' + data + b"]}", b'{"records":[{"body":"' + data + b'"}]}'):
        with contextlib.suppress(MalformedError, InvalidError):
            decode_json_append(body, DataFormat.BASE64)


@given(data=st.binary(max_size=9), flip=st.integers(0, 63))
def test_base64_has_one_spelling(data: bytes, flip: int) -> None:
    """Whatever is accepted encodes back to the very text that was sent."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = bytearray(base64.b64encode(data))
    digits = len(text.rstrip(b"="))
    if digits:
        text[digits - 1] = alphabet[flip]
    try:
        request = decode_json_append(
            b'{"records":[{"body":"%b"}]}' % bytes(text), DataFormat.BASE64
        )
    except InvalidError:
        assert base64.b64encode(base64.b64decode(bytes(text))) != bytes(text)
    else:
        assert base64.b64encode(records_of(request.batch)[0][2]) == bytes(text)


@pytest.mark.parametrize(
    "body",
    [
        b'{"records":[],"records":[]}',
        b'{"records":[{"body":"","body":""}]}',
        b'{"records":[{"body":":","b\\u006fdy":""}]}',
        b'{"records":[],"x":[{"y":{"a":1,"a":1}}]}',
        b'{"records":[],"match_seq_num":1,"match_seq_num":1}',
    ],
)
def test_a_member_that_stands_twice_is_refused(body: bytes) -> None:
    """However it is spelt and wherever it stands."""
    with pytest.raises(MalformedError, match="twice"):
        decode_json_append(body, DataFormat.UTF8)


@given(
    headers=st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), max_size=3),
    body=st.binary(max_size=20),
)
def test_a_read_batch_is_one_line_of_standard_json(
    headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """base64 comes back exactly; the text format replaces what is no UTF-8."""
    record = RecordOut(7, 9, headers, body, 8)
    tail = Position(SeqNum(8), TimestampMs(9))
    for data_format in DataFormat:
        encoded = encode_read_batch([record], tail, data_format)
        assert b"\n" not in encoded
        (found,) = json.loads(encoded)["records"]
        if data_format is DataFormat.BASE64:

            def text(data: bytes) -> str:
                return base64.b64encode(data).decode()
        else:

            def text(data: bytes) -> str:
                return data.decode("utf-8", "replace")

        expected: dict[str, Any] = {"seq_num": 7, "timestamp": 9}
        if headers:
            expected["headers"] = [[text(n), text(v)] for n, v in headers]
        if body:
            expected["body"] = text(body)
        assert found == expected


def test_an_empty_read_batch_keeps_its_list() -> None:
    """`records` is never omitted; `tail` is when there is none to tell."""
    assert encode_read_batch([], None, DataFormat.UTF8) == b'{"records":[]}'


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (2**63, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_rfc_3339_with_milliseconds(timestamp_ms: int, text: str) -> None:
    """Exact to the millisecond, at any value."""
    assert rfc3339(timestamp_ms) == text
