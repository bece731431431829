"""Snapshots that take longer than the log is kept, many at a time, and from somebody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.base.log_ops import InstallSnapshot, LogOp
from svc_cluster.base.write_set import WriteSet
from svc_cluster.link.calls import Verb
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.host import Host
from svc_cluster.replica.prefixed import PREFIX_BYTES
from svc_cluster.replica.snapshot import INCOMING_IDLE_SECONDS, INCOMING_MAX, SnapshotReceiver
from svc_cluster.replica.transfers import TRANSFERS_MAX
from svc_cluster.storage.state_store import StoreStalledError
from tests.linearizability.history import Outcome
from tests.simulation.adapters import addresses_of, raft_pairs
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.network import NetworkProfile
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.snapshot_scenario import OPTIONS

BASIN = GroupId(CATALOG_GROUP + 1)
SLOW_S = 0.1
"""Of each way of a chunk: some thirty chunks take six seconds, twelve times the retention."""

STATE_BYTES = 1_000_000
PACED_S = 8.0
"""For so many seconds a state of about so many bytes is read where appends are taken."""

KEPT_S = 20.0
CLOSE_ENTRIES = 5
NARROW_BYTES = 512 * 1024
NARROW_S = 0.03


class Trial:
    """The first basin's leader sends; the last node that is not it is cut off, and comes back."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rng = random.Random(cluster.seed)
        self.stopping = False
        self.hits = 0

    def group(self, node: SimNode, group_id: GroupId = BASIN) -> AnyGroup:
        assert node.node is not None, "nobody crashes here"
        return node.node.host.basins[group_id].group

    async def started(self) -> None:
        cluster = self.cluster
        self.watch = cluster.start()
        await cluster.set_up()
        self.sender = next(n for n in cluster.nodes if self.group(n).is_serving)
        self.receiver = next(n for n in reversed(cluster.nodes) if n is not self.sender)
        (self.third,) = [n for n in cluster.nodes if n not in (self.sender, self.receiver)]

    def cut(self, a: SimNode, b: SimNode) -> None:
        self.cluster.nemesis.cut(a.node_id, b.node_id, both=True)
        for x, y in raft_pairs(a.node_id, b.node_id):
            self.cluster.network.reset(x, y)

    async def append(self, count: int, stream: int = 0) -> None:
        cluster = self.cluster
        history, client = cluster.recorder.streams[stream], cluster.recorder.new_client()
        done = 0
        while done < count:
            items = cluster.recorder.items(self.rng, client, 5, 20_000)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            if append.outcome is Outcome.OK:
                done += 1
            else:  # who was cut off may have led
                client = cluster.recorder.new_client()

    async def load(self) -> None:
        """Small appends, all the time: the log grows by some entries a second."""
        cluster = self.cluster
        history, client = cluster.recorder.streams[0], cluster.recorder.new_client()
        while not self.stopping:
            items = cluster.recorder.items(self.rng, client, 1, 50)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            if append.outcome is not Outcome.OK:
                client = cluster.recorder.new_client()
            await asyncio.sleep(0.05)

    async def until(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        deadline = self.cluster.loop.time() + seconds
        while not holds():
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: not within {seconds} s: {what}")
            await asyncio.sleep(0.02)

    def needs_snapshots(self) -> bool:
        """In every basin, from whoever may lead then."""
        assert self.receiver.node is not None
        return all(
            self.group(node, group_id).engine.base_index > basin.group.engine.last_index
            for node in (self.sender, self.third)
            for group_id, basin in self.receiver.node.host.basins.items()
        )

    async def fallen_behind(self) -> None:
        await self.started()
        for node in (self.sender, self.third):
            self.cut(self.receiver, node)
        for stream in range(len(self.cluster.recorder.streams)):
            await self.append(20, stream)
        await self.until("only a snapshot helps", self.needs_snapshots, 30.0)

    def slow(self, latency_s: float) -> None:
        """Everything between the receiver and the others takes so much longer each way."""
        for node in (self.sender, self.third):
            for a in addresses_of(node.node_id):
                for b in addresses_of(self.receiver.node_id):
                    self.cluster.network.limit(a, b, latency_s=latency_s)
                    self.cluster.network.limit(b, a, latency_s=latency_s)

    def is_close(self) -> bool:
        there, here = self.group(self.sender), self.group(self.receiver)
        return here.applied_index + CLOSE_ENTRIES >= there.applied_index

    def needed_one_snapshot(self) -> None:
        """The basin's state was sent once. Where the catalog was given another leader meanwhile,
        the receiver lacks that one's first entry, and may need one snapshot of the catalog too."""
        installs = self.receiver.installs
        assert installs[BASIN] == 1
        assert set(installs) <= {BASIN, CATALOG_GROUP}
        assert installs[CATALOG_GROUP] <= 1

    async def finish(self) -> None:
        """Everything is whole, and what was acknowledged is there."""
        cluster = self.cluster
        await self.until("whole", lambda: cluster.not_whole() is None, LIVENESS_S)
        cluster.compare_stores()
        for history in cluster.recorder.streams:
            cluster.judge(history, await cluster.read_all(history))
        cluster.look()

    # What is tried

    async def under_load(self) -> None:
        await self.fallen_behind()
        cluster = self.cluster
        writer = cluster.loop.create_task(self.load())
        self.slow(SLOW_S)
        began = cluster.loop.time()
        cluster.network.heal_all()
        await self.until("the receiver has caught up", self.is_close, LIVENESS_S)
        assert cluster.loop.time() - began > 5 * OPTIONS.log_retention_seconds, "it takes long"
        self.needed_one_snapshot()
        kept = self.group(self.sender).engine
        await self.until(
            "the log is trimmed again",
            lambda: kept.base_index > kept.last_index - 40,
            10 * OPTIONS.log_retention_seconds,
        )
        self.stopping = True
        await writer
        await self.finish()

    async def paced(self) -> None:
        """While a writer appends; the chunks themselves need a tenth of a second."""
        await self.fallen_behind()
        cluster = self.cluster
        writer = cluster.loop.create_task(self.load())
        await asyncio.sleep(1.0)
        began = cluster.loop.time()
        cluster.network.heal_all()
        await self.until("the receiver has caught up", self.is_close, LIVENESS_S)
        assert cluster.loop.time() - began > PACED_S / 2
        self.needed_one_snapshot()
        self.stopping = True
        await writer
        await self.finish()

    async def over_narrow_links(self) -> None:
        """Chunks of their usual size, entries and heartbeats share links that are slower than the
        disks; the one who takes the snapshot hears its leader all the time."""
        await self.fallen_behind()
        cluster = self.cluster
        terms = [self.group(node).engine.term for node in (self.sender, self.third)]
        for node in cluster.nodes:
            for other in cluster.nodes:
                for a, b in raft_pairs(node.node_id, other.node_id):
                    cluster.network.limit(a, b, bytes_per_s=NARROW_BYTES, latency_s=NARROW_S)
        began = cluster.loop.time()
        cluster.network.heal_all()
        writer = cluster.loop.create_task(self.load())
        await self.until("the receiver has caught up", self.is_close, LIVENESS_S)
        assert cluster.loop.time() - began > 1.0, "it takes long"
        self.needed_one_snapshot()
        await asyncio.sleep(1.0)
        now = [self.group(node).engine.term for node in (self.sender, self.third)]
        assert now == terms, "nobody was elected"
        self.stopping = True
        await writer
        await self.finish()

    async def beyond_the_bound(self) -> None:
        """A transfer of which the log may keep next to nothing is for nothing; not the leader."""
        await self.fallen_behind()
        cluster = self.cluster
        writer = cluster.loop.create_task(self.load())
        self.slow(SLOW_S)
        base_index = self.group(self.sender).engine.base_index
        cluster.network.heal_all()
        assert self.sender.node is not None
        sending = self.sender.node.host.sender
        await self.until("a transfer", lambda: sending.running > 0, 5.0)
        await self.until(
            "trimmed during the transfer",
            lambda: self.group(self.sender).engine.base_index > base_index + 10,
            5.0,
        )
        assert sending.running > 0
        self.stopping = True
        await writer
        self.slow(0.0)
        await self.finish()

    async def many(self) -> None:
        """All basins of a node at once, led by whoever leads them."""
        await self.fallen_behind()
        cluster = self.cluster
        self.slow(0.02)
        most_sent = most_taken = 0

        def look(_verb: Verb, _node: int, answered: bool) -> None:
            nonlocal most_sent, most_taken
            for node in cluster.nodes:
                assert node.node is not None
                most_sent = max(most_sent, node.node.host.sender.running)
                most_taken = max(most_taken, node.node.host.receiver.running)

        cluster.network.on_call = look
        cluster.network.heal_all()
        await self.finish()
        assert self.receiver.node is not None
        assert all(self.receiver.installs[group] for group in self.receiver.node.host.basins)
        assert 0 < most_sent <= TRANSFERS_MAX
        assert 0 < most_taken <= INCOMING_MAX

    async def from_a_stranger(self) -> None:
        """A node that does not lead sends its chunks into the leader's transfer."""
        await self.fallen_behind()
        cluster = self.cluster
        self.slow(0.02)
        answers: list[pb.SnapshotResult] = []
        assert self.receiver.node is not None
        receiver = self.receiver.node.host.receiver

        async def lie(term: int) -> None:
            stranger = self.third.node_id
            lies = pb.SnapshotChunk(
                group_id=BASIN,
                transfer_id=1,
                log_index=10**6,
                term=10**6,
                sender_term=term,
                keys=[b"lie"],
                values=[b"lie"],
            )
            reply = await receiver.chunk(NodeId(stranger), lies.SerializeToString())
            answers.append(pb.SnapshotResult.FromString(reply))

        chunks = 0
        liars: list[asyncio.Task[None]] = []

        def look(_verb: Verb, _node: int, answered: bool) -> None:
            nonlocal chunks
            chunks += not answered
            if answered and chunks % 5 == 0:
                terms = (0, self.group(self.receiver).engine.term)
                liars.extend(cluster.loop.create_task(lie(term)) for term in terms)

        cluster.network.on_call = look
        cluster.network.heal_all()
        await self.finish()
        self.needed_one_snapshot()  # the transfer was not disturbed
        assert len(answers) > 4
        assert not any(answer.accepted for answer in answers)

    async def from_the_deposed(self) -> None:
        """The sender is cut off from Raft in the middle of it, not from the receiver's snapshots;
        another leads then, and only what that one sends is installed. Only with datagrams do these
        go apart."""
        cluster = self.cluster
        cluster.network.profile = NetworkProfile()
        await self.fallen_behind()
        self.slow(SLOW_S)
        old, receiver = self.sender, self.receiver
        assert receiver.node is not None
        incoming = receiver.node.host.receiver._incoming
        cluster.network.heal_all()
        await self.until("a transfer", lambda: BASIN in incoming, 5.0)
        assert incoming[BASIN].sender == old.node_id
        for node in (receiver, self.third):
            for a, b in raft_pairs(old.node_id, node.node_id):
                cluster.network.cut(a, b, both=True)
                cluster.network.reset(a, b)
        self_term = self.group(receiver).engine.term
        await self.until(
            "the receiver hears another leader",
            lambda: self.group(receiver).engine.leader == self.third.node_id,
            10.0,
        )
        assert self.group(receiver).engine.term > self_term
        before = incoming[BASIN].next_sequence if BASIN in incoming else 0
        await asyncio.sleep(3 * SLOW_S)
        took = incoming.get(BASIN)
        assert took is None or took.sender != old.node_id or took.next_sequence == before
        await self.until("installed", lambda: receiver.installs[BASIN] > 0, LIVENESS_S)
        assert self.group(old).engine.term <= self_term, "it has not even heard that it is deposed"
        cluster.network.heal_all()
        await self.finish()

    async def abandoned(self) -> None:
        """Transfers that nobody goes on with do not keep others out for ever."""
        await self.started()
        assert self.receiver.node is not None
        receiver, cluster = self.receiver.node.host.receiver, self.cluster

        async def begin(group_id: GroupId) -> pb.SnapshotResult:
            group = self.group(self.receiver, group_id)
            leader = group.engine.leader
            assert leader is not None
            chunk = pb.SnapshotChunk(
                group_id=group_id,
                transfer_id=1,
                log_index=10**6,
                term=10**6,
                sender_term=group.engine.term,
            )
            return pb.SnapshotResult.FromString(
                await receiver.chunk(leader, chunk.SerializeToString())
            )

        groups = list(self.receiver.node.host.basins)
        assert len(groups) == INCOMING_MAX + 1
        for group_id in groups[:-1]:
            assert (await begin(group_id)).accepted
        refused = await begin(groups[-1])
        assert not refused.accepted
        assert "too many" in refused.reason
        await asyncio.sleep(INCOMING_IDLE_SECONDS + 1)
        assert (await begin(groups[-1])).accepted
        assert receiver.running == 1
        cluster.look()

    def when_the_frame_is_written(self, what: Callable[[Host], None]) -> None:
        """Do something once the frame of the basin's next install is in the receiver's log, which
        has not reached the disk."""
        assert self.receiver.node is not None
        host = self.receiver.node.host
        wal = host.services.wal
        append = wal.append

        def spied(group: GroupId, ops: Sequence[LogOp], done: Callable[[], None] | None) -> None:
            append(group, ops, done)
            if group == BASIN and any(isinstance(op, InstallSnapshot) for op in ops):
                self.hits += 1
                self.cluster.loop.call_soon(what, host)

        wal.append = spied  # type: ignore[method-assign]

    async def destroyed_meanwhile(self) -> None:
        """The catalog has dropped the group before the install is durable."""
        await self.fallen_behind()
        assert self.receiver.node is not None
        host = self.receiver.node.host

        def drop(host: Host) -> None:
            host.reconciler.stop()  # the rows here still have the group, and would make it anew
            host._destroy(BASIN)

        self.when_the_frame_is_written(drop)
        self.cluster.network.heal_all()
        await self.until("an install", lambda: self.hits > 0, LIVENESS_S)
        for _ in range(100):
            await asyncio.sleep(0.05)
            assert BASIN not in host.basins
        assert not self.receiver.installs[BASIN]
        assert self.receiver.stray_generations() == set()

    async def stopped_meanwhile(self) -> None:
        """The node ends before the install is durable: nothing is opened any more."""
        await self.fallen_behind()
        assert self.receiver.node is not None
        host, cluster = self.receiver.node.host, self.cluster
        before = host.basins[BASIN]
        tasks = []
        self.when_the_frame_is_written(
            lambda host: tasks.append(cluster.loop.create_task(host.stop()))
        )
        cluster.network.heal_all()
        await self.until("an install", lambda: self.hits > 0, LIVENESS_S)
        await asyncio.sleep(5.0)
        assert tasks[0].done()
        assert host.basins[BASIN] is before
        assert before.group.stopped
        assert not self.receiver.installs[BASIN]

    def rows_of(self, generation: int) -> int:
        store = self.receiver.store
        return sum(int.from_bytes(key[:PREFIX_BYTES], "big") == generation for key in store.pairs())

    async def begun(self) -> tuple[SnapshotReceiver, int]:
        """A transfer of the receiver's basin has brought a row, and its sender goes on no more."""
        assert self.receiver.node is not None
        receiver = self.receiver.node.host.receiver
        assert (await self.bring(0)).accepted
        (transfer,) = receiver._incoming.values()
        assert self.rows_of(transfer.generation) == 1
        return receiver, transfer.generation

    async def bring(self, sequence: int, more: int = 0) -> pb.SnapshotResult:
        """A chunk of one pair, and `more`."""
        assert self.receiver.node is not None
        engine = self.group(self.receiver).engine
        assert engine.leader is not None
        chunk = pb.SnapshotChunk(
            group_id=BASIN,
            transfer_id=1,
            sequence=sequence,
            log_index=10**6,
            term=10**6,
            sender_term=engine.term,
            keys=[b"key %d" % sequence, *(b"more %d" % number for number in range(more))],
            values=[b"value"] * (1 + more),
        )
        receiver = self.receiver.node.host.receiver
        return pb.SnapshotResult.FromString(
            await receiver.chunk(engine.leader, chunk.SerializeToString())
        )

    async def broken_off(self) -> None:
        """Nobody goes on with it, and nobody else wants the place."""
        await self.started()
        receiver, generation = await self.begun()
        await asyncio.sleep(KEPT_S / 2)
        assert (await self.bring(1)).accepted
        await asyncio.sleep(KEPT_S - 1)
        assert receiver.running == 1
        await asyncio.sleep(2.0)
        assert receiver.running == 0
        await asyncio.sleep(1.0)
        assert self.rows_of(generation) == 0

    async def of_a_destroyed_group(self) -> None:
        """Also what waits for the store at that moment is not written behind it."""
        await self.started()
        assert self.receiver.node is not None
        host, store = self.receiver.node.host, self.receiver.node.services.store
        receiver, generation = await self.begun()
        write = store.write
        stalls = 0

        def stalled(write_set: WriteSet) -> None:
            nonlocal stalls
            if not any(key.endswith(b"key 1") for key, *_ in write_set.ops):
                write(write_set)
                return
            stalls += 1
            raise StoreStalledError("planted")

        store.write = stalled  # type: ignore[method-assign]
        waiting = self.cluster.loop.create_task(self.bring(1))
        await self.until("the chunk waits", lambda: stalls > 0, 5.0)
        host._destroy(BASIN)
        assert receiver.running == 0
        assert self.rows_of(generation) == 0
        store.write = write  # type: ignore[method-assign]
        assert not (await waiting).accepted
        await asyncio.sleep(1.0)
        assert self.rows_of(generation) == 0
        assert self.receiver.stray_generations() == set()

    async def between_portions(self) -> None:
        """Of a chunk of several, the first one is written when the group goes."""
        await self.started()
        assert self.receiver.node is not None
        host, store = self.receiver.node.host, self.receiver.node.services.store
        receiver, generation = await self.begun()
        write = store.write
        prefix = generation.to_bytes(PREFIX_BYTES, "big")
        portions: list[int] = []

        def spied(write_set: WriteSet) -> None:
            write(write_set)
            pairs = [key for key, *_ in write_set.ops if key.startswith(prefix) and key != prefix]
            if pairs:
                portions.append(len(pairs))
                if len(portions) == 3:
                    self.cluster.loop.call_soon(host._destroy, BASIN)

        store.write = spied  # type: ignore[method-assign]
        assert (await self.bring(1, 7)).accepted
        assert portions == [8]
        assert self.rows_of(generation) == 9
        assert not (await self.bring(2, 29)).accepted
        assert portions == [8, 8, 8]
        await asyncio.sleep(1.0)
        assert portions == [8, 8, 8]
        assert receiver.running == 0
        assert self.rows_of(generation) == 0
        assert self.receiver.stray_generations() == set()


def play(name: str, options: Options = OPTIONS, seed: int = 1) -> None:
    async def main(cluster: SimCluster) -> Any:
        trial: Coroutine[Any, Any, None] = getattr(Trial(cluster), name)()
        await trial

    in_simulation(seed, options, main)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_a_transfer_that_takes_longer_than_the_log_is_kept_converges_under_load(seed: int) -> None:
    """One snapshot is enough: the log that came behind it is there when it has arrived."""
    play("under_load", seed=seed)


def test_a_transfer_gives_way_while_its_sender_takes_appends() -> None:
    """It reads so many bytes a second and no more, and completes by one snapshot."""
    constant = ("transfers.BUSY_BYTES_PER_SECOND", STATE_BYTES / PACED_S)
    play("paced", replace(OPTIONS, constants=(*OPTIONS.constants, constant)))


@pytest.mark.parametrize("bound", [("transfers.HOLD_BYTES", 1), ("transfers.HOLD_SECONDS", 0.5)])
def test_a_transfer_does_not_keep_the_log_beyond_its_bounds(bound: tuple[str, float]) -> None:
    """The leader's memory is not the peer's to fill."""
    play("beyond_the_bound", replace(OPTIONS, constants=(*OPTIONS.constants, bound)))


def test_few_transfers_are_under_way_at_one_time_and_all_end() -> None:
    """Seven basins of one node that was away."""
    play("many", replace(OPTIONS, basins=7))


def test_chunks_of_a_node_that_does_not_lead_are_ignored() -> None:
    """Whether or not they claim the term: the leader's transfer goes on undisturbed."""
    play("from_a_stranger")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_chunks_of_a_deposed_leader_are_ignored(seed: int) -> None:
    """From the moment in which the receiver knows another one."""
    play("from_the_deposed", replace(OPTIONS, datagrams=True), seed)


def test_transfers_that_were_abandoned_make_room() -> None:
    """After a minute of silence, when the room is needed."""
    play("abandoned", replace(OPTIONS, basins=INCOMING_MAX + 1))


def test_an_install_of_a_group_that_is_destroyed_meanwhile_makes_no_replica() -> None:
    """Neither a replica nor its rows come back behind the destruction."""
    play("destroyed_meanwhile")


def test_an_install_makes_no_replica_in_a_host_that_has_stopped() -> None:
    """The next start finds the frame in the log, if it got there."""
    play("stopped_meanwhile")


def test_a_transfer_that_was_broken_off_gives_its_rows_back() -> None:
    """After KEPT_SECONDS of silence; each chunk begins them again."""
    constant = ("snapshot.KEPT_SECONDS", KEPT_S)
    play("broken_off", replace(OPTIONS, constants=(*OPTIONS.constants, constant)))


def test_a_transfer_of_a_destroyed_group_gives_its_rows_back() -> None:
    """At once."""
    play("of_a_destroyed_group")


def test_a_chunk_is_written_in_portions_and_none_behind_the_deletion_of_its_group() -> None:
    """Each has TURN_PAIRS_MAX pairs at most, and others have a turn between them."""
    constants = (*OPTIONS.constants, ("snapshot.TURN_PAIRS_MAX", 8))
    play("between_portions", replace(OPTIONS, constants=constants))
