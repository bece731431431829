"""Timestamps by mode, capping and running maximum."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.model.record import BatchPlacement, TimestampingMode
from svc_cluster.model.stream_config import Retention, StreamConfig
from svc_cluster.stream import timestamping
from tests.unit.stream.support import batch

PREFER, REQUIRE, ARRIVAL = TimestampingMode


def place(
    timestamps: list[int | None],
    *,
    mode: TimestampingMode = PREFER,
    uncapped: bool = False,
    base: int = 0,
    now: int = 100,
    age: int | None = 10,
) -> BatchPlacement:
    return timestamping.place(
        batch(timestamps=timestamps),
        first_seq_num=SeqNum(5),
        base_timestamp_ms=TimestampMs(base),
        config=StreamConfig(
            timestamping_mode=mode, timestamping_uncapped=uncapped, retention=Retention(age)
        ),
        now_ms=TimestampMs(now),
    )


@pytest.mark.parametrize(
    ("timestamps", "mode", "uncapped", "base", "expected"),
    [
        ([10, 20], PREFER, False, 0, [10, 20]),
        ([20, 10], PREFER, False, 0, [20, 20]),
        ([None, 10], PREFER, False, 0, [100, 100]),
        ([10, None], PREFER, False, 0, [10, 100]),
        ([10, 20], PREFER, False, 15, [15, 20]),
        ([10, 20], PREFER, False, 50, [50, 50]),
        ([150, 20], PREFER, False, 0, [100, 100]),
        ([150, 20], PREFER, True, 0, [150, 150]),
        ([150, None], PREFER, True, 0, [150, 150]),
        ([20, None], PREFER, True, 0, [20, 100]),
        ([10], PREFER, False, 300, [300]),
        ([10, 150], REQUIRE, False, 0, [10, 100]),
        ([10, 150], REQUIRE, True, 0, [10, 150]),
        ([10, 150], ARRIVAL, True, 0, [100, 100]),
        ([10, None], ARRIVAL, False, 120, [120, 120]),
        ([0], PREFER, False, 0, [0]),
    ],
)
def test_records_are_stamped_by_the_rule(
    timestamps: list[int | None],
    mode: TimestampingMode,
    uncapped: bool,
    base: int,
    expected: list[int],
) -> None:
    """What the leader foretells is what a reader computes."""
    placement = place(timestamps, mode=mode, uncapped=uncapped, base=base)
    assert timestamping.stamp(placement, timestamps) == expected
    assert placement.last_timestamp_ms == expected[-1]
    stored = batch(timestamps=timestamps)
    assert timestamping.first_timestamp(placement, stored) == expected[0]


@pytest.mark.parametrize("timestamps", [[None], [1, None, 3]])
def test_required_timestamp_that_is_missing_refuses_the_batch(
    timestamps: list[int | None],
) -> None:
    """One record without is enough."""
    with pytest.raises(InvalidError):
        place(timestamps, mode=REQUIRE)


@pytest.mark.parametrize(
    ("age", "expected"),
    [(None, None), (10, 10_100), (2**64 - 1, None)],
)
def test_expiry_is_by_arrival(age: int | None, expected: int | None) -> None:
    """Client timestamps have no part in it; an age beyond all calendars means never."""
    assert place([1], age=age).expires_at_ms == expected
