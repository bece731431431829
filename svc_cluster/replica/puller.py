"""Replicas that lack what is decided ask for it. Learners always do, members until they have the
beginning of their configuration. Any replica answers; late or twice does no harm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.configuration import ConfigurationFormatError, decode_configuration
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.peer_message import NUMBER_MAX
from svc_cluster.raft.feed import FEED_ENTRIES_MAX, Feed
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.raft.learner_group import LearnerGroup
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.seamed import Seamed, seam_of

if TYPE_CHECKING:
    from svc_cluster.catalog.group_change import GroupRow

PULL_SECONDS: Final = 0.2
"""How often a learner that has everything asks whether there is more; whether it is ready to become
a member is judged by what it said of late."""

PULLS_MAX: Final = 8
"""Questions of a node that are under way at one time."""

ANSWER_SECONDS: Final = 3.0


class Puller:
    """The one of a node."""

    def __init__(
        self,
        node_id: NodeId,
        group_of: Callable[[GroupId], AnyGroup | None],
        row_of: Callable[[GroupId], GroupRow | None],
        ask: Callable[
            [NodeId, Callable[[pb.Request], None], GroupId, float], Awaitable[pb.Response | None]
        ],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`ask` asks a node about a group, for so many seconds; None: no answer came."""
        self.all_nodes: Callable[[], Sequence[NodeId]] = tuple
        """Where the catalog is: everywhere, by what is known here."""
        self._node_id = node_id
        self._group_of = group_of
        self._row_of = row_of
        self._ask = ask
        self._tasks = Tasks(on_failure=on_failure)
        self._running: set[GroupId] = set()
        self._places = asyncio.Semaphore(PULLS_MAX)
        self.pulled = 0
        """Entries that were taken."""

    async def stop(self) -> None:
        await self._tasks.cancel_all()

    def look(self, group: AnyGroup) -> None:
        """Begin to ask for a group, if it wants to and is not asked for."""
        seam = seam_of(group.engine)
        if seam is not None and seam.wants_feed and group.group_id not in self._running:
            self._running.add(group.group_id)
            self._tasks.spawn(self._run(group.group_id), "pull")

    async def _run(self, group_id: GroupId) -> None:
        turn = 0
        try:
            while True:
                group = self._group_of(group_id)
                seam = None if group is None else seam_of(group.engine)
                if group is None or seam is None or not (group.stopped or seam.wants_feed):
                    return
                if group.fault:
                    return
                if not group.stopped:
                    async with self._places:
                        has_more = await self._pull(group, seam, turn)
                    turn += 1
                    if has_more:
                        continue
                await asyncio.sleep(PULL_SECONDS)
        finally:
            self._running.discard(group_id)

    def _sources(self, group: AnyGroup, seam: Seamed) -> Sequence[NodeId]:
        """Whom to ask, the likeliest first: who spoke of a later configuration, who leads."""
        found: list[NodeId | None] = [seam.behind, group.engine.leader]
        row = self._row_of(group.group_id)
        if row is not None:
            found += row.replicas
            if row.change is not None:
                found += row.change.replicas
        found += group.engine.members
        if group.group_id == CATALOG_GROUP:
            found += self.all_nodes()  # each has one
        known = dict.fromkeys(node for node in found if node is not None)
        return [node for node in known if node != self._node_id]

    def _next_source(self, group: AnyGroup, sources: Sequence[NodeId], turn: int) -> NodeId:
        """Each in turn. Who is to become a member asks the leader every other time, however many
        others there are: by that the leader knows that it is ready."""
        row, leader = self._row_of(group.group_id), group.engine.leader
        change = None if row is None else row.change
        is_coming = change is not None and self._node_id in change.replicas
        if is_coming and leader is not None and leader in sources and turn % 2 == 0:
            return leader
        return sources[(turn // 2 if is_coming else turn) % len(sources)]

    async def _pull(self, group: AnyGroup, seam: Seamed, turn: int) -> bool:
        """One question. Whether there may be more at once."""
        sources = self._sources(group, seam)
        if not sources:
            return False
        node = self._next_source(group, sources, turn)
        engine = group.engine

        def fill(request: pb.Request) -> None:
            asked = request.fetch_committed
            asked.log_index, asked.node_id = engine.durable_index, self._node_id
            asked.recovers = bool(engine.recovery)

        response = await self._ask(node, fill, group.group_id, ANSWER_SECONDS)
        if response is None or response.WhichOneof("result") != "committed":
            return False
        if seam.behind == node:
            seam.behind = None
        return not group.stopped and self._take(group, seam, response.committed)

    def _take(self, group: AnyGroup, seam: Seamed, told: pb.Committed) -> bool:
        if len(told.entries) > FEED_ENTRIES_MAX or not all(map(_is_entry, told.entries)):
            return False
        try:
            configuration = decode_configuration(told.configuration)
        except ConfigurationFormatError:
            return False
        first = told.previous_index + 1
        entries = tuple(
            LogEntry(LogIndex(index), Term(entry.term), entry.payload)
            for index, entry in enumerate(told.entries, start=first)
        )
        if isinstance(group.engine, LearnerGroup) and told.leader:
            group.engine.leader = NodeId(told.leader)
        before = group.engine.last_index
        if told.needs_snapshot:
            group.seam.learn(configuration)
        else:
            previous = LogIndex(told.previous_index)
            group.seam.take(Feed(configuration, previous, Term(told.previous_term), entries))
        taken = group.engine.last_index - before
        self.pulled += max(0, taken)
        return taken > 0


def _is_entry(told: pb.CommittedEntry) -> bool:
    """Whether it has the size and the term of an entry, as `codec/peer_message.py` checks it."""
    return 0 < len(told.payload) <= ENTRY_BYTES_MAX and told.term <= NUMBER_MAX
