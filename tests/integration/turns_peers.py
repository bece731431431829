"""What another node says: every kind of message between replicas, as many as an envelope holds, and
entries as many as a leader sends in one. The table is compared with the proto."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from svc_cluster.base.configuration import MEMBERS_MAX, Configuration, GroupMember
from svc_cluster.base.ids import (
    CATALOG_GROUP,
    GroupId,
    LogIndex,
    NodeId,
    ReplicaId,
    Term,
    TimestampMs,
)
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.tracing import TraceContext
from svc_cluster.catalog.catalog_commands import CreateBasin
from svc_cluster.codec.catalog_entry import encode_catalog_entry
from svc_cluster.codec.peer_message import (
    MEMBER_OVERHEAD_BYTES,
    encode_envelope,
    encode_message,
)
from svc_cluster.codec.scrub_message import COST_MAX
from svc_cluster.link.calls import Verb
from svc_cluster.link.frame import FrameKind
from svc_cluster.model.content import CONTENT_VERSION
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.messages import (
    ENTRY_TRACES_MAX,
    REST_LIST_MAX,
    AppendRequest,
    AppendResponse,
    Beat,
    Ended,
    EntryTraces,
    MarkKind,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    RestKind,
    RestList,
    RestMark,
    ScrubAnswer,
    ScrubOutcome,
    ScrubQuestion,
    ScrubVerdict,
    StaleTerm,
    StateMark,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.peer_conversation import ENVELOPE_BYTES_MAX
from svc_cluster.replica.portions import portions
from svc_cluster.stream.commands import Bootstrap
from tests.at_once import encode_entry
from tests.integration.turns import ME, OTHER, Full

MIB: Final = 1024 * 1024
SMALL_ENTRIES: Final = 40_000
BASIN: Final = "told-by-a-leader"
NOW: Final = TimestampMs(1_700_000_000_000)
HIGH: Final = 2**40
MANY: Final = tuple(GroupMember(NodeId(n), ReplicaId(HIGH + n)) for n in range(MEMBERS_MAX))


class Leader:
    """Another node, as the leader of a group of which this node has a replica."""

    def __init__(self, full: Full, group_id: GroupId) -> None:
        self._full = full
        self.group_id = group_id
        self._sequence = 0

    @property
    def group(self) -> AnyGroup:
        replica = self._full.node.host.replica(self.group_id)
        assert replica is not None
        return replica.group

    @property
    def term(self) -> Term:
        """One in which nobody else leads, and this one does already, where it did."""
        engine = self.group.engine
        return engine.term if engine.leader == OTHER else Term(engine.term + 1)

    def entries(self, payloads: Sequence[bytes]) -> AppendRequest:
        """Behind all that the replica has, and committed."""
        engine, term = self.group.engine, self.term
        last = engine.last_index
        made = tuple(
            LogEntry(LogIndex(last + 1 + n), term, payload) for n, payload in enumerate(payloads)
        )
        previous_term = engine.term_at(last)
        assert previous_term is not None
        self._sequence += 1
        end = LogIndex(last + len(made))
        return AppendRequest(term, last, previous_term, end, made, self._sequence)

    def envelope(self, *messages: PeerMessage) -> bytes:
        return encode_envelope(b"", [encode_message(self.group_id, each) for each in messages])


def entries_of_one_message(leader: Leader) -> list[AppendRequest]:
    """One large entry, and the first message of what a leader makes of very many small ones."""
    large = leader.entries([encode_entry([])[:2] + b"\x0a" + b"x" * MIB])
    small = leader.entries([encode_entry([])] * SMALL_ENTRIES)
    first = next(iter(portions(small)))
    end = LogIndex(first.previous_index + len(first.entries))
    return [large, replace(first, commit_index=end)]


def _verdict_key(n: int) -> bytes:
    return b"\x04" + n.to_bytes(16, "big")


MESSAGES: Final[dict[str, Callable[[Term, int], PeerMessage]]] = {
    "append_response": lambda t, n: AppendResponse(t, LogIndex(HIGH + n), True, False, HIGH),
    "vote_request": lambda t, n: VoteRequest(t, LogIndex(HIGH + n), t),
    "vote_granted": lambda t, n: VoteGranted(t),
    "pre_vote_request": lambda t, n: PreVoteRequest(t, Term(t + 1), LogIndex(HIGH), t),
    "pre_vote_response": lambda t, n: PreVoteResponse(t, Term(t + 1), granted=False),
    "stale_term": lambda t, n: StaleTerm(t),
    "ended": lambda t, n: Ended(t, Configuration(n % 2**20, MANY, LogIndex(HIGH + n), t)),
    "timeout_now": lambda t, n: TimeoutNow(t),
    "state_mark": lambda t, n: StateMark(t, LogIndex(HIGH + n), n, MarkKind.QUESTION, 1, 1),
    "entry_traces": lambda t, n: EntryTraces(
        t, LogIndex(HIGH + n), (TraceContext(b"t" * 16, b"s" * 8, "a" * 512),) * ENTRY_TRACES_MAX
    ),
    "rest_mark": lambda t, n: RestMark(t, RestKind.ASK, LogIndex(HIGH + n), n),
    "beat": lambda t, n: Beat(n, n, n, lists=True, sender_term=t),
    "rest_list": lambda t, n: RestList(
        tuple((GroupId(HIGH + number), t) for number in range(REST_LIST_MAX)), t
    ),
    "scrub_question": lambda t, n: ScrubQuestion(
        t, CONTENT_VERSION, 1, n, LogIndex(HIGH + n), _verdict_key(n), COST_MAX, 1, covered=True
    ),
    "scrub_answer": lambda t, n: ScrubAnswer(
        t, CONTENT_VERSION, 1, n, ScrubOutcome.COMPARED, _verdict_key(n), n, n
    ),
    "scrub_verdict": lambda t, n: ScrubVerdict(
        t, CONTENT_VERSION, 1, n + HIGH, _verdict_key(n), n, n
    ),
}
"""But for entries, which are measured by themselves."""


def full_envelope(leader: Leader, kind: str) -> bytes:
    """As many messages of a kind as leave together: of many groups, or of one that is quick."""
    term = leader.term
    members: list[bytes] = []
    size = 0
    while True:
        member = encode_message(leader.group_id, MESSAGES[kind](term, len(members)))
        size += len(member) + MEMBER_OVERHEAD_BYTES
        if size > ENVELOPE_BYTES_MAX:
            return encode_envelope(b"", members)
        members.append(member)


def first_entries(full: Full) -> bytes:
    """The creation of a basin with a replica here."""
    catalog = full.node.host.catalog
    assert catalog is not None
    made = CreateBasin(
        BASIN, catalog.state.next_group_id, (OTHER, ME, NodeId(3)), BasinConfig(), NOW
    )
    return Leader(full, CATALOG_GROUP).envelope(
        Leader(full, CATALOG_GROUP).entries([encode_catalog_entry([made])])
    )


def bootstrap(leader: Leader) -> bytes:
    command = Bootstrap(BASIN, BasinConfig(), NOW, counts_usage=True)
    return leader.envelope(leader.entries([encode_entry([command])]))


async def led(full: Full) -> Leader:
    """A basin of which the node has a replica, led by the test, as the catalog is."""
    host = full.node.host
    full.raft.tell(Verb.PEER, first_entries(full), FrameKind.BULK)
    async with asyncio.timeout(20):
        while not host.basins:
            await asyncio.sleep(0.01)
        (group_id,) = host.basins
        leader = Leader(full, group_id)
        full.raft.tell(Verb.PEER, bootstrap(leader), FrameKind.BULK)
        while host.basins[group_id].state.basin is None:
            await asyncio.sleep(0.01)
    basin = host.basins[group_id].state.basin
    assert basin is not None and basin.name == BASIN
    return leader
