"""What has arrived at a node in part is in the budget of its memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from svc_cluster.base.ids import NodeId
from svc_cluster.base.memory import MIB
from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind, encode_frame
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.link_server import LinkServer
from tests.integration.conversation import pair
from tests.integration.test_memory import append

SECRET = b"s" * 32
SLICE = bytes(256 * 1024)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def test_messages_that_never_end_leave_no_room_for_new_work(tmp_path: Path) -> None:
    """Appends are refused while a caller's unended messages fill the budget, and taken again when
    its conversation is over."""

    async def body() -> None:
        async with pair(tmp_path) as two, asyncio.timeout(60):
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            server = LinkServer(two.node, SECRET, called=lambda _: None)
            port = await server.start("127.0.0.1:0")
            cluster_id = two.node.speaker().identity.cluster_id
            speaker = Speaker(Identity(cluster_id, "gateway", NodeId(0), "i"))
            session = NodeSession(asyncio.get_running_loop())
            caller = Connector(
                loop=asyncio.get_running_loop(),
                address=f"127.0.0.1:{port}",
                terms=lambda: Terms(SECRET, speaker, lambda _: None),
                events=session,
                rng=random.Random(1),
                tls=None,
                server_name="",
            )
            caller.start()
            await _until(lambda: session.is_up)
            assert caller._wire is not None and caller._wire._transport is not None
            for series in range(1, 9):
                caller._wire._transport.write(
                    encode_frame(FrameKind.BULK, SLICE, series=series, more=True)
                )
            await _until(lambda: host.memory.held()["arriving"] == 8 * len(SLICE))
            host.memory.bytes_max = host.memory.look() + MIB // 2
            refused = await append(two, group_id, MIB - 1000)
            assert refused.refusal.code == "unavailable"
            assert not refused.refusal.may_have_taken_effect
            await caller.close()
            await _until(lambda: host.memory.held()["arriving"] == 0)
            host.memory.look()
            assert (await append(two, group_id, MIB - 1000)).append.start.seq_num == 0
            await server.stop()

    asyncio.run(body())
