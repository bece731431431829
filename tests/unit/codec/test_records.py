"""Stored batches: made from client records, cut back into records."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import InternalError, InvalidError
from svc_cluster.codec.batch_codec import ReadBudget, RecordIn
from svc_cluster.model.record import (
    CommandKind,
    SequencedBatch,
)
from tests.at_once import build_batch, cut
from tests.stored_batches import sequenced

KEPT = partial(sequenced, arrival_ms=500, uncapped=True)
"""In a stream that keeps client timestamps; others get 500."""

RECORD = st.tuples(
    st.none() | st.integers(0, 2**64 - 1),
    st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.binary(max_size=5)), max_size=3),
    st.binary(max_size=20),
)


def metered(record: RecordIn) -> int:
    """The formula of the wire contract, written out once more."""
    _, headers, body = record
    return 8 + 2 * len(headers) + sum(len(n) + len(v) for n, v in headers) + len(body)


@given(records=st.lists(RECORD, min_size=1, max_size=6), start=st.integers(0, 20))
def test_what_is_built_is_cut_back_from_any_start(records: list[Any], start: int) -> None:
    """Headers, bodies, counts and sizes survive; records below the start are skipped."""
    batch = build_batch(records)
    assert batch.record_count == len(records)
    assert batch.metered_bytes == sum(map(metered, records))
    given_timestamps = [r[0] for r in records if r[0] is not None]
    assert batch.timestamps_given == len(given_timestamps)
    assert batch.timestamp_max_ms == max(given_timestamps, default=None)
    out = cut([KEPT(batch, 10)], start, ReadBudget())
    expected = [(10 + n, r) for n, r in enumerate(records) if 10 + n >= start]
    assert [r.seq_num for r in out] == [n for n, _ in expected]
    assert [r.body for r in out] == [r[2] for _, r in expected]
    assert [list(r.headers) for r in out] == [list(r[1]) for _, r in expected]
    assert [r.metered_bytes for r in out] == [metered(r) for _, r in expected]


@given(
    sizes=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=5), max_size=4),
    count=st.none() | st.integers(0, 12),
    metered_bytes=st.none() | st.integers(0, 200),
)
def test_a_cut_is_the_longest_prefix_within_the_budget(
    sizes: list[list[int]], count: int | None, metered_bytes: int | None
) -> None:
    """Against a direct reading of the rule; the budget is counted down by what was taken."""
    batches = []
    first = 0
    for batch_sizes in sizes:
        batches.append(KEPT(build_batch([(None, (), b"x" * s) for s in batch_sizes]), first))
        first += len(batch_sizes)
    flat = [8 + size for batch_sizes in sizes for size in batch_sizes]
    expected = 0
    while (
        expected < len(flat)
        and (count is None or expected < count)
        and (metered_bytes is None or sum(flat[: expected + 1]) <= metered_bytes)
    ):
        expected += 1
    budget = ReadBudget(count, metered_bytes)
    out = cut(batches, 0, budget)
    assert len(out) == expected
    assert budget.stopped == (expected < len(flat))
    if count is not None:
        assert budget.count == count - expected
    if metered_bytes is not None:
        assert budget.metered_bytes == metered_bytes - sum(flat[:expected])


def test_until_stops_at_the_first_record_of_its_time() -> None:
    """Exclusive; nothing behind is returned even when the read goes on."""
    batch = KEPT(build_batch([(600, (), b""), (700, (), b""), (800, (), b"")]), 0)
    budget = ReadBudget(until_ms=700)
    assert [r.timestamp_ms for r in cut([batch], 0, budget)] == [600]
    assert budget.exhausted
    assert cut([batch], 0, budget) == []


def test_stored_bytes_are_append_input_with_records_alone() -> None:
    """So that joining two batches is joining their bytes."""
    one = build_batch([(5, [(b"n", b"v")], b"one")])
    two = build_batch([(None, [], b"two")])
    joined = pb.AppendInput.FromString(one.records + two.records)
    assert [r.body for r in joined.records] == [b"one", b"two"]
    assert not joined.HasField("match_seq_num")
    assert not joined.HasField("fencing_token")
    assert joined.records[0].timestamp == 5
    assert not joined.records[1].HasField("timestamp")


def test_commands_are_found_at_their_offsets() -> None:
    """Fence and trim, metered as 15 + token and 22."""
    batch = build_batch(
        [
            (None, [], b""),
            (None, [(b"", b"fence")], b"token"),
            (None, [(b"", b"trim")], struct.pack(">Q", 7)),
        ]
    )
    fence, trim = batch.commands
    assert (fence.offset, fence.kind, fence.token) == (1, CommandKind.FENCE, "token")
    assert (trim.offset, trim.kind, trim.trim_point) == (2, CommandKind.TRIM, 7)
    assert batch.metered_bytes == 8 + (15 + 5) + 22


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([(b"", b"fence"), (b"a", b"b")], b""),
        ([(b"a", b"b"), (b"", b"fence")], b""),
        ([(b"", b"")], b""),
        ([(b"", b"Fence")], b""),
        ([(b"", b"fence")], b"x" * 37),
        ([(b"", b"fence")], b"\xff"),
        ([(b"", b"trim")], b""),
        ([(b"", b"trim")], b"x" * 9),
    ],
)
def test_a_bad_command_is_invalid(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """An empty header name belongs to a proper command alone."""
    with pytest.raises(InvalidError):
        build_batch([(None, headers, body)])


def test_damaged_stored_bytes_are_a_fault_of_ours() -> None:
    """Bytes that do not parse, or hold another number of records, are never passed on."""
    good = KEPT(build_batch([(None, [], b"x")]), 0)
    for damaged in (b"\xff\xff", good.records * 2, b""):
        with pytest.raises(InternalError):
            cut([SequencedBatch(good.placement, damaged)], 0, ReadBudget())
