"""A directory that has nothing comes to a cluster that is there. It shows its join token to one
node after another until the leader of the catalog has let it in, or says why it never will."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ErrorCode
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import Logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.catalog.catalog_commands import RegisterNode
from svc_cluster.codec.formation_report import FormationFormatError, decode_report
from svc_cluster.codec.join_pb import put_node
from svc_cluster.model.formation import SEED_BYTES_MAX, SEEDS_MAX, FormationRecord, Stage
from svc_cluster.model.join_token import JoinToken
from svc_cluster.model.places import place_of

AGAIN_SECONDS: Final = 0.5
"""Pause between two rounds over the nodes of the settings."""

Fill = Callable[[pb.Request], None]


def formation_told(
    joined: pb.JoinedCluster, node_id: NodeId, incarnation: str
) -> FormationRecord | None:
    """What the directory writes down when it was let in; None: the answer makes no sense. Under the
    id of a node that was removed it comes with the ordinal that the catalog has given it."""
    try:
        report = decode_report(joined.formation.SerializeToString())
    except FormationFormatError:
        return None
    if report.stage is not Stage.FORMED or node_id in dict(report.members):
        return None
    place = place_of(node_id, report.places)
    if place is not None and place.incarnation != incarnation:
        return None
    seeds = tuple(
        (NodeId(seed.node_id), seed.address)
        for seed in joined.seeds[:SEEDS_MAX]
        if len(seed.address.encode()) <= SEED_BYTES_MAX
    )
    return FormationRecord(
        report.round,
        Stage.FORMED,
        report.members,
        report.places,
        ordinal=0 if place is None else place.ordinal,
        joined=True,
        seeds=seeds,
    )


class Newcomer:
    """The one of a node."""

    def __init__(
        self,
        node: RegisterNode,
        token: JoinToken,
        *,
        others: Callable[[], Iterable[NodeId]],
        ask: Callable[[NodeId, Fill], Awaitable[pb.Response | None]],
        offer: Callable[[FormationRecord], None],
        on_out: Callable[[str], None],
        now: Callable[[], float],
        log: Logger,
    ) -> None:
        """`ask` asks a node; None: no answer came. `offer` is told of the formation,
        `on_out` of why there never is one; one of them, once. `now`: monotonic seconds."""
        self._node = node
        self._token = token
        self._others = others
        self._ask = ask
        self._offer = offer
        self._on_out = on_out
        self._now = now
        self._log = log
        self._put_off = Seldom()
        self._told = ""
        """The reason that the last line about being put off has."""
        self.refusal: str | None = None
        """Why the node is not let in, ever, with this token."""

    async def run(self) -> None:
        """Return when the node is let in, or refused."""
        while self.refusal is None:
            reasons: list[tuple[NodeId, str]] = []
            for other in sorted(self._others()):
                response = await self._ask(other, self._fill)
                if response is None:
                    continue
                if self._is_decided(other, response):
                    return
                if response.WhichOneof("result") == "refusal":
                    reasons.append((other, response.refusal.message))
            self._tell(reasons)
            await asyncio.sleep(AGAIN_SECONDS)

    def _tell(self, reasons: list[tuple[NodeId, str]]) -> None:
        """A line when the nodes of this round put it off for another reason than the last line
        says, at most one a minute. A reason that comes and goes within it is not told."""
        if not reasons or self._told in {reason for _, reason in reasons}:
            return
        changes = self._put_off.note(self._now())
        if changes is not None:
            other, self._told = reasons[0]
            self._log.warning("join_put_off", asked_node=other, reason=self._told)

    def _is_decided(self, other: NodeId, response: pb.Response) -> bool:
        if response.WhichOneof("result") == "joined_cluster":
            who = (self._node.node_id, self._node.incarnation)
            record = formation_told(response.joined_cluster, *who)
            if record is None:
                self._log.warning("join_answer_unusable", asked_node=other)
                return False
            self._log.info("node_admitted", asked_node=other)
            self._offer(record)
            return True
        if response.refusal.code == ErrorCode.INVALID.value:
            self.refusal = f"node {self._node.node_id} is not let in: {response.refusal.message}"
            self._log.error("node_refused", reason=self.refusal)
            self._on_out(self.refusal)
            return True
        return False

    def _fill(self, request: pb.Request) -> None:
        put_node(request.join_cluster.node, self._node)
        request.join_cluster.secret = self._token.secret
