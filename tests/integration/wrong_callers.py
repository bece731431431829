"""Callers at a node's port that must not get a word in, and whether one did."""

from __future__ import annotations

import asyncio
import datetime
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.authority import Authority, certificate_names, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.link.connector import introduce
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind, encode_frame
from svc_cluster.link.greeting import Speaker, make_challenge, make_claim
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.tls import PeerTls, node_name
from svc_cluster.link.tls_context import caller_context

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
    """Whether the node takes the caller: one that it refuses ends in TLS, or with a refusal."""
    terms = Terms(secret, Speaker(caller.identity), lambda _: None)
    if caller.tls is None:
        return await _is_let_in_clear(address, terms)
    try:
        async with asyncio.timeout(ANSWER_S):
            await introduce(address, terms, caller_context(caller.tls), node_name(NodeId(node)))
    except (HandshakeError, OSError):
        return False
    return True


async def _is_let_in_clear(address: str, terms: Terms) -> bool:
    """By the words of somebody who does not wait for the challenge, which never comes."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        claim = make_claim(terms.secret, make_challenge(bytes(32)), terms.speaker, bytes(32))[0]
        writer.write(encode_frame(FrameKind.GREETING, claim))
        async with asyncio.timeout(ANSWER_S):
            answer = await reader.read()
    except ConnectionError:
        return False
    finally:
        writer.transport.abort()
    # TLS says what it thinks of it in a record of its own
    return answer[4:5] == bytes([FrameKind.GREETING])


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
