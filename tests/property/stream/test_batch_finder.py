"""Looking batches up finds what walking over them finds, whatever their sizes are and however the
answers are cut."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.errors import PastTailError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.base.write_set import WriteSet
from svc_cluster.codec.batch_rules import RECORDS_MAX
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.stream_config import PartialStreamConfig, Retention
from svc_cluster.stream import keys, scan
from svc_cluster.stream.batch_finder import BatchGuess, HoleError
from tests.unit.stream.support import Leader, answered, batch, trim

guesses = st.builds(
    BatchGuess,
    st.integers(1, 1_200),
    st.none() | st.integers(0, 4_000),
    st.sampled_from([0, 1, 60, 100_000]),
)
sizes = st.lists(st.integers(1, 6) | st.integers(1, BATCH_RECORDS_MAX), min_size=1, max_size=12)


def filled(records: list[int], trim_point: int) -> Leader:
    leader = Leader()
    leader.create("s", PartialStreamConfig(retention=Retention(5)))
    for number, count in enumerate(records, start=1):
        leader.append("s", count, now_ms=1_000 * number)
    if trim_point:
        commands = (trim(min(trim_point, sum(records))),)
        leader.append("s", batch(1, commands=commands), now_ms=1_000 * len(records))
    return leader


def test_the_bound_on_keys_is_that_of_a_batch() -> None:
    """A batch of more records than are looked for would be taken for missing."""
    assert BATCH_RECORDS_MAX == RECORDS_MAX


def test_the_largest_batch_behind_the_smallest_is_found() -> None:
    """It is under the very last key that it may have, where nothing leads to it."""
    leader = filled([1, BATCH_RECORDS_MAX, 1, BATCH_RECORDS_MAX, 1, 1], 0)
    stream = leader.stream("s")
    lookups = scan.look_up_batches(stream, 0, ReadBounds(), now_ms=TimestampMs(0))
    step, _ = answered(leader, lookups, random.Random(1))
    assert [found.placement.record_count for found in step.batches] == [1, 1000, 1, 1000, 1, 1]


@settings(max_examples=60)
@given(
    sizes,
    st.integers(0, 3_000),
    st.integers(0, 4_000),
    guesses,
    st.sampled_from([1, 50, 2_000, 1 << 20]),
    st.sampled_from([0, 6_500, 9_000]),
    st.none() | st.integers(0, 1_500),
    st.randoms(use_true_random=False),
)
def test_looked_up_is_what_a_walk_finds(
    records: list[int],
    trim_point: int,
    start: int,
    guess: BatchGuess,
    max_bytes: int,
    now_ms: int,
    count: int | None,
    rng: random.Random,
) -> None:
    """Step by step to the tail, with trimmed and expired batches, from anywhere in a batch, with
    guesses that are right or wrong."""
    leader = filled(records, trim_point)
    stream = leader.stream("s")
    at = min(start, stream.tail_seq_num)
    bounds, now = ReadBounds(count), TimestampMs(now_ms)
    while True:
        walked = scan.read_batches(
            leader.store, stream, at, bounds, now_ms=now, max_bytes=max_bytes
        )
        found, guess = answered(
            leader,
            scan.look_up_batches(stream, at, bounds, now_ms=now, max_bytes=max_bytes, guess=guess),
            rng,
        )
        assert found == walked
        if not walked.may_have_more:
            return
        at = walked.next_seq_num


@settings(max_examples=60)
@given(sizes, st.integers(0, 3_000), st.integers(0, 14_000), guesses)
def test_a_start_by_time_is_looked_up_to_the_same_record(
    records: list[int], trim_point: int, at_ms: int, guess: BatchGuess
) -> None:
    """Also where everything before it is trimmed, and where nothing is that late."""
    leader = filled(records, trim_point)
    stream = leader.stream("s")
    start = ReadStart(StartKind.TIMESTAMP, at_ms)
    try:
        walked = scan.resolve_start(leader.store, stream, start, refuse_at_tail=False)
    except PastTailError:
        assert not scan.needs_lookup(stream, start)
        return
    lookups = scan.look_up_first_at(stream, at_ms, guess)
    assert answered(leader, lookups, random.Random(1)) == walked


@settings(max_examples=60)
@given(sizes, st.data())
def test_a_batch_that_is_gone_is_missed(records: list[int], data: st.DataObject) -> None:
    """Wherever it was, by whoever reads over its place."""
    leader = filled(records, 0)
    stream = leader.stream("s")
    lost = data.draw(st.integers(0, len(records) - 1))
    gone = WriteSet()
    gone.delete(keys.batch_key(stream.stream_id, sum(records[: lost + 1]) - 1))
    leader.store.write(gone)
    guess = data.draw(guesses)
    lookups = scan.look_up_batches(stream, 0, ReadBounds(), now_ms=TimestampMs(0), guess=guess)
    with pytest.raises(HoleError):
        answered(leader, lookups, data.draw(st.randoms(use_true_random=False)))


def test_one_record_of_a_stream_of_like_batches_takes_one_lookup() -> None:
    """Once one of them was read, wherever in a batch the next read begins: neither are the keys of
    all its records tried, nor are batches fetched that nobody asked for."""
    leader = filled([7, *[100] * 9], 0)
    stream = leader.stream("s")
    one = ReadBounds(count=1)
    first = scan.look_up_batches(stream, 150, one, now_ms=TimestampMs(0))
    _, guess = answered(leader, first, random.Random(1))
    assert guess.records == 100 and guess.end in range(207, 908, 100)
    for at in (7, 106, 107, 555, 906):
        lookups = scan.look_up_batches(stream, at, one, now_ms=TimestampMs(0), guess=guess)
        asked = next(lookups)
        assert len(asked) == 1, at
        with pytest.raises(StopIteration) as done:
            lookups.send([leader.store.get(asked[0])])
        step, _ = done.value.value
        begun = (at - 7) // 100 * 100 + 7
        assert [found.placement.first_seq_num for found in step.batches] == [begun]
