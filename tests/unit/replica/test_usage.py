"""A long time is looked through in steps, and nothing that no gateway asks is looked for."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.base.errors import MalformedError
from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.model.usage import FINE_MINUTES, MINUTE_MS, Counts, Readings
from svc_cluster.replica import usage_operations
from svc_cluster.stream import keys
from tests.simulation.loop import run
from tests.unit.stream.support import Leader

FIRST = 2 * FINE_MINUTES
MINUTES = 2 * usage_operations.ROWS_PER_STEP + 10
STEPS_MAX = 150_000


@pytest.fixture(scope="module")
def leader() -> Leader:
    """An append of 9 bytes in each of many minutes."""
    made = Leader()
    made.create("s")
    for minute in range(FIRST, FIRST + MINUTES):
        made.append("s", now_ms=TimestampMs(minute * MINUTE_MS))
    return made


@pytest.mark.parametrize("step_seconds", [60, 3600, 86400])
def test_counts_of_a_long_time_leave_room_for_others(leader: Leader, step_seconds: int) -> None:
    """All of it is summed, and others had a turn after each step."""

    async def main() -> tuple[dict[int, Counts], int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(others())
        table = leader.state.usage.table
        found = await usage_operations._sums(table, FIRST, FIRST + MINUTES, step_seconds)
        task.cancel()
        return found, turns

    found, turns = run(lambda _: main())
    assert sum(counts.append_bytes_standard for counts in found.values()) == 9 * MINUTES
    assert all(at % step_seconds == 0 for at in found)
    assert turns >= 2


def test_readings_of_a_long_time(leader: Leader) -> None:
    """The one before, the last of each step, and the present one; of the stream and the basin."""
    for stream_id in (StreamId(1), keys.WHOLE_BASIN):

        async def main(stream_id: StreamId = stream_id) -> Readings:
            state = leader.state.usage
            end = FIRST + MINUTES
            return await usage_operations._readings(state, stream_id, FIRST + 5, end, 60, 77)

        found = run(lambda _: main())
        assert (found.before, found.now) == (9 * 5, 77)
        assert dict(found.changes) == {(FIRST + n) * 60: 9 * (n + 1) for n in range(5, MINUTES)}


@pytest.mark.parametrize(
    ("start", "end", "step_seconds"),
    [(5, 4, 60), (0, 60, 0), (0, 60, 61), (0, 60, 2 * 86400), (0, 100 * 86400, 60)],
)
def test_what_no_gateway_asks_is_refused(start: int, end: int, step_seconds: int) -> None:
    with pytest.raises(MalformedError):
        usage_operations.minutes(start, end, step_seconds, STEPS_MAX)


@pytest.mark.parametrize(
    ("start", "end", "step_seconds", "minutes"),
    [
        (0, 0, 60, (0, 1)),
        (59, 61, 60, (0, 2)),
        (3600, 7200, 3600, (60, 120)),
        (3599, 3601, 3600, (0, 120)),
        (86399, 86399, 86400, (0, 1440)),
    ],
)
def test_buckets_are_looked_at_as_a_whole(
    start: int, end: int, step_seconds: int, minutes: tuple[int, int]
) -> None:
    assert usage_operations.minutes(start, end, step_seconds, STEPS_MAX) == minutes


def test_an_answer_has_a_bounded_number_of_buckets() -> None:
    """Each page that a gateway asks for is within the bound, and one bucket more is refused."""
    end = 60 * usage_operations.ANSWER_STEPS_MAX
    assert usage_operations.minutes(0, end, 60, usage_operations.ANSWER_STEPS_MAX)[1] * 60 == end
    with pytest.raises(MalformedError, match="buckets at once"):
        usage_operations.minutes(0, end + 1, 60, usage_operations.ANSWER_STEPS_MAX)
