"""Callers at a node's port that must not get a word in, and whether one did."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.authority import Authority, certificate_names, issue, utc_now
from svc_cluster.link.handshake import Identity, make_metadata
from svc_cluster.link.tls import PeerTls, node_name, open_channel
from svc_cluster.replica.peers import PEER_METHOD, SESSION_METHOD

ANSWER_S = 90.0


@dataclass(frozen=True)
class Caller:
    """What one shows, None for clear text, and who it says to be."""

    kind: str
    tls: PeerTls | None
    identity: Identity


def wrong_callers(ca: Path, cluster_id: str, directory: Path) -> list[Caller]:
    """Of every kind. `ca` is the cluster's; all of them know the cluster's secret besides."""
    own = Authority(ca, utc_now)
    old = Authority(ca, lambda: utc_now() - datetime.timedelta(days=10))
    other = Authority.create(directory / "other", utc_now)

    def shown(name: str, by: Authority, names: Sequence[str]) -> PeerTls:
        place = directory / name
        issue(by, names, place, days=1)
        return PeerTls(place / "tls.crt", place / "tls.key", ca / "ca.pem")

    def who(role: str, node: int) -> Identity:
        return Identity(cluster_id, role, NodeId(node), secrets.token_hex(16))

    gateway = certificate_names([], gateway=True)
    return [
        Caller("another CA", shown("a", other, gateway), who("gateway", 0)),
        Caller("expired", shown("b", old, gateway), who("gateway", 0)),
        Caller("a node's certificate", shown("c", own, certificate_names([2])), who("gateway", 0)),
        Caller("a gateway's certificate", shown("d", own, gateway), who("node", 2)),
        Caller(
            "another node's certificate", shown("e", own, certificate_names([2])), who("node", 3)
        ),
        Caller("a server's certificate", shown("f", own, ["localhost"]), who("gateway", 0)),
        Caller("clear text", None, who("gateway", 0)),
    ]


async def is_let_in(address: str, node: int, secret: bytes, caller: Caller) -> bool:
    """Whether the node takes the call. One that it takes ends in peace when nothing comes; one that
    it refuses ends with the refusal, in TLS or after it."""
    method = PEER_METHOD if caller.identity.role == "node" else SESSION_METHOD
    metadata = make_metadata(secret, caller.identity, secrets.token_hex(16))
    async with open_channel(address, (), caller.tls, node_name(NodeId(node))) as channel:
        stream = channel.stream_stream(method)(nothing(), metadata=metadata, timeout=ANSWER_S)
        try:
            return await stream.code() is grpc.StatusCode.OK
        finally:
            stream.cancel()


async def nothing() -> AsyncIterator[bytes]:
    none: tuple[bytes, ...] = ()
    for each in none:
        yield each


async def let_in(
    addresses: Sequence[tuple[int, str]], secret: bytes, callers: Sequence[Caller], attempts: int
) -> list[str]:
    """The kinds that got in, of so many attempts that go around callers and nodes alike."""
    found = []
    for attempt in range(attempts):
        caller = callers[attempt % len(callers)]
        node, address = addresses[attempt // len(callers) % len(addresses)]
        if await is_let_in(address, node, secret, caller):
            found.append(caller.kind)
    return found
