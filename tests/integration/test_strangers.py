"""Nodes that come to join have the cluster's secret and say any id they like; a node that is there
holds few conversations with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.connector import introduce
from svc_cluster.link.conversation import Terms
from svc_cluster.link.features import JOIN
from svc_cluster.link.greeting import RefusedError, Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.replica.link_server import LinkServer
from tests.integration.conversation import pair
from tests.outside_callers import talk

SECRET = b"s" * 32
STRANGERS = 3


def terms(role: str, node: int, *features: str) -> Terms:
    identity = Identity("c" * 32, role, NodeId(node), f"i{node}")
    return Terms(SECRET, Speaker(identity, features), lambda _: None)


def test_strangers_share_few_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says another id; a gateway is let in beside them."""
    monkeypatch.setattr("svc_cluster.link.acceptor.STRANGERS_MAX", STRANGERS)

    async def body() -> None:
        async with asyncio.timeout(60), pair(tmp_path) as two:
            await two.stream("basin-of-one", "s")
            called: list[NodeId] = []
            server = LinkServer(two.node, SECRET, called=called.append)
            address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
            held = [await talk(address, terms("node", 7 + n, JOIN)) for n in range(STRANGERS)]
            with pytest.raises(RefusedError, match=f"there are {STRANGERS}"):
                await introduce(address, terms("node", 99, JOIN), None, "")
            held.append(await talk(address, terms("gateway", 0)))
            assert server.acceptor.refusals == 1
            assert called == [7 + n for n in range(STRANGERS)], "nodes that were let in"
            for connector in held:
                await connector.close()
            await server.stop()

    asyncio.run(body())
