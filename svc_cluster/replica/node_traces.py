"""What a node tells of sampled appends: as their leader, and as a follower of one.

Contexts come with the requests of gateways, and from leaders in messages of their own: nothing of
them is in the log. Neither is worth a retry: where a message has no room, the span is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.memory import MIB
from svc_cluster.base.tracing import (
    SPAN_ID_BYTES,
    Span,
    SpanKind,
    SpanSink,
    TraceContext,
    bounded,
)
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.raft.group import Event, Message
from svc_cluster.raft.messages import (
    ENTRY_TRACES_MAX,
    AppendRequest,
    AppendResponse,
    EntryTraces,
    PeerMessage,
)

FOLLOWED_MAX: Final = 64
"""Entries of a group that a follower has been told of and has not acknowledged; of more, the oldest
are let go without a span."""
FOLLOWED_BYTES_MAX: Final = 4 * MIB
"""What a node keeps of all groups' announced entries, by `_size_of`; of more, the oldest of any
group are let go without a span."""
_TRACE_BYTES: Final = 400
"""About what one context takes in memory beside its `tracestate`."""

LEADER_SPAN: Final = "append on the leader"
FOLLOWER_SPAN: Final = "entry on a follower"


@dataclass(slots=True)
class TracedStages(LeaderStages):
    """The stages of an append whose request is sampled."""

    trace: TraceContext = TraceContext(b"", b"")
    """The leader's own span."""
    parent_id: bytes = b""
    begun: float = 0.0


class NodeTraces:
    """The one of a node. `clock` tells monotonic seconds, `takes` whether a peer has named the
    feature TRACES."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        sink: SpanSink,
        takes: Callable[[NodeId], bool],
    ) -> None:
        self.takes = takes
        self._node_id = node_id
        self._clock = clock
        self._random = random_bytes
        self._sink = sink
        self._kept: dict[tuple[FollowedEntries, LogIndex], int] = {}
        """Announced entries of all groups, oldest first, with their bytes."""
        self.kept_bytes = 0
        """The sum of them, at most FOLLOWED_BYTES_MAX."""

    def begin(self, caller: TraceContext) -> TracedStages:
        """An append of this trace has arrived here."""
        own = TraceContext(caller.trace_id, self._random(SPAN_ID_BYTES), caller.state)
        return TracedStages(trace=own, parent_id=caller.span_id, begun=self._clock())

    def led(self, append: TracedStages, group_id: GroupId, refusal: ServiceError | None) -> None:
        """The append is answered, perhaps with a refusal."""
        code = None if refusal is None else refusal.code.value
        stages: dict[str, str | int | float | None] = {
            f"svc.stage.{name}_ms": round(getattr(append, name) * 1000, 3)
            for name in ("queue", "wal", "quorum", "apply")
        }
        self._put(
            LEADER_SPAN,
            SpanKind.SERVER,
            append.trace,
            append.parent_id,
            append.begun,
            stages | {"svc.node": self._node_id, "svc.group": group_id, "svc.code": code},
            has_failed=refusal is not None,
        )

    def proposed(
        self,
        term: Term,
        log_index: LogIndex,
        appends: Iterable[LeaderStages | None],
        followers: Iterable[NodeId],
        send: Callable[[NodeId, EntryTraces], None],
    ) -> None:
        """Tell the followers, by `send`, that these appends are in an entry that is to leave for
        them. Of many that are sampled the first ones are told."""
        traces = [one.trace for one in appends if isinstance(one, TracedStages)]
        if traces:
            told = EntryTraces(term, log_index, tuple(traces[:ENTRY_TRACES_MAX]))
            for peer in followers:
                if peer != self._node_id and self.takes(peer):
                    send(peer, told)

    def followed(self, entry: EntryTraces, group_id: GroupId, since: float) -> None:
        """An entry that arrived at `since` is acknowledged."""
        about = {
            "svc.node": self._node_id,
            "svc.group": group_id,
            "svc.log_index": entry.log_index,
        }
        for caller in entry.traces:
            own = TraceContext(caller.trace_id, self._random(SPAN_ID_BYTES), caller.state)
            self._put(FOLLOWER_SPAN, SpanKind.INTERNAL, own, caller.span_id, since, about)

    def now(self) -> float:
        return self._clock()

    def keep(self, owner: FollowedEntries, entry: EntryTraces) -> None:
        """Count an announced entry; the oldest of the node make room for it. Those of a replica
        that is gone do so in their turn."""
        size = _size_of(entry)
        self.let_go(owner, entry.log_index)
        self._kept[owner, entry.log_index] = size
        self.kept_bytes += size
        while self.kept_bytes > FOLLOWED_BYTES_MAX:
            oldest, oldest_index = next(iter(self._kept))
            oldest.forget(oldest_index)

    def let_go(self, owner: FollowedEntries, log_index: LogIndex) -> None:
        """Count an announced entry no longer."""
        self.kept_bytes -= self._kept.pop((owner, log_index), 0)

    def _put(
        self,
        name: str,
        kind: SpanKind,
        context: TraceContext,
        parent_id: bytes,
        begun: float,
        about: Mapping[str, str | int | float | None],
        *,
        has_failed: bool = False,
    ) -> None:
        ended = self._clock()
        self._sink.put(
            Span(name, kind, context, parent_id, begun, ended, bounded(about), has_failed)
        )


def _size_of(entry: EntryTraces) -> int:
    return sum(_TRACE_BYTES + len(one.state) for one in entry.traces)


class FollowedEntries:
    """The sampled entries of one group that a leader elsewhere has told of."""

    def __init__(self, traces: NodeTraces, group_id: GroupId) -> None:
        self._traces = traces
        self._group_id = group_id
        self._told: dict[LogIndex, EntryTraces] = {}
        self._arrived: dict[LogIndex, float] = {}
        """When those of them that are here came: monotonic seconds."""

    def __len__(self) -> int:
        return len(self._told)

    def heard(self, event: Event) -> None:
        """An event arrives: it may tell of an entry, or be one."""
        if type(event) is not Message:
            return
        body = event.body
        if type(body) is EntryTraces:
            self.forget(body.log_index)
            if len(self._told) >= FOLLOWED_MAX:
                self.forget(next(iter(self._told)))
            self._told[body.log_index] = body
            self._traces.keep(self, body)
        elif type(body) is AppendRequest and body.entries and self._told:
            last = body.previous_index + len(body.entries)
            for log_index, told in list(self._told.items()):
                if told.sender_term != body.sender_term:
                    self.forget(log_index)  # another leader may have put another entry there
                elif body.previous_index < log_index <= last:
                    self._arrived.setdefault(log_index, self._traces.now())

    def sent(self, message: PeerMessage) -> None:
        """A message leaves: it may acknowledge entries, which are durable then."""
        if not self._told or type(message) is not AppendResponse or not message.success:
            return
        for log_index, told in list(self._told.items()):
            if log_index < message.next_index and log_index in self._arrived:
                since = self._arrived[log_index]
                self.forget(log_index)
                if told.sender_term == message.sender_term:
                    self._traces.followed(told, self._group_id, since)

    def forget(self, log_index: LogIndex) -> None:
        """Let go of an announced entry; no span is told of it."""
        self._traces.let_go(self, log_index)
        self._told.pop(log_index, None)
        self._arrived.pop(log_index, None)
