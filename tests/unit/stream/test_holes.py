"""Batches are gone from a store behind its back: no answer leaves them out without a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import PastTailError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.stream_config import PartialStreamConfig, Retention
from svc_cluster.stream import keys, retention, scan
from svc_cluster.stream.batch_finder import HoleError
from tests.unit.stream.support import Leader, batch, trim

AGE_S = 10


def filled(sizes: list[int], trim_point: int = 0) -> Leader:
    """Stream `s`, with batches of these sizes: the n-th (from 0) arrives at, and is stamped with,
    1,000 (n + 1) ms and lives for ten seconds."""
    leader = Leader()
    leader.create("s", PartialStreamConfig(retention=Retention(AGE_S)))
    for number, size in enumerate(sizes, start=1):
        leader.append("s", size, now_ms=1_000 * number)
    if trim_point:
        leader.append("s", batch(1, commands=(trim(trim_point),)), now_ms=1_000 * len(sizes))
    return leader


def lose(leader: Leader, last_seq_num: int) -> None:
    """The batch that ends with this record is gone."""
    gone = WriteSet()
    gone.delete(keys.batch_key(leader.stream("s").stream_id, last_seq_num))
    leader.store.write(gone)


def read_on(leader: Leader, start: ReadStart, *, now_ms: int = 0, max_bytes: int = 3) -> list[int]:
    """The sequence numbers of everything from the start on, as a reader gets it, in small steps.
    Raises HoleError."""
    stream = leader.stream("s")
    at = scan.resolve_start(leader.store, stream, start, refuse_at_tail=False)
    seen: list[int] = []
    while True:
        step = scan.read_batches(
            leader.store,
            stream,
            at,
            ReadBounds(),
            now_ms=TimestampMs(now_ms),
            max_bytes=max_bytes,
        )
        for found in step.batches:
            place = found.placement
            seen += [n for n in range(place.first_seq_num, place.end_seq_num) if n >= at]
        if not step.may_have_more:
            assert step.next_seq_num == stream.tail_seq_num
            return seen
        at = step.next_seq_num


def at(seq_num: int) -> ReadStart:
    return ReadStart(StartKind.SEQ_NUM, seq_num, False)


@pytest.mark.parametrize("last", [1, 4, 5])
def test_a_batch_that_is_gone_is_an_error_wherever_it_was(last: int) -> None:
    """The first one, one in the middle, the last one before the tail."""
    leader = filled([2, 3, 1])
    assert read_on(leader, at(0)) == [0, 1, 2, 3, 4, 5]
    lose(leader, last)
    with pytest.raises(HoleError):
        read_on(leader, at(0))


SIZES = [2, 2, 1, 3, 2, 2]


def place(leader: Leader, key: bytes, value: bytes) -> None:
    put = WriteSet()
    put.put(key, value)
    leader.store.write(put)


def batches_of(leader: Leader, name: str) -> list[tuple[bytes, bytes]]:
    return list(leader.store.scan(*keys.batches_range(leader.stream(name).stream_id)))


def looked_up(leader: Leader, start: int, max_bytes: int) -> scan.ReadStep:
    """As a read that looks keys up. Raises HoleError."""
    lookups = scan.look_up_batches(
        leader.stream("s"), start, ReadBounds(), now_ms=TimestampMs(0), max_bytes=max_bytes
    )
    wanted = next(lookups)
    while True:
        try:
            wanted = lookups.send([leader.store.get(key) for key in wanted])
        except StopIteration as ended:
            step: scan.ReadStep = ended.value[0]
            return step


@pytest.mark.parametrize("max_bytes", [1, 10**6])
@pytest.mark.parametrize("at", range(len(SIZES)))
@pytest.mark.parametrize("other", range(len(SIZES)))
def test_a_batch_under_anothers_key_is_given_to_nobody(at: int, other: int, max_bytes: int) -> None:
    """Each value says where it belongs: wherever the read begins, it takes what is there by right,
    up to the wrong one, or it is an error."""
    if at == other:
        return
    leader = filled(SIZES)
    right = batches_of(leader, "s")
    place(leader, right[at][0], right[other][1])
    ends = [keys.batch_key_parts(key)[1] for key, _ in right]
    for start in range(sum(SIZES)):
        for read in (_walked, looked_up):
            try:
                step = read(leader, start, max_bytes)
            except HoleError:
                assert start <= ends[at], "nothing is wrong behind it"
                continue
            at_now = start
            for found in step.batches:
                assert found.placement.first_seq_num <= at_now < found.placement.end_seq_num
                assert found.placement.end_seq_num - 1 != ends[at], (
                    "what lay there is another one's"
                )
                at_now = found.placement.end_seq_num


def _walked(leader: Leader, start: int, max_bytes: int) -> scan.ReadStep:
    stream = leader.stream("s")
    return scan.read_batches(
        leader.store, stream, start, ReadBounds(), now_ms=TimestampMs(0), max_bytes=max_bytes
    )


@pytest.mark.parametrize("at", range(len(SIZES)))
def test_a_batch_of_another_stream_does_not_follow_upon_its_neighbours(at: int) -> None:
    """It has the same place there; what its stream was before it is another. A read that takes it
    with a neighbour, or up to the tail, is an error."""
    leader = filled(SIZES)
    leader.create("t", PartialStreamConfig(retention=Retention(AGE_S)))
    for number, size in enumerate(SIZES, start=1):
        leader.append("t", size, now_ms=500 * number)
    right, wrong = batches_of(leader, "s"), batches_of(leader, "t")
    place(leader, right[at][0], wrong[at][1])
    for read in (_walked, looked_up):
        with pytest.raises(HoleError):
            read(leader, 0, 10**6)


def test_what_was_trimmed_is_no_hole() -> None:
    """Also in the middle of a batch, and up to the tail."""
    assert read_on(filled([2, 3, 1], trim_point=3), at(0)) == [3, 4, 5, 6]
    assert read_on(filled([2, 3, 1], trim_point=99), at(0)) == []


def test_what_has_expired_and_is_not_removed_yet_is_no_hole() -> None:
    """It is passed over; a hole among it is one."""
    leader = filled([2, 3, 1])
    assert read_on(leader, at(0), now_ms=12_000) == [5]
    lose(leader, 4)
    with pytest.raises(HoleError):
        read_on(leader, at(0), now_ms=12_000)


def test_a_stream_without_records_has_no_hole() -> None:
    assert read_on(filled([]), at(0)) == []


@pytest.mark.parametrize("bounds", [ReadBounds(count=1), ReadBounds(metered_bytes=9)])
def test_a_hole_at_the_start_is_one_for_the_shortest_read(bounds: ReadBounds) -> None:
    """The record that comes behind it is not passed off as the first."""
    leader = filled([2, 3, 1])
    lose(leader, 1)
    with pytest.raises(HoleError):
        scan.read_batches(leader.store, leader.stream("s"), 0, bounds, now_ms=TimestampMs(0))


def test_a_start_by_time_does_not_jump_over_a_hole() -> None:
    """The records of the missing batch may be those that were asked for."""
    leader = filled([2, 3, 1])
    start = ReadStart(StartKind.TIMESTAMP, 1_500, False)
    assert read_on(leader, start) == [2, 3, 4, 5]
    lose(leader, 4)
    with pytest.raises(HoleError):
        read_on(leader, start)


def test_nothing_expires_across_a_hole() -> None:
    """How long the missing batch was to live is not known here, and others have it."""
    leader = filled([2, 3, 1])
    lose(leader, 4)
    with pytest.raises(HoleError):
        retention.find_expired(leader.store, leader.stream("s"), TimestampMs(99_000))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    trim_point=st.integers(0, 20),
    lost=st.sets(st.integers(0, 30)),
    kind=st.sampled_from(list(StartKind)),
    value=st.integers(0, 9_000),
    max_bytes=st.integers(1, 8),
)
def test_a_reader_gets_every_record_from_its_start_on_or_an_error(
    sizes: list[int],
    trim_point: int,
    lost: set[int],
    kind: StartKind,
    value: int,
    max_bytes: int,
) -> None:
    """Whatever is gone, wherever the read begins: the same answer as before the loss, or none."""
    start = ReadStart(kind, value if kind is StartKind.TIMESTAMP else value % 24, True)
    leader = filled(sizes, trim_point)
    whole = read_on(leader, start, max_bytes=max_bytes)
    for last_seq_num in sorted(lost):
        lose(leader, last_seq_num)
    try:
        seen = read_on(leader, start, max_bytes=max_bytes)
    except (HoleError, PastTailError):
        return
    assert seen == whole
