"""Answers of reads, made in steps: the same bytes as at one go, and no step that is long."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec import json_body, proto_body
from svc_cluster.codec.batch_codec import (
    HEADERS_AT_ONCE,
    ReadBudget,
    RecordIn,
    RecordOut,
    cut_steps,
)
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.plain_read import Piece
from svc_cluster.codec.read_batch import (
    HEADERS_FORGOTTEN_AT_ONCE,
    forget_steps,
    json_steps,
    proto_steps,
)
from svc_cluster.model.record import Position
from tests.at_once import build_batch, cut
from tests.stored_batches import sequenced

TAIL = Position(SeqNum(5_000), TimestampMs(9))
HEADERS = HEADERS_AT_ONCE * 2 + 7
SHAPES: dict[str, list[RecordIn]] = {
    "none": [],
    "empty": [(None, (), b"")] * 3,
    "many headers in one": [(7, ((b"n\xff", b""), (b"m", b"v")) * HEADERS, b"\xff" * 10)],
    "headers in many": [(None, ((b"a", b"b"),) * 100, b"x")] * 200,
    "a long body": [(1, (), "aé\x01€\U0001f600".encode() * 60_000)],
    "a long body that is no text": [(1, ((b"", b"fence"),), b"t"), (2, (), b"\xc3" * 700_000)],
    "mixed": [
        (1, ((b"a", b""),), b"x" * 300_000),
        (2, (), b"y"),
        (None, ((b"a", b"b"),) * 9_000, b"z" * 400_000),
        (None, (), b""),
    ],
}


def expected(records: list[RecordIn]) -> list[RecordOut]:
    """What was put in, without any of the code that reads it."""
    return [
        RecordOut(
            10 + place,
            9 if timestamp is None else timestamp,
            list(headers),
            body,
            8 + len(body) + sum(2 + len(n) + len(v) for n, v in headers),
        )
        for place, (timestamp, headers, body) in enumerate(records)
    ]


def stepped(steps: Generator[None, None, bytes]) -> tuple[bytes, int]:
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, count
        count += 1


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "none"])
def test_records_are_cut_out_of_a_batch_as_they_were_put_in(shape: str) -> None:
    """Whether they are parsed at one go or walked: positions, timestamps, headers, bodies, sizes;
    from the middle on too, and no run holds more headers than are looked at in one go."""
    batch = sequenced(build_batch(SHAPES[shape]), 10)
    whole = expected(SHAPES[shape])
    for record, right in zip(cut([batch], 0, ReadBudget()), whole, strict=True):
        right.timestamp_ms = record.timestamp_ms if right.timestamp_ms == 9 else right.timestamp_ms
        assert record == right
    assert [r.seq_num for r in cut([batch], 11, ReadBudget())] == [r.seq_num for r in whole[1:]]
    runs = [run for run in cut_steps([batch], 0, ReadBudget(), None) if run is not None]
    assert sum(map(len, runs)) == len(whole)
    for run in runs:
        assert len(run) == 1 or sum(len(r.headers) for r in run) <= HEADERS_AT_ONCE


@pytest.mark.parametrize("tail", [None, TAIL])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_steps_the_bytes_are_the_same(shape: str, tail: Position | None) -> None:
    records = expected(SHAPES[shape])
    for form in DataFormat:
        made, _ = stepped(json_steps(records, tail, form))
        assert made == json_body.encode_read_batch(records, tail, form)
    made, _ = stepped(proto_steps(records, tail))
    assert made == proto_body.encode_read_batch(records, tail)


Steps = Callable[[list[RecordOut]], Generator[None, None, bytes]]


@pytest.mark.parametrize(
    "steps",
    [
        lambda records: json_steps(records, None, DataFormat.UTF8),
        lambda records: json_steps(records, None, DataFormat.BASE64),
        lambda records: proto_steps(records, None),
    ],
    ids=["raw", "base64", "proto"],
)
def test_the_most_headers_there_may_be_are_encoded_a_few_at_a_time(steps: Steps) -> None:
    """Of one record, and of a thousand."""
    count = (METERED_BYTES_MAX - 8) // 3
    one = RecordOut(1, 1, [(b"a", b"")] * count, b"", METERED_BYTES_MAX)
    _, taken = stepped(steps([one]))
    assert taken >= count // HEADERS_AT_ONCE
    many = [RecordOut(1, 1, [(b"a", b"")] * (count // 1000), b"", 1048)] * 1000
    _, taken = stepped(steps(many))
    assert taken >= count // HEADERS_AT_ONCE - 1


@pytest.mark.parametrize("count", [1, 1000])
def test_the_most_headers_there_may_be_are_forgotten_a_few_at_a_time(count: int) -> None:
    """Of one record, and of a thousand: what is left in the end is nothing."""
    each = (METERED_BYTES_MAX - 8 * count) // 3 // count
    records: list[Piece] = [RecordOut(1, 1, [(b"a", b"")] * each, b"", 0) for _ in range(count)]
    kept = [record for record in records if isinstance(record, RecordOut)]

    def left() -> int:
        return sum(len(record.headers) for record in records if isinstance(record, RecordOut))

    steps, before = 0, count * each
    for _ in forget_steps(records):
        steps += 1
        # the record at the end is out of the list already, and empties while it is held
        now = left() + (len(kept[0].headers) if count == 1 else 0)
        assert before - now <= HEADERS_FORGOTTEN_AT_ONCE + each % HEADERS_FORGOTTEN_AT_ONCE
        before = now
    assert records == []
    assert steps >= count * each // HEADERS_FORGOTTEN_AT_ONCE - 1
    assert (len(kept[0].headers) if count == 1 else before) <= HEADERS_FORGOTTEN_AT_ONCE
