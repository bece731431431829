"""What is left of stored batches for a read that begins or ends within one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from svc_cluster import _native
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import ReadBudget, cut_steps
from svc_cluster.codec.batch_cut import CUT_BYTES_MIN, HEADERS_MAX, cut_batches
from svc_cluster.model.cipher import AEGIS_256, StreamIdentity
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.record import BatchPlacement, SequencedBatch, TimestampingMode
from tests.at_once import build_batch, seal_batch


def batches_of(rng: random.Random, count: int) -> list[SequencedBatch]:
    """One behind the other, of records with growing timestamps."""
    out: list[SequencedBatch] = []
    first, latest = 5, 100
    for _ in range(count):
        stamps = sorted(rng.choices(range(latest, latest + 40), k=rng.randint(1, 30)))
        stored = build_batch([(at, (), bytes(rng.randint(0, 50))) for at in stamps])
        place = BatchPlacement(
            first_seq_num=SeqNum(first),
            record_count=stored.record_count,
            metered_bytes=stored.metered_bytes,
            base_timestamp_ms=TimestampMs(latest),
            arrival_ms=TimestampMs(latest + 20),
            last_timestamp_ms=TimestampMs(stamps[-1]),
            mode=TimestampingMode.CLIENT_PREFER,
            uncapped=True,
            expires_at_ms=None,
        )
        out.append(SequencedBatch(place, stored.records))
        first, latest = place.end_seq_num, stamps[-1]
    return out


def read(batches: list[SequencedBatch], start: int, budget: ReadBudget) -> list[object]:
    budget = replace(budget)
    runs = cut_steps(batches, start, budget, None)
    return [[record for run in runs for record in run or ()], budget.exhausted]


def as_a_node_stops(
    batches: list[SequencedBatch], start: int, budget: ReadBudget
) -> list[SequencedBatch]:
    """The batches up to the one behind which nothing can be returned."""
    for end in range(1, len(batches)):
        if read(batches[:end], start, budget)[1]:
            return batches[:end]
    return batches


@pytest.mark.parametrize("by_core", [False, True])
def test_a_read_of_what_is_left_returns_what_one_of_all_returns(by_core: bool) -> None:
    """From anywhere, with every bound, over several batches; and by the native core as without."""
    if by_core and not _native.is_in_use():
        pytest.skip("the native core is not in use")
    rng = random.Random(3)
    _native.use(wanted=by_core)
    try:
        saved = 0
        for _ in range(400):
            batches = batches_of(rng, rng.randint(1, 4))
            start = rng.randint(0, batches[0].placement.end_seq_num - 1)
            budget = ReadBudget(
                count=rng.choice((None, 1, 3, 40)),
                metered_bytes=rng.choice((None, 8, 100, 900)),
                until_ms=rng.choice((None, 120, 160)),
                from_ms=rng.choice((0, 0, 110, 130)),
            )
            given = as_a_node_stops(batches, start, budget)
            bounds = ReadBounds(budget.count, budget.metered_bytes, budget.until_ms)
            left = cut_batches(given, start, bounds, budget.from_ms, 0)
            assert read(left, start, budget) == read(given, start, budget)
            saved += sum(len(each.records) for each in given) - sum(
                len(each.records) for each in left
            )
    finally:
        _native.use(wanted=True)
    assert saved > 50_000


def large(count: int, headers: int = 0) -> SequencedBatch:
    stored = build_batch([(None, ((b"n", b"v"),) * headers, bytes(100))] * count)
    place = BatchPlacement(
        first_seq_num=SeqNum(0),
        record_count=count,
        metered_bytes=stored.metered_bytes,
        base_timestamp_ms=TimestampMs(1),
        arrival_ms=TimestampMs(9),
        last_timestamp_ms=TimestampMs(9),
        mode=TimestampingMode.ARRIVAL,
        uncapped=False,
        expires_at_ms=None,
    )
    return SequencedBatch(place, stored.records)


def test_one_record_of_a_thousand_leaves_one() -> None:
    """With its place, its size and its time."""
    (left,) = cut_batches([large(1000)], 700, ReadBounds(count=1), 0)
    assert left.placement == replace(
        large(1000).placement,
        first_seq_num=SeqNum(700),
        record_count=1,
        metered_bytes=108,
        base_timestamp_ms=TimestampMs(9),
    )
    assert len(left.records) == len(large(1).records)


def test_sealed_records_are_cut_by_their_number_and_opened_as_ever() -> None:
    """Their sizes are not those of what they hold: a bound of metered bytes cuts nothing off."""
    plain = build_batch([(at, (), b"%d" % at) for at in range(1000)])
    identity = StreamIdentity(1, 2, AEGIS_256)
    sealed = seal_batch(plain, identity, lambda record: record[::-1] + bytes(32))
    batch = SequencedBatch(replace(large(1000).placement, uncapped=True), sealed.records)
    (left,) = cut_batches([batch], 700, ReadBounds(count=2), 0)
    assert left.placement.record_count == 2
    assert left.placement.metered_bytes <= batch.placement.metered_bytes
    for given in (batch, left):
        runs = cut_steps([given], 700, ReadBudget(count=2), lambda data: data[:-32][::-1])
        found = [(record.seq_num, record.body) for run in runs for record in run or ()]
        assert found == [(700, b"700"), (701, b"701")]


def test_what_is_wanted_whole_and_what_is_small_is_not_touched() -> None:
    """They are the same objects: nothing is copied for nothing."""
    batch = large(1000)
    small = large(5)
    assert len(small.records) < CUT_BYTES_MIN
    for bounds in (ReadBounds(), ReadBounds(1000, 108_000, 10), ReadBounds(count=2000)):
        assert cut_batches([batch], 0, bounds, 0)[0] is batch
    assert cut_batches([small], 3, ReadBounds(count=1), 0)[0] is small


def test_what_is_not_what_was_stored_is_given_out_as_it_is() -> None:
    """Whoever decodes it says what is wrong with it; nothing of that is lost before."""
    batch = large(1000)
    odd = [
        SequencedBatch(batch.placement, batch.records[:-1]),
        SequencedBatch(batch.placement, b"\x12" + batch.records[1:]),
        SequencedBatch(replace(batch.placement, record_count=999), batch.records),
    ]
    for each in odd:
        for by_core in (True, False):
            _native.use(wanted=by_core)
            try:
                assert cut_batches([each], 500, ReadBounds(count=1), 0)[0] is each
            finally:
                _native.use(wanted=True)


def test_python_does_not_take_a_batch_of_very_many_headers_apart() -> None:
    """It would take a turn of the loop of a leader for itself."""
    batch = large(400, headers=10)
    assert HEADERS_MAX < 400 * 10
    _native.use(wanted=False)
    try:
        assert cut_batches([batch], 7, ReadBounds(count=1), 0)[0] is batch
    finally:
        _native.use(wanted=True)
