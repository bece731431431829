"""Who waits too long is told at the deadline, whoever stands before."""

from __future__ import annotations

import asyncio

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    DeadlineError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.link.frame import FrameKind
from svc_cluster.raft.group import LogPosition
from svc_cluster.replica.proposer import REFUSED_PER_SWEEP
from svc_cluster.replica.service import DEADLINE_MS_MAX
from svc_cluster.replica.waiting_proposals import WaitingProposals
from tests.simulation.loop import run
from tests.unit.replica.leading import FAR, Rig, played
from tests.unit.replica.test_service_session import ADMITTED, GROUP
from tests.unit.replica.test_service_session import Rig as Waiting


def test_an_entry_behind_one_with_more_time_ends_at_its_own_deadline() -> None:
    """The first has a minute and the second a second: after two seconds the second alone is told
    that its write may have happened, and the first still waits."""
    waiting: WaitingProposals[str] = WaitingProposals()
    told: list[tuple[str, ServiceError | None]] = []
    waiting.add(LogPosition(LogIndex(1), Term(1)), 60.0, lambda _, error: told.append(("a", error)))
    waiting.add(LogPosition(LogIndex(2), Term(1)), 1.0, lambda _, error: told.append(("b", error)))
    waiting.sweep(2.0)
    [(name, error)] = told
    assert name == "b"
    assert isinstance(error, DeadlineError)
    assert error.may_have_taken_effect
    assert len(waiting) == 1
    waiting.sweep(61.0)
    assert [name for name, _ in told] == ["b", "a"]
    assert len(waiting) == 0


def test_a_queued_write_behind_one_with_more_time_is_refused_at_its_own_deadline() -> None:
    """Nothing is proposed meanwhile. Its refusal says that nothing happened, and what is left in
    the queue is proposed once that may be."""

    async def body(rig: Rig) -> None:
        with rig.replica.proposer.pause():
            patient, hasty = rig.submit(deadline=FAR), rig.submit(deadline=5.0)
            rig.replica.proposer.sweep(4.0)
            assert (patient, hasty) == ([], [])
            rig.replica.proposer.sweep(6.0)
            [(ack, error)] = hasty
            assert ack is None
            assert isinstance(error, UnavailableError)
            assert not error.may_have_taken_effect
            assert patient == []
        await rig.settle()
        await rig.answer()
        [(ack, error)] = patient
        assert error is None
        assert ack is not None and (ack.start.seq_num, ack.end.seq_num) == (0, 1)

    played(body)


def test_of_a_crowd_beyond_its_deadline_some_are_told_at_each_sweep() -> None:
    """All of them in the end, each once."""

    async def body(rig: Rig) -> None:
        with rig.replica.proposer.pause():
            asked = [rig.submit(deadline=5.0) for _ in range(REFUSED_PER_SWEEP + 10)]
            rig.replica.proposer.sweep(6.0)
            assert sum(map(len, asked)) == REFUSED_PER_SWEEP
            rig.replica.proposer.sweep(6.1)
            assert [len(told) for told in asked] == [1] * len(asked)
            rig.replica.proposer.sweep(6.2)
            assert sum(map(len, asked)) == len(asked)

    played(body)


def test_nobody_waits_longer_than_the_longest_deadline_whatever_is_asked() -> None:
    """Asked for 49 days, the most that the message holds: the read is refused after a minute, and
    its place is free."""

    async def main() -> None:
        rig = Waiting()
        request = pb.Request(group_id=GROUP, deadline_ms=2**32 - 1)
        request.check_tail.stream = "s"
        data = request.SerializeToString()
        rig.session.request(FrameKind.CALL, 1, data, len(data), ADMITTED)
        await asyncio.sleep(DEADLINE_MS_MAX / 1000 - 1)
        assert (rig.caller.answers, rig.session.pending) == ([], 1)
        await asyncio.sleep(2)
        assert isinstance(rig.caller.refusal(1), ReadDeadlineError)
        assert rig.session.pending == 0
        await rig.service.close()

    run(lambda loop: main())
