"""A node whose memory is full: what clients see, what is committed, what the metrics show."""

from __future__ import annotations

import asyncio
from pathlib import Path

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.node_metrics import NodeMetrics
from svc_cluster.codec import rpc
from svc_cluster.replica.memory import MIB
from svc_cluster.replica.peers import LinkPeers, PeerLink
from svc_cluster.storage.read_pool import ReadPool, ReadPoolSettings
from tests.integration.conversation import Pair, pair
from tests.integration.test_conversations import one_record


def no_link(*_: object) -> PeerLink:
    raise AssertionError("there are no peers")


async def append(two: Pair, group_id: GroupId, size: int) -> pb.Response:
    def fill(request: pb.Request) -> None:
        rpc.append_to_pb(request.append, "s", one_record(bytes(size)), None, None)

    return await two.session.call(group_id, 5000, fill)


def test_a_full_node_refuses_appends_without_effect_and_shows_it(tmp_path: Path) -> None:
    """The refusal is definite, nothing is committed, other requests are served, the metrics tell
    each part; and what is admitted again when the part has let go."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            metrics = Metrics()
            links = LinkPeers(
                loop=asyncio.get_running_loop(), peers=(), clock=lambda: None, open_link=no_link
            )
            reads = ReadPool(asyncio.get_running_loop(), ReadPoolSettings())
            shown = NodeMetrics(metrics, two.node, tmp_path, links, two.disk, reads)
            assert (await append(two, group_id, 1000)).WhichOneof("result") == "append"
            hoard = host.memory.bytes_max
            host.memory.add("hoard", lambda: hoard)
            host.memory.look()
            last = host.basins[group_id].group.engine.last_index
            refused = await append(two, group_id, 1000)
            assert refused.refusal.code == "unavailable"
            assert not refused.refusal.may_have_taken_effect
            assert host.basins[group_id].group.engine.last_index == last
            assert (await two.client.check_tail("basin-one", "s")).seq_num == 1
            shown.expose()
            value = metrics.registry.get_sample_value
            assert value("svc_memory_refused_total") == 1
            assert value("svc_memory_held_bytes", {"part": "hoard"}) == hoard
            assert value("svc_memory_max_bytes") == host.memory.bytes_max
            assert (value("svc_memory_held_bytes", {"part": "log"}) or 0) > 1000
            hoard = 0
            host.memory.look()
            assert (await append(two, group_id, 1000)).append.start.seq_num == 1
            assert host.memory.held()["requests"] == 0, "what was answered holds nothing"
            reads.close()

    asyncio.run(body())


def test_an_append_is_measured_by_its_records(tmp_path: Path) -> None:
    """One that does not fit is refused although a smaller one does."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            host.memory.add("hoard", lambda: host.memory.bytes_max - MIB // 2)
            host.memory.look()
            assert (await append(two, group_id, 900_000)).refusal.code == "unavailable"
            assert (await append(two, group_id, 1000)).append.start.seq_num == 0

    asyncio.run(body())
