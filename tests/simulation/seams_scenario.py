"""The seam between two configurations of a basin, where one node or all are kept from something."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from svc_cluster.base.configuration import Configuration, configuration_of
from svc_cluster.base.ids import GroupId, LogIndex, NodeId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.raft.messages import AppendResponse, PeerMessage
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.reconciler import Reconciler
from svc_cluster.replica.seamed import number_of
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.mover import BASIN, Mover
from tests.simulation.moves_scenario import OPTIONS
from tests.simulation.node import Luck, SimNode

HELD_S = 3.0
"""Virtual seconds for which a disk does not sync, or answers do not arrive."""

QUIET = replace(OPTIONS, flush_seconds=1_000.0)
"""Nothing is flushed unless the test asks for it."""

Run = Callable[[Mover], Awaitable[None]]


def play(run: Run, seed: int = 1, *, quiet: bool = False) -> None:
    """Run it in a cluster with one basin, and have everything whole at the end."""

    async def whole(cluster: SimCluster) -> None:
        mover = Mover(cluster)
        watch = await mover.begin()
        await cluster.guarded(run(mover), watch)
        await cluster.guarded(mover.finish(), watch)
        watch.cancel()

    in_simulation(seed, QUIET if quiet else OPTIONS, whole)


def row_of(mover: Mover) -> BasinRecord:
    """The row of the catalog that has applied most. One that is cut off may be far behind."""
    catalogs = [node.node.host.catalog for node in mover.cluster.nodes if node.node is not None]
    newest = max(
        (one for one in catalogs if one is not None), key=lambda one: one.group.applied_index
    )
    return newest.state.basins_by_group[BASIN]


def node_of(mover: Mover, number: int) -> SimNode:
    return next(one for one in mover.cluster.nodes if one.node_id == number)


def host_of(node: SimNode) -> Host:
    assert node.node is not None
    return node.node.host


def replica_of(node: SimNode) -> BasinReplica:
    return host_of(node).basins[BASIN]


def numbers(mover: Mover) -> dict[int, int]:
    """By node: the configuration that its replica of the basin is in."""
    return {
        int(node.node_id): number_of(node.node.host.basins[BASIN].group.engine)
        for node in mover.cluster.nodes
        if node.node is not None and BASIN in node.node.host.basins
    }


async def ordered(mover: Mover, *nodes: int) -> None:
    """Have the catalog order the change, and return once it stands in the row."""
    while row_of(mover).change is None:
        await mover.ask(*nodes)
        await asyncio.sleep(0.05)


def is_there(node: SimNode) -> bool:
    return node.node is not None and BASIN in node.node.host.basins


def leader_of(mover: Mover) -> SimNode:
    """Who serves the basin."""
    return next(
        node for node in mover.cluster.nodes if is_there(node) and replica_of(node).group.is_serving
    )


def seals(mover: Mover) -> int:
    return sum(host_of(node).changes.seals for node in mover.cluster.nodes if node.node)


@dataclass(slots=True)
class Held:
    """What one node did while its disk did not sync the frame of the next configuration."""

    next_one: Configuration | None = None
    replica: BasinReplica | None = None
    """The one that has ended."""
    said: list[PeerMessage] = field(default_factory=list)
    flushed: list[tuple[LogIndex, LogIndex]] = field(default_factory=list)
    """What was told to be flushed, and where the seal stands."""


def hold_at_end(node: SimNode) -> Held:
    """The disk syncs nothing for HELD_S from when the replica's configuration ends. The store is
    flushed meanwhile."""
    held, replica, cluster_node = Held(), replica_of(node), node.node
    assert cluster_node is not None
    told, loop = replica.group.seam.on_ended, asyncio.get_running_loop()

    def ended(next_one: Configuration) -> None:
        held.next_one, held.replica = next_one, replica
        node.disk.switches.extra_latency_s = HELD_S
        _listen(node, held)
        told(next_one)
        assert cluster_node is not None
        cluster_node.housekeeper.flush()
        loop.call_later(HELD_S - 1.0, _sync_again, node)

    replica.group.seam.on_ended = ended
    return held


def _sync_again(node: SimNode) -> None:
    node.disk.switches.extra_latency_s = 0.0


def _listen(node: SimNode, held: Held) -> None:
    assert node.node is not None
    peers, wal = node.node.services.peers, node.node.wal
    before, set_flushed = peers.on_sent, wal.set_flushed  # type: ignore[attr-defined]

    def sent(sender: NodeId, to: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        if group_id == BASIN:
            held.said.append(message)
        before(sender, to, group_id, message)

    def flushed(group: GroupId, applied_index: LogIndex) -> None:
        if group == BASIN and held.next_one is not None:
            held.flushed.append((applied_index, held.next_one.seal_index))
        set_flushed(group, applied_index)

    peers.on_sent = sent  # type: ignore[attr-defined]
    wal.set_flushed = flushed  # type: ignore[method-assign]


@contextmanager
def unanswered(nodes: Iterable[SimNode], number: int) -> Iterator[None]:
    """No leader of the basin's configuration `number` hears that anybody has its entries."""
    hosts = [host_of(node) for node in nodes]
    for host in hosts:
        _deafen(host, number)
    try:
        yield
    finally:
        for host in hosts:
            del host.peer_messages


def _deafen(host: Host, number: int) -> None:
    hears = host.peer_messages

    def heard(sender: NodeId, messages: Iterable[tuple[GroupId, PeerMessage]]) -> None:
        hears(sender, [one for one in messages if not is_answer(*one)])

    def is_answer(group_id: GroupId, body: PeerMessage) -> bool:
        is_of_it = group_id == BASIN and isinstance(body, AppendResponse)
        return is_of_it and configuration_of(body.sender_term) == number

    host.peer_messages = heard  # type: ignore[method-assign]


@dataclass(slots=True)
class Opened:
    """What a node made, and by which words."""

    made: list[GroupId] = field(default_factory=list)
    is_named: list[bool] = field(default_factory=list)
    """At each look that was made while the catalog was an older one: whether it named the node."""


def opened_on(node: SimNode, patch: pytest.MonkeyPatch) -> Opened:
    """Tell what becomes of the basin on this node from now on."""
    opened = Opened()
    make, run = Host._make_basin, Reconciler.run

    def made(host: Host, record: BasinRecord) -> None:
        if host.services.node_id == node.node_id:
            opened.made.append(record.group_id)
        make(host, record)

    def looked(reconciler: Reconciler) -> None:
        host = None if node.node is None else node.node.host
        if host is not None and host.reconciler is reconciler and not reconciler.is_current:
            record = host.rows.record(BASIN)
            opened.is_named.append(record is not None and node.node_id in record.replicas)
        run(reconciler)

    patch.setattr(Host, "_make_basin", made)
    patch.setattr(Reconciler, "run", looked)
    return opened


async def flushed(mover: Mover, node: SimNode) -> None:
    """Make what the node has applied durable in its store."""
    assert node.node is not None
    housekeeper = node.node.housekeeper
    before = housekeeper.flushes
    housekeeper.flush()
    await mover.until("it is flushed", lambda: housekeeper.flushes > before)


def restarted_alone(mover: Mover, node: SimNode) -> None:
    """The power fails; the log has everything and the store only what was flushed. The node starts
    again where nobody can tell it anything."""
    node.crash(random.Random(1), Luck(log=True, store=0.0))
    for other in mover.cluster.nodes:
        if other is not node:
            mover.cluster.nemesis.cut(node.node_id, other.node_id, both=True)
    node.start()
