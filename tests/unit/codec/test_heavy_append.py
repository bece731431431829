"""Bodies that are walked: what comes out is what the library makes of them in one go, and no step
is long, whatever they are dear by."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import MalformedError, ServiceError
from svc_cluster.codec import heavy_append, json_body, json_walk
from svc_cluster.codec.batch_builder import BatchBuilder
from svc_cluster.codec.batch_codec import RecordIn
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX
from svc_cluster.codec.json_body import LIGHT_ARRAYS_MAX, DataFormat
from tests.at_once import build_batch, decode_json_append
from tests.unit.codec.stored import records_of
from tests.unit.codec.test_bodies_made_to_be_dear import filled, longest_step, pairs

pytestmark = pytest.mark.usefixtures("python_alone")

PIECE = 48
"""So short that every odd character comes to lie across the end of one."""

TEXT = st.text(st.sampled_from('a"\\é€\U0001f600\n:[]{}, \x01\u2028'), max_size=40)
TOKEN = TEXT.filter(lambda text: len(json.dumps(text)) <= PIECE)
"""A fencing token is read in one go; none that may be given is as long as a real piece."""
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "timestamp": st.none() | st.integers(-1, 2**64) | VALUE,
        "headers": st.none() | st.lists(st.tuples(TEXT, TEXT), max_size=4) | VALUE,
        "body": TEXT | VALUE,
        "also": VALUE,
    },
)
APPEND = st.fixed_dictionaries(
    {"records": st.lists(RECORD, max_size=4)},
    optional={"match_seq_num": st.integers() | VALUE, "fencing_token": TOKEN, "also": VALUE},
)


@given(append=APPEND, ascii_only=st.booleans(), indent=st.none() | st.just(1), data=st.data())
def test_what_is_walked_is_what_the_library_takes(
    append: Any, ascii_only: bool, indent: int | None, data: st.DataObject
) -> None:
    """Of bodies that are right, nearly right, and damaged in one place."""
    body = json.dumps(append, ensure_ascii=ascii_only, indent=indent).encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(body) - 1))
        odd = data.draw(st.sampled_from([b"", b",", b'"', b"\\", b"\\ud83d", b"0", b"\xff", b"]"]))
        body = body[:at] + odd + body[at + data.draw(st.integers(0, 1)) :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_walk, "PIECE_BYTES", PIECE)
        patch.setattr(heavy_append, "PIECE_BYTES", PIECE)
        patch.setattr(json_body, "LIGHT_BYTES_MAX", 0)
        patch.setattr(json_body, "LIGHT_TEXT_BYTES_MAX", 0)
        walked = _outcome(lambda: decode_json_append(body, DataFormat.UTF8))
    assert walked == _outcome(lambda: decode_json_append(body, DataFormat.UTF8))


def _outcome(decode: Any) -> Any:
    """None: it is refused."""
    try:
        return decode()
    except ServiceError:
        return None


@given(
    records=st.lists(
        st.tuples(
            st.none() | st.integers(0, 2**64 - 1),
            st.lists(st.tuples(st.binary(max_size=2), st.binary(max_size=300)), max_size=5),
            st.binary(max_size=300) | st.just(b"fence"),
        ),
        max_size=4,
    ),
    at_once_max=st.integers(1, 3),
)
def test_a_batch_of_portions_is_the_batch_of_the_whole(
    records: list[RecordIn], at_once_max: int
) -> None:
    """The same bytes, counts and commands, or a refusal of both."""

    def built() -> Any:
        builder = BatchBuilder()
        for timestamp, headers, body in records:
            for begin in range(0, len(headers), at_once_max):
                builder.add_headers(headers[begin : begin + at_once_max])
            builder.end_record(timestamp, body)
        return builder.batch()

    assert _outcome(built) == _outcome(lambda: build_batch(records))


LIMIT = METERED_BYTES_MAX - 8
DEAR: dict[str, bytes] = {
    "escapes": b'{"records":[{"body":"%b"}]}' % (b"\\u0001" * LIMIT),
    "escapes in many records": b'{"records":[%b]}'
    % b",".join([b'{"body":"%b"}' % (b"\\u0001" * 1040)] * 1000),
    "pairs of surrogates": b'{"records":[{"body":"%b"}]}' % (b"\\ud83d\\ude00" * (LIMIT // 4)),
    "surrogates behind one escape": b'{"records":[{"body":"\\u0001%b"}]}'
    % (b"\\ud83d\\ude00" * (LIMIT // 4 - 1)),
    "blanks": filled(b'{"records":[{}]', b" ", b"}"),
    "blanks between members": filled(b'{"records":[{}', b" " * 999 + b",{}", b"]}", 990_000)
    + b" " * 7_000_000,
    "unknown text": filled(b'{"records":[{}],"a":"', b"\\u0001", b'"}', 8_000_000),
    "headers of two letters": pairs(b'["ab",""]', LIMIT // 4),
    "headers of less than two MiB": pairs(b'["a",""]', 220_000),
    "a long value among headers": pairs(b'["a",""]', 9000)[:-4]
    + b',["b","%b"]]}]}' % (b"\\n" * 1_000_000),
}
REFUSED: dict[str, bytes] = {
    "digits": filled(b'{"records":[{}],"a":', b"1", b"}"),
    "digits behind a point": filled(b'{"records":[{}],"a":0.', b"1", b"}"),
    "digits of a condition": filled(b'{"records":[{}],"match_seq_num":', b"1", b"}"),
    "a doubled member": filled(b'{"records":[{"body":"', b"x", b'"}],"a":0,"a":0}'),
    "more text than a batch has": filled(b'{"records":[{"body":"', b"\\n", b'"}]}', 2_900_000),
    "a long name": filled(b'{"records":[{}],"', b"a", b'":0}'),
}


@pytest.mark.parametrize("name", DEAR)
def test_what_is_dear_is_taken_in_short_steps(name: str) -> None:
    """Every step takes less than making the reference's objects, and nothing is lost."""
    body = DEAR[name]
    steps = lambda: json_body.decode_append_steps(body, DataFormat.UTF8)  # noqa: E731
    longest, found = longest_step(steps)
    assert not isinstance(found, ServiceError), found
    said = json.loads(body)["records"]
    assert records_of(found.batch) == [
        (
            None,
            [(name.encode(), value.encode()) for name, value in record.get("headers", ())],
            record.get("body", "").encode(),
        )
        for record in said
    ]
    assert longest < 1.5


def test_many_escapes_are_taken_in_more_steps_than_as_many_plain_bytes() -> None:
    """The library has most to do where every character is an escape."""

    def steps_of(text: bytes) -> int:
        body = b'{"records":[{"body":"%b"}]}' % text
        return sum(1 for _ in json_body.decode_append_steps(body, DataFormat.UTF8))

    escapes = b"\\u0001" * (json_body.LIGHT_ESCAPES_MAX + 1)
    assert len(escapes) < json_body.LIGHT_TEXT_BYTES_MAX
    assert steps_of(escapes) > steps_of(b"x" * len(escapes)) + 5


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_dear_and_wrong_is_refused_in_short_steps(name: str) -> None:
    body = REFUSED[name]
    longest, outcome = longest_step(lambda: json_body.decode_append_steps(body, DataFormat.UTF8))
    assert isinstance(outcome, ServiceError), outcome
    assert longest < 1.5


@pytest.mark.parametrize(
    ("before", "member", "told"),
    [
        (b'"match_seqnum":0,', b"", "there is no member `match_seqnum`"),
        (b"", b',"bodyy":"x"', "there is no member `records[0].bodyy`"),
    ],
)
def test_a_strict_request_is_as_strict_in_a_dear_body(
    before: bytes, member: bytes, told: str
) -> None:
    """Many headers send it the other way; the refusal is the same, and without `strict` there is
    none."""
    for count in (1, LIGHT_ARRAYS_MAX + 1):
        headers = b",".join([b'["a","b"]'] * count)
        body = b'{%b"records":[{"headers":[%b]%b}]}' % (before, headers, member)
        assert decode_json_append(body, DataFormat.UTF8).batch.record_count == 1
        with pytest.raises(MalformedError, match=re.escape(told)) as refused:
            decode_json_append(body, DataFormat.UTF8, strict=True)
        assert "`timestamp`" in str(refused.value) or "`records`" in str(refused.value)
