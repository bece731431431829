"""What a replica does at the seam between two configurations of its group."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.errors import DeadlineError, ServiceError, UnavailableError
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import RaftGroup
from svc_cluster.raft.learner_group import LearnerGroup
from svc_cluster.raft.messages import Ended
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.openings import made_engine
from svc_cluster.replica.snapshot_admission import SnapshotAdmission
from tests.at_once import encode_entry
from tests.unit.raft.harness import log_of
from tests.unit.raft.sealing import ONE, configuration
from tests.unit.replica.leading import FAR, GENERATION, GROUP, ME, Rig, played

ELSEWHERE = (2, 3, 4)


def test_of_what_was_proposed_below_the_seal_nobody_says_that_it_failed() -> None:
    """A leader of before is told that its configuration has ended. What it proposed above the seal
    was never a part of the group, and that is said; what is at or below may be decided."""

    async def body(rig: Rig) -> None:
        ended: list[Configuration] = []
        answers: dict[int, ServiceError | None] = {}

        def leave(next_one: Configuration) -> None:
            ended.append(next_one)
            rig.replica.stop()

        def propose() -> int:
            index: int = 0

            def done(_: object, error: ServiceError | None) -> None:
                answers[index] = error

            index = rig.group.propose(encode_entry([]), FAR, done)
            return index

        rig.group.seam.on_ended = leave
        first, second, third = (propose() for _ in range(3))
        await rig.settle()
        assert answers == {}
        told = configuration(1, (second, rig.term + 1), *ELSEWHERE)
        await rig.hear(3, Ended(told.first_term, told))
        assert ended == [told]
        assert {index: type(error) for index, error in answers.items()} == {
            first: DeadlineError,
            second: DeadlineError,
            third: UnavailableError,
        }

    played(body)


class _Learning(Rig):
    """Node 1 is no member, and its copy is in this configuration."""

    known: Configuration | None = None

    def _engine(self, applied_index: LogIndex) -> RaftGroup:  # type: ignore[override]
        return LearnerGroup(
            node_id=ME,
            recovered=RecoveredLog(GROUP, GENERATION, configuration=self.known),
            applied_index=applied_index,
            settings=RaftSettings(),
        )


@pytest.mark.parametrize(
    ("known", "taken"),
    [(None, []), (0, [7]), (1, [ONE + 1, ONE + 9]), (2, [2 * ONE + 1])],
)
def test_a_learner_takes_snapshots_of_its_own_configuration_alone(
    known: int | None, taken: list[int]
) -> None:
    """One of a later configuration would hide that this one has an end, and one of an earlier is
    of a state that may be older than what the copy was begun with. Nor is one of another group."""

    async def main() -> None:
        if known is not None:
            _Learning.known = configuration(known, (3, 2) if known else (0, 0), *ELSEWHERE)
        else:
            _Learning.known = None
        rig = _Learning()
        groups = {GROUP: rig.group}
        admission = SnapshotAdmission(rig.replica._services, groups.get)
        terms = [7, ONE + 1, ONE + 9, 2 * ONE + 1, 3 * ONE + 1]
        said = {term: admission.sender_refusal(GROUP, NodeId(2), Term(term)) for term in terms}
        assert [term for term, reason in said.items() if reason is None] == taken
        others = {reason for reason in said.values() if reason is not None}
        assert others == {"this is another configuration's snapshot"}
        unknown = admission.sender_refusal(GroupId(GROUP + 1), NodeId(2), Term(ONE + 1))
        assert unknown == "no such group here"

    asyncio.run(main())


def test_who_is_no_member_any_more_keeps_nothing_that_is_not_decided() -> None:
    """The catalog knows a later configuration than the log on the disk has begun. So the replica
    may have been left out, and what it has behind the commit was perhaps never decided."""
    log = log_of(1, 1, 1, 2, 2)
    log.commit_index = LogIndex(3)
    made = {
        applied: made_engine(
            ME,
            None,
            log,
            LogIndex(applied),
            random.Random(1),
            RaftSettings(),
            lambda _: True,
        )
        for applied in (2, 4)
    }
    assert {applied: type(engine) for applied, engine in made.items()} == {
        2: LearnerGroup,
        4: LearnerGroup,
    }
    assert {applied: int(engine.last_index) for applied, engine in made.items()} == {2: 3, 4: 4}
    assert made[2].configuration is None


def test_a_member_keeps_what_is_not_decided_yet() -> None:
    """In the configuration that the group was created with, an entry may be decided by the very
    copies that hold it: nothing is cut off a member's log."""
    log = log_of(1, 1, 1, 2, 2)
    log.commit_index = LogIndex(3)
    nodes = (ME, NodeId(2), NodeId(3))
    engine = made_engine(
        ME, nodes, log, LogIndex(2), random.Random(1), RaftSettings(), lambda _: True
    )
    assert isinstance(engine, EngineGroup)
    assert (engine.last_index, engine.commit_index) == (5, 3)


@pytest.mark.parametrize(("damaged", "last_index"), [(True, 3), (False, 5)])
def test_a_damaged_copy_of_who_was_no_first_member_keeps_nothing_that_is_not_decided(
    damaged: bool, last_index: int
) -> None:
    """It may have voted in a later configuration, whose beginning its disk has lost, and hold what
    others decided otherwise: told of the next one it begins that, and does not contradict it."""
    log = replace(log_of(1, 1, 1, 2, 2), damaged=damaged)
    log.commit_index = LogIndex(3)
    nodes = (NodeId(2), NodeId(3), NodeId(4))
    engine = made_engine(
        ME, nodes, log, LogIndex(2), random.Random(1), RaftSettings(), lambda _: True
    )
    assert isinstance(engine, LearnerGroup)
    assert engine.last_index == last_index
    if damaged:
        told = configuration(2, (4, ONE + 5), 2, 3, 4)
        ending = engine.end(told)
        assert ending.recovered.damaged
        assert (ending.recovered.configuration, ending.recovered.last_index) == (told, 3)
