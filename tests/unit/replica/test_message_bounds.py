"""A message that no gateway of ours writes is refused by what it says of its length."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.codec import rpc, usage_pb
from svc_cluster.link.frame import FrameKind
from svc_cluster.model.usage import REPORT_MINUTES_MAX, REPORT_OPS_MAX
from tests.unit.replica.test_service_session import ADMITTED, GROUP, Rig, with_rig

MANY = 200_000
ALLOWED = 2_000
"""So many empty minutes, or operations, are no longer than what a request may be that is short."""
TRACED_BYTES_MAX = 2 * 1024 * 1024
"""What is made of such a message beside itself; with each of its members it is tens of MiB."""


def _minutes(request: pb.Request, count: int) -> None:
    request.report_usage.MergeFromString(b"\x1a\x00" * count)


def _operations(request: pb.Request, count: int) -> None:
    request.report_usage.minutes.add().MergeFromString(b"\x4a\x00" * count)


@pytest.mark.parametrize(
    ("count", "why"),
    [(MANY, "a request longer than what it asks"), (ALLOWED, "no gateway writes such a report")],
)
@pytest.mark.parametrize("fill", [_minutes, _operations])
def test_a_report_of_many_is_refused_before_it_is_converted(
    fill: Callable[[pb.Request, int], None], count: int, why: str
) -> None:
    """Without effect, with little memory; the next request of the same caller is answered."""

    async def body(rig: Rig) -> None:
        request = pb.Request(group_id=GROUP, deadline_ms=60_000)
        fill(request, count)
        data = request.SerializeToString()
        tracemalloc.start()
        try:
            rig.session.request(FrameKind.CALL, 1, data, len(data), ADMITTED)
            await rig.settle()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        refusal = rig.caller.refusal(1)
        assert refusal.code is ErrorCode.INVALID and not refusal.may_have_taken_effect
        assert str(refusal) == why
        assert peak < TRACED_BYTES_MAX
        rig.gate.set()
        rig.ask(2)
        await rig.settle()
        assert rig.session.pending == 0

    with_rig(body)


def test_the_longest_report_is_converted() -> None:
    """At both bounds it is, one beyond either it is not."""
    message = pb.Request().report_usage
    for _ in range(REPORT_MINUTES_MAX):
        counts = message.minutes.add()
        for number in range(REPORT_OPS_MAX):
            counts.ops.add(op=str(number), count=1)
    usage_pb.check_lengths(message)
    assert len(usage_pb.get_report(message).minutes) == REPORT_MINUTES_MAX
    message.minutes[-1].ops.add(op="another", count=1)
    with pytest.raises(InvalidError):
        usage_pb.check_lengths(message)
    del message.minutes[-1].ops[:]
    message.minutes.add()
    with pytest.raises(InvalidError):
        usage_pb.check_lengths(message)


def test_a_batch_has_no_more_commands_than_records() -> None:
    """BATCH_RECORDS_MAX of either are read, one more is refused, and of many nothing is made."""
    message = pb.AppendRequest(stream="s", records=b"r", record_count=BATCH_RECORDS_MAX)
    for offset in range(BATCH_RECORDS_MAX):
        message.commands.add(offset=offset, kind=1)
    assert len(rpc.batch_from_pb(message).commands) == BATCH_RECORDS_MAX
    message.commands.add(offset=0, kind=1)
    with pytest.raises(MalformedError):
        rpc.batch_from_pb(message)
    message.MergeFromString(b"\x3a\x00" * MANY)
    assert len(message.commands) > MANY
    tracemalloc.start()
    try:
        with pytest.raises(MalformedError):
            rpc.batch_from_pb(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < TRACED_BYTES_MAX
    with pytest.raises(MalformedError):
        rpc.batch_from_pb(pb.AppendRequest(stream="s", record_count=BATCH_RECORDS_MAX + 1))


def test_a_batch_stands_for_no_more_requests_than_it_has_records() -> None:
    """Whoever says more would be counted for what nobody asked; who says nothing is one."""
    message = pb.AppendRequest(stream="s", records=b"r", record_count=3)
    assert rpc.requests_from_pb(message) == 1
    message.requests = 3
    assert rpc.batch_from_pb(message).record_count == 3
    assert rpc.requests_from_pb(message) == 3
    message.requests = 4
    with pytest.raises(MalformedError):
        rpc.batch_from_pb(message)
