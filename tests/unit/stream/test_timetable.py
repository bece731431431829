"""Due times of streams."""

from __future__ import annotations

import random

from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.stream.timetable import Timetable

MS = TimestampMs


def popped(timetable: Timetable, now_ms: int) -> list[int]:
    out: list[int] = []
    while (stream_id := timetable.pop_due(MS(now_ms))) is not None:
        out.append(stream_id)
    return out


def test_streams_come_up_when_due_the_most_overdue_first() -> None:
    """Each once; what is not due yet stays."""
    timetable = Timetable()
    for stream_id, due_ms in ((1, 30), (2, 10), (3, 20), (4, 31)):
        timetable.put(StreamId(stream_id), MS(due_ms))
    assert popped(timetable, 9) == []
    assert popped(timetable, 30) == [2, 3, 1]
    assert len(timetable) == 1
    assert popped(timetable, 99) == [4]


def test_the_earliest_of_several_times_counts() -> None:
    """Putting a stream again never makes it late, and it comes up once."""
    timetable = Timetable()
    timetable.put(StreamId(1), MS(50))
    timetable.put(StreamId(1), MS(20))
    timetable.put(StreamId(1), MS(70))
    assert popped(timetable, 20) == [1]
    assert popped(timetable, 99) == []


def test_it_agrees_with_a_dictionary() -> None:
    """Random puts, discards and steps of the clock."""
    for seed in range(200):
        rng = random.Random(seed)
        timetable = Timetable()
        due: dict[int, int] = {}
        now_ms = 0
        for _ in range(100):
            stream_id = rng.randrange(8)
            if rng.random() < 0.7:
                at = now_ms + rng.randrange(20)
                timetable.put(StreamId(stream_id), MS(at))
                due[stream_id] = min(due.get(stream_id, at), at)
            elif rng.random() < 0.5:
                timetable.discard(StreamId(stream_id))
                due.pop(stream_id, None)
            else:
                now_ms += rng.randrange(15)
                expected = {one for one, at in due.items() if at <= now_ms}
                assert set(popped(timetable, now_ms)) == expected
                due = {one: at for one, at in due.items() if at > now_ms}
            assert len(timetable) == len(due)
