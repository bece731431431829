"""Usage is asked for in parts, each of which fits an answer."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import SystemClock
from svc_cluster.gateway.cluster.leaders import Fill
from svc_cluster.gateway.cluster.usage_client import ASKED_STEPS_MAX, UsageClient, pages
from svc_cluster.model.usage import bucket_range
from svc_cluster.replica.usage_operations import ANSWER_STEPS_MAX

DAY = 86_400
STEPS = (60, 3600, DAY)


@given(start=st.integers(0, 2**31), length=st.integers(-DAY, 93 * DAY), step=st.sampled_from(STEPS))
def test_parts_are_the_whole_time_once(start: int, length: int, step: int) -> None:
    """Their buckets are those of the time, none of them twice; each part is one that nodes answer;
    they meet where hours do."""
    end = start + length
    found = list(pages(start, end, step))
    buckets = [at for begin, until in found for at in bucket_range(begin, until, step)]
    assert buckets == list(bucket_range(start, end, step))
    for begin, until in found:
        assert len(bucket_range(begin, until, step)) <= ASKED_STEPS_MAX <= ANSWER_STEPS_MAX
    assert [begin for begin, _ in found[1:]] == [until for _, until in found[:-1]]
    assert all(until % 3600 == 0 and until % step == 0 for _, until in found[:-1])


class Hours:
    """Every minute has a byte more stored; the present is told with each answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    async def ask_catalog(self, fill: Fill, *, write: bool, deadline: float) -> pb.Response:
        raise AssertionError("no account is asked for")

    async def ask_basin(
        self, basin: str, fill: Fill, *, write: bool, deadline: float
    ) -> pb.Response:
        request, answer = pb.Request(), pb.Response()
        fill(request)
        if request.HasField("get_usage"):
            wanted = request.get_usage
            self.asked.append((wanted.start, wanted.end))
            for at in bucket_range(wanted.start, wanted.end, wanted.step_seconds):
                answer.usage.buckets.add(at=at)
            return answer
        stored = request.get_storage
        self.asked.append((stored.start, stored.end))
        answer.storage.before = stored.start // 60 - 1
        answer.storage.now = 7
        for at in bucket_range(stored.start, stored.end, stored.step_seconds):
            answer.storage.changes.add(at=at, stored_bytes=at // 60)
        return answer

    async def ask_every_node(self, fill: Fill, seconds: float) -> list[pb.Response | None]:
        raise AssertionError("no node is asked")


def test_parts_are_put_together() -> None:
    """Ninety days by the minute: all buckets in order; what was stored before the first part."""
    start, end = 120 * DAY + 60, 210 * DAY + 60

    async def main() -> None:
        cluster = Hours()
        client = UsageClient(cluster, SystemClock())
        buckets = await client.usage("basin", start, end, 60)
        assert [at for at, _ in buckets] == list(range(start, end, 60))
        assert len(cluster.asked) == 64
        readings = await client.storage("basin", None, start, end, 60)
        assert (readings.before, readings.now) == (start // 60 - 1, 7)
        assert list(readings.changes) == [(at, at // 60) for at in range(start, end, 60)]

    asyncio.run(main())
