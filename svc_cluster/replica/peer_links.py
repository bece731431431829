"""The links to the other nodes, over TCP or TLS."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from svc_cluster.base.ids import NodeId
from svc_cluster.link.connector import Connector, LinkEvents
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame_turns import FrameTurns
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError
from svc_cluster.link.tls import PeerTls, node_name
from svc_cluster.link.tls_context import CallerTls
from svc_cluster.replica.peer_conversation import PeerLink
from svc_cluster.replica.peers import RAFT, Open


def connectors(
    *,
    loop: asyncio.AbstractEventLoop,
    addresses: Mapping[NodeId, str],
    secret: bytes,
    speaker: Callable[[], Speaker],
    check: Callable[[Speaker], None] = lambda _: None,
    check_raft: Callable[[Speaker], None] = lambda _: None,
    rng: random.Random,
    tls: PeerTls | None,
) -> Open:
    """Links over TCP, or TLS where `tls` says with which certificate. A `check` raises
    HandshakeError for a node that is called and not wanted: for its service, or for Raft."""

    callers = None if tls is None else CallerTls(tls)
    turns = FrameTurns(loop)

    def open_link(peer: NodeId, is_raft: bool, events: LinkEvents) -> PeerLink:
        def terms() -> Terms:
            own = speaker()
            features = (*own.features, RAFT) if is_raft else own.features
            return Terms(secret, replace(own, features=features), expected)

        def expected(other: Speaker) -> None:
            """The address may be another node's by now."""
            if other.identity.node_id != peer:
                raise HandshakeError(f"node {other.identity.node_id} answers for node {peer}")
            (check_raft if is_raft else check)(other)

        connector = Connector(
            loop=loop,
            address=addresses[peer],
            terms=terms,
            events=events,
            rng=rng,
            tls=callers,
            server_name=node_name(peer),
            turns=turns,
        )
        connector.start()
        return connector

    return open_link
