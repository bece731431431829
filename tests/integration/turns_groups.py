"""A node with very many groups, all of three members, and what the two others say to it.

They agree to everything: each vote is theirs, each entry is theirs at once. What they answer in one
turn of the loop comes in envelopes, as it would from a node.
"""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, LogIndex, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import CreateBasin
from svc_cluster.codec.catalog_entry import encode_catalog_entry
from svc_cluster.codec.peer_message import encode_envelope, encode_message
from svc_cluster.link.calls import Verb
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.group import Role
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    VoteGranted,
    VoteRequest,
)
from svc_cluster.replica.host import Host
from svc_cluster.replica.peers import RAFT
from tests.integration.turns import CLUSTER, ME, OTHER, Full, Line, Peers, incarnation, propose

THIRD: Final = NodeId(3)
OTHERS: Final = (OTHER, THIRD)
GROUPS: Final = 300
CREATED_AT_ONCE: Final = 50
"""Basins that one entry of the catalog creates."""

OPEN_SECONDS: Final = 120.0


class AgreeingPeers(Peers):
    """The other members of every group."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[NodeId, Line] = {}
        """The ways on which they answer; those that have none say nothing."""
        self._answers: dict[NodeId, list[bytes]] = {}

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        answer = _agreed(message)
        if answer is None or peer not in self.lines:
            return
        waiting = self._answers.setdefault(peer, [])
        if not waiting:
            asyncio.get_running_loop().call_later(0.001, self._answer, peer)
        waiting.append(encode_message(group_id, answer))

    def _answer(self, peer: NodeId) -> None:
        self.lines[peer].tell(
            Verb.PEER, encode_envelope(b"", self._answers.pop(peer)), FrameKind.URGENT
        )


def _agreed(message: PeerMessage) -> PeerMessage | None:
    match message:
        case PreVoteRequest():
            return PreVoteResponse(message.sender_term, message.next_term, granted=True)
        case VoteRequest():
            return VoteGranted(message.sender_term)
        case AppendRequest():
            end = LogIndex(message.previous_index + len(message.entries) + 1)
            return AppendResponse(message.sender_term, end, True, False, message.read_sequence)
        case _:
            return None


async def leads_all(full: Full, peers: AgreeingPeers, count: int) -> None:
    """Until the node leads the catalog and `count` basins of three members."""
    for peer in OTHERS:
        said = Identity(CLUSTER, "node", peer, incarnation(peer))
        peers.lines[peer] = Line(full.node, Speaker(said, (RAFT,)), full.tasks)
        full.node.host.news.up(peer)
    host = full.node.host
    async with asyncio.timeout(OPEN_SECONDS):
        while host.catalog is None or not host.catalog.group.is_serving:
            await asyncio.sleep(0.01)
        state = host.catalog.state
        now = TimestampMs(full.node.services.clock.wall_ms())
        first = state.next_group_id
        made = [
            CreateBasin(
                f"one-of-many-{n:05d}", GroupId(first + n), (ME, *OTHERS), BasinConfig(), now
            )
            for n in range(count)
        ]
        for n in range(0, count, CREATED_AT_ONCE):
            some = encode_catalog_entry(made[n : n + CREATED_AT_ONCE])
            await propose(full, CATALOG_GROUP, [some])
        while not all_lead(host, count):
            await asyncio.sleep(0.05)


def all_lead(host: Host, count: int) -> bool:
    return len(host.basins) == count and all(
        basin.group.engine.role is Role.LEADER and basin.state.basin is not None
        for basin in host.basins.values()
    )
