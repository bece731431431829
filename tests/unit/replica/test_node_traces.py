"""What leaders and followers tell of sampled appends."""

from __future__ import annotations

import random

import pytest

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.tracing import Span, TraceContext
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.raft.group import Message
from svc_cluster.raft.messages import (
    ENTRY_TRACES_MAX,
    AppendRequest,
    AppendResponse,
    EntryTraces,
    PeerMessage,
)
from svc_cluster.replica.node_traces import (
    FOLLOWED_BYTES_MAX,
    FOLLOWED_MAX,
    FOLLOWER_SPAN,
    LEADER_SPAN,
    FollowedEntries,
    NodeTraces,
    TracedStages,
)

GROUP, LEADER, TERM = GroupId(7), NodeId(1), Term(3)
CALLER = TraceContext(b"t" * 16, b"c" * 8, "a=1")


class Rig:
    """A node's traces, of which the test holds the clock."""

    def __init__(self, *takers: int) -> None:
        self.now = 0.0
        self.spans: list[Span] = []
        self.traces = NodeTraces(
            node_id=NodeId(2),
            clock=lambda: self.now,
            random_bytes=random.Random(7).randbytes,
            sink=self,
            takes=lambda peer: peer in takers,
        )
        self.followed = FollowedEntries(self.traces, GROUP)

    def put(self, span: Span) -> None:
        self.spans.append(span)

    def hear(self, at: float, body: PeerMessage) -> None:
        self.now = at
        self.followed.heard(Message(LEADER, body))

    def send(self, at: float, next_index: int, term: int = TERM, *, success: bool = True) -> None:
        self.now = at
        body = AppendResponse(Term(term), LogIndex(next_index), success, False, 0)
        self.followed.sent(body)


def told(log_index: int, count: int = 1, term: int = TERM) -> EntryTraces:
    return EntryTraces(Term(term), LogIndex(log_index), (CALLER,) * count)


def entries(first: int, last: int, term: int = TERM) -> AppendRequest:
    some = tuple(LogEntry(LogIndex(at), Term(term), b"x") for at in range(first, last + 1))
    return AppendRequest(Term(term), LogIndex(first - 1), Term(term), LogIndex(0), some, 0)


def test_a_leader_tells_of_an_append_under_its_gateways_span() -> None:
    """With its stages and its own times; a refusal is told by its code."""
    rig = Rig()
    rig.now = 5.0
    append = rig.traces.begin(CALLER)
    append.queue, append.wal, append.quorum, append.apply = 0.001, 0.002, 0.003, 0.004
    rig.now = 6.0
    rig.traces.led(append, GROUP, None)
    rig.traces.led(append, GROUP, UnavailableError("no"))
    span, refused = rig.spans
    assert (span.name, span.context, span.parent_id) == (LEADER_SPAN, append.trace, b"c" * 8)
    assert (span.context.trace_id, span.context.state) == (b"t" * 16, "a=1")
    assert (span.begun, span.ended, span.has_failed) == (5.0, 6.0, False)
    assert dict(span.attributes) == {
        "svc.stage.queue_ms": 1.0,
        "svc.stage.wal_ms": 2.0,
        "svc.stage.quorum_ms": 3.0,
        "svc.stage.apply_ms": 4.0,
        "svc.node": 2,
        "svc.group": 7,
    }
    assert (refused.has_failed, refused.attributes["svc.code"]) == (True, "unavailable")


def test_only_followers_that_take_traces_are_told_of_an_entry() -> None:
    """Once for each entry with something sampled in it, of so many appends at most; never the
    leader itself."""
    rig, sent = Rig(1, 2, 3), list[tuple[NodeId, EntryTraces]]()
    members = [NodeId(n) for n in (1, 2, 3, 4)]

    def send(peer: NodeId, message: EntryTraces) -> None:
        sent.append((peer, message))

    rig.traces.proposed(TERM, LogIndex(9), [None, LeaderStages()], members, send)
    assert sent == []
    appends = [TracedStages(trace=CALLER)] * (ENTRY_TRACES_MAX + 3)
    rig.traces.proposed(TERM, LogIndex(9), [None, *appends], members, send)
    assert sent == [(NodeId(n), told(9, ENTRY_TRACES_MAX)) for n in (1, 3)]


def test_a_follower_tells_from_receipt_to_acknowledgement() -> None:
    """Of each trace of the entry; an acknowledgement that does not reach it, or that is a refusal,
    ends nothing, and one more tells nothing again."""
    rig = Rig()
    rig.hear(1.0, told(9, 2))
    rig.hear(2.0, entries(5, 8))
    rig.send(2.5, next_index=9)
    rig.hear(3.0, entries(9, 10))
    rig.hear(3.5, entries(9, 10))
    rig.send(4.0, next_index=9)
    rig.send(4.5, next_index=11, success=False)
    assert rig.spans == []
    rig.send(5.0, next_index=10)
    rig.send(6.0, next_index=11)
    assert [(span.name, span.begun, span.ended) for span in rig.spans] == [
        (FOLLOWER_SPAN, 3.0, 5.0)
    ] * 2
    assert {span.parent_id for span in rig.spans} == {b"c" * 8}
    assert len({span.context.span_id for span in rig.spans}) == 2
    assert dict(rig.spans[0].attributes) == {"svc.node": 2, "svc.group": 7, "svc.log_index": 9}
    assert len(rig.followed) == 0


@pytest.mark.parametrize("late", ["entry", "acknowledgement"])
def test_another_leaders_entry_in_the_place_is_not_the_one(late: str) -> None:
    rig = Rig()
    rig.hear(1.0, told(9))
    if late == "entry":
        rig.hear(2.0, entries(9, 9, term=TERM + 1))
        rig.send(3.0, 10, term=TERM + 1)
    else:
        rig.hear(2.0, entries(9, 9))
        rig.send(3.0, 10, term=TERM + 1)
    assert rig.spans == []
    assert len(rig.followed) == 0


def test_what_a_follower_was_told_of_is_bounded() -> None:
    """Of more than so many entries that do not come, the oldest are let go."""
    rig = Rig()
    for at in range(1, FOLLOWED_MAX + 6):
        rig.hear(0.0, told(at))
    assert len(rig.followed) == FOLLOWED_MAX
    rig.hear(1.0, entries(1, FOLLOWED_MAX + 5))
    rig.send(2.0, FOLLOWED_MAX + 6)
    assert [span.attributes["svc.log_index"] for span in rig.spans] == list(
        range(6, FOLLOWED_MAX + 6)
    )


def test_what_all_groups_keep_is_bounded_together() -> None:
    """The oldest of the node are let go without a span, whatever group they are of; what was
    acknowledged or has taken another's place is counted no more."""
    rig = Rig()
    long_state = TraceContext(b"t" * 16, b"c" * 8, "a=" + "x" * 500)
    groups = [FollowedEntries(rig.traces, GroupId(number)) for number in range(1, 401)]
    for at in range(1, 9):
        for group in groups:
            body = EntryTraces(TERM, LogIndex(at), (long_state,) * ENTRY_TRACES_MAX)
            group.heard(Message(LEADER, body))
            group.heard(Message(LEADER, body))
            assert rig.traces.kept_bytes <= FOLLOWED_BYTES_MAX
    kept = sum(map(len, groups))
    each = rig.traces.kept_bytes / kept
    assert ENTRY_TRACES_MAX * 500 < each < FOLLOWED_BYTES_MAX / 500
    assert rig.traces.kept_bytes > FOLLOWED_BYTES_MAX - each
    assert [len(group) for group in groups] == sorted(map(len, groups))  # the newest are there
    for group in groups:
        group.heard(Message(LEADER, entries(1, 8)))
        group.sent(AppendResponse(TERM, LogIndex(9), True, False, 0))
    assert (len(rig.spans), rig.traces.kept_bytes) == (kept * ENTRY_TRACES_MAX, 0)
    assert not any(map(len, groups))
