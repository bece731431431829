"""A configuration is sealed only for members that are nearly there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import LogIndex, ReplicaId
from svc_cluster.model.versions import SEALED_CONFIGURATIONS
from svc_cluster.raft.readiness import (
    COPY_LAG_ENTRIES_MAX,
    COPY_SECONDS_MAX,
    LAG_ENTRIES_MAX,
    ReplicaWord,
    Sealing,
    refusal,
)
from tests.unit.raft.sealing import configuration, members

LAST = 1000
NOW = 50.0
THREE = configuration(2, (9, 9), 1, 2, 3)


def held(lag: int = 0, ago: float = 0.0, *, recovers: bool = False) -> ReplicaWord:
    return ReplicaWord(LogIndex(LAST - lag), NOW - ago, recovers)


def view(now: Configuration, nexts: tuple[int, ...], **held_by: ReplicaWord) -> Sealing:
    """`held_by`: `n4=...` is what the replica on node 4 has said."""
    known = {ReplicaId(100 + int(name[1:])): said for name, said in held_by.items()}
    return Sealing(SEALED_CONFIGURATIONS, now, members(*nexts), LogIndex(LAST), NOW, known)


def test_a_quorum_that_stays_and_one_newcomer_are_ready() -> None:
    """The newcomer itself may lack much: two of three go on without it."""
    assert refusal(view(THREE, (1, 2, 4), n1=held(), n2=held())) is None


def test_newcomers_alone_are_never_a_quorum() -> None:
    """However much they hold: one old member that stays cannot begin without them."""
    told = refusal(view(THREE, (1, 4, 5), n1=held(), n4=held(), n5=held()))
    assert told == "1 of the members that stay are ready, 2 are needed"


@pytest.mark.parametrize(
    "lame",
    [held(LAG_ENTRIES_MAX + 1), held(ago=1.01), held(recovers=True), None],
    ids=["behind", "silent", "recovering", "unknown"],
)
def test_who_is_not_ready_does_not_count(lame: ReplicaWord | None) -> None:
    """Each bound by itself; the same replica at the bound counts."""
    others = {} if lame is None else {"n2": lame}
    told = refusal(view(THREE, (1, 2, 4), n1=held(), **others))
    assert told == "1 of the next 3 members are ready, 2 are needed"
    at_bound = held(LAG_ENTRIES_MAX, ago=1.0)
    assert refusal(view(THREE, (1, 2, 4), n1=held(), n2=at_bound)) is None


def test_a_group_of_one_grows_when_both_newcomers_are_ready() -> None:
    """The one exception: there is no old quorum that could stay."""
    one = configuration(0, (0, 0), 1)
    assert refusal(view(one, (1, 2, 3), n1=held(), n2=held(), n3=held())) is None
    told = refusal(view(one, (1, 2, 3), n1=held(), n2=held()))
    assert told == "1 of the members that stay are ready, 2 are needed"
    told = refusal(view(one, (2, 3, 4), n2=held(), n3=held(), n4=held()))
    assert told == "0 of the members that stay are ready, 2 are needed"


def test_a_group_shrinks_to_one_that_stays() -> None:
    """The one is the leader, or as good as it."""
    assert refusal(view(THREE, (2,), n2=held())) is None
    assert refusal(view(THREE, (2,), n1=held())) is not None


def test_a_member_under_a_new_number_is_a_newcomer() -> None:
    """The same node, an empty disk: what the old replica held says nothing."""
    fresh = replace(members(3)[0], replica_id=ReplicaId(903))
    sealing = view(THREE, (1, 2, 3), n1=held(), n2=held(99_999), n3=held())
    sealing = replace(sealing, next_members=(*members(1, 2), fresh))
    assert refusal(sealing) == "1 of the next 3 members are ready, 2 are needed"


def test_members_that_cannot_be_are_refused() -> None:
    """None, two on one node, out of order, too many, or those that are there already."""
    ready = {f"n{node}": held() for node in range(1, 10)}
    for nexts in ((), (1, 1), (2, 1), tuple(range(1, 9))):
        assert refusal(view(THREE, nexts, **ready)) == "these cannot be the members of a group"
    assert refusal(view(THREE, (1, 2, 3), **ready)) == "these are the members already"


def test_nothing_is_sealed_before_the_active_version_has_seals() -> None:
    """A release that may still be gone back to would stop at the seal."""
    sealing = view(THREE, (1, 2, 4), n1=held(), n2=held())
    older = replace(sealing, active_version=SEALED_CONFIGURATIONS - 1)
    assert refusal(older) == "the cluster's active version is 2: finalize the upgrade first"


def test_no_copy_goes_before_another_is_there() -> None:
    """While all of today's members are there, a newcomer has to be copied to first."""
    seen = view(THREE, (1, 2, 4), n1=held(), n2=held(), n3=held())
    there = frozenset(member.replica_id for member in THREE.members)
    told = refusal(replace(seen, there=there))
    assert told == "2 of the next 3 members have a copy, and 3 have one today"
    late = replace(seen, there=there, last_index=LogIndex(LAST + COPY_LAG_ENTRIES_MAX))
    ahead = ReplicaWord(late.last_index, NOW)
    whole = dict.fromkeys(late.held, ahead)
    for word, is_sealed in (
        (held(), True),
        (held(1), False),
        (replace(ahead, heard_at=NOW - COPY_SECONDS_MAX), True),
        (replace(ahead, heard_at=NOW - COPY_SECONDS_MAX - 0.1), False),
        (replace(ahead, recovers=True), False),
    ):
        known = {**whole, ReplicaId(104): word}
        assert (refusal(replace(late, held=known)) is None) == is_sealed, word


def test_a_member_that_is_gone_or_damaged_has_no_copy_to_wait_for() -> None:
    """Two are left of three: two go on, and the third is made whole behind the seal."""
    seen = view(THREE, (1, 2, 4), n1=held(), n2=held())
    gone = frozenset(member.replica_id for member in THREE.members[:2])
    assert refusal(replace(seen, there=gone)) is None
    damaged = replace(seen, held={**seen.held, ReplicaId(103): held(recovers=True)})
    assert refusal(replace(damaged, there=gone | {ReplicaId(103)})) is None
