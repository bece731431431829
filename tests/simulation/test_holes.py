"""Stored records vanish from one replica behind its back: nobody ever reads around them."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.codec.rpc import NotLeaderHereError
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.replica.answer_room import ROOM_BYTES_MAX, AnswerRoom, RoomReservation
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.replica.read import ReadAnswer, ReadRequest
from svc_cluster.stream import keys
from tests.linearizability.history import Outcome, SeenRecord
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.workload import Item, NoEffectError

APPENDS = 12
BASIN = GroupId(CATALOG_GROUP + 1)
OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)


def _group(node: SimNode) -> AnyGroup:
    assert node.node is not None, "nobody crashes here"
    return node.node.host.basins[BASIN].group


def _leader(cluster: SimCluster) -> SimNode:
    return next(node for node in cluster.nodes if _group(node).is_serving)


def _lose_batches(node: SimNode, rng: random.Random, count: int) -> None:
    """Rows of the basin's only stream are gone from the store of a living node."""
    assert node.node is not None
    prefix = generation_prefix(_group(node).generation)
    (stream,) = node.node.host.basins[BASIN].state.list_streams("", "", 9)[0]
    low, high = keys.batches_range(stream.stream_id)
    found = [key for key, _ in node.store.scan(prefix + low, prefix + high)]
    assert len(found) == APPENDS
    gone = WriteSet()
    for key in rng.sample(found, count):
        gone.delete(key)
    node.store.write(gone)


class Trial:
    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rng = random.Random(f"{cluster.seed}/holes")

    async def filled(self) -> None:
        cluster = self.cluster
        cluster.start().cancel()  # error lines are expected here
        await cluster.set_up()
        history, client = cluster.recorder.streams[0], cluster.recorder.new_client()
        for _ in range(APPENDS):
            items = cluster.recorder.items(self.rng, client, 3, 500)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            assert append.outcome is Outcome.OK

    async def repaired(self, victim: SimNode) -> None:
        """The victim said why, and holds what the others hold."""
        cluster = self.cluster
        deadline = cluster.loop.time() + LIVENESS_S
        while (why := cluster.not_whole()) is not None or not victim.repaired:
            if cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: after the loss: {why}")
            await asyncio.sleep(0.1)
        cluster.compare_stores()
        (line,) = cluster.errors
        assert line.startswith("state_diverged")
        assert "are missing" in line
        assert f"'node': {victim.node_id}" in line
        assert victim.node is not None
        assert victim.node.host.divergences == 1

    async def read(self) -> None:
        """By one who reads everything: what the recorder saw is judged record by record."""
        await self.filled()
        cluster = self.cluster
        victim = _leader(cluster)
        _lose_batches(victim, self.rng, self.rng.choice((1, 3, APPENDS)))
        history = cluster.recorder.streams[0]
        cluster.judge(history, await cluster.read_all(history))
        await self.repaired(victim)

    async def followed(self) -> None:
        """By one who follows from the first record on, over the moment of the loss."""
        await self.filled()
        cluster = self.cluster
        victim = _leader(cluster)
        _lose_batches(victim, self.rng, 2)
        history = cluster.recorder.streams[0]
        seen: list[SeenRecord] = []
        end = cluster.loop.time() + LIVENESS_S
        while len(seen) < 3 * APPENDS and cluster.loop.time() < end:
            with suppress(NoEffectError):
                await cluster.apis[0].follow(
                    history.basin, history.stream, len(seen), 2.0, seen.extend
                )
        final = await cluster.read_all(history)
        assert seen == final
        cluster.judge(history, final)
        await self.repaired(victim)

    async def waited_for_room(self, *, until_replaced: bool) -> None:
        """By one who was let in at a leader that was given over to repair meanwhile: before its
        state was replaced, or behind that."""
        await self.filled()
        cluster = self.cluster
        victim = _leader(cluster)
        assert victim.node is not None, "nobody crashes here"
        reader = victim.node.host.basins[BASIN].reader
        history = cluster.recorder.streams[0]
        room = AnswerRoom(cluster.loop)
        room.put(ROOM_BYTES_MAX)
        request = ReadRequest(
            history.stream,
            ReadStart(StartKind.SEQ_NUM, 0),
            ReadBounds(),
            refuse_at_tail=False,
            wait_ms=0,
        )

        async def wait() -> ReadAnswer:
            with RoomReservation(room, BASIN, 1) as place:
                return await reader.read(request, place)

        waiting = asyncio.ensure_future(wait())
        while not room._waiting_count:
            await asyncio.sleep(0.001)
        _lose_batches(victim, self.rng, 1)
        with pytest.raises(UnavailableError):
            await reader.read(request)
        if until_replaced:
            await self.repaired(victim)
        room.give_back(ROOM_BYTES_MAX)
        # not a word about the stream: nothing that is here is known to be true
        with pytest.raises(NotLeaderHereError):
            await waiting
        await self.repaired(victim)


@pytest.mark.parametrize("until_replaced", [False, True], ids=["distrusted", "replaced"])
@pytest.mark.parametrize("seed", [1, 2])
def test_who_waited_for_room_reads_nothing_of_a_state_that_is_given_up(
    seed: int, until_replaced: bool
) -> None:
    """It is refused without effect, and does not have the repaired replica repaired again."""

    async def main(cluster: SimCluster) -> None:
        await Trial(cluster).waited_for_room(until_replaced=until_replaced)

    in_simulation(seed, OPTIONS, main)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_read_meets_no_gap_and_the_replica_is_repaired(seed: int) -> None:
    """The first read that would step over missing records is refused without effect, the replica
    recovers from the others, and the whole history is read from whoever leads then."""
    in_simulation(seed, OPTIONS, lambda cluster: Trial(cluster).read())


@pytest.mark.parametrize("http", [False, True], ids=["backend", "http"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_follower_meets_no_gap(seed: int, http: bool) -> None:
    """Sessions and events as well as the backend: every record once, in order."""
    options = Options(gateways=1, http=http, basins=1, streams=1, tick_seconds=0.05)
    in_simulation(seed, options, lambda cluster: Trial(cluster).followed())


def test_an_only_replica_refuses_what_is_damaged_and_serves_the_rest() -> None:
    """There is nobody to repair it from: the reads that meet the gap are refused, again and again,
    with one line in the log; the records behind the gap are there, and writes go on."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster)
        await trial.filled()
        (victim,) = cluster.nodes
        _lose_batches(victim, random.Random(1), 1)
        history, api = cluster.recorder.streams[0], cluster.apis[0]
        names = history.basin, history.stream
        for _ in range(2):
            with pytest.raises(NoEffectError):
                await api.read(*names, 0, 1_000)
        assert (await api.append(*names, [Item("behind")])).start == 3 * APPENDS
        page = await api.read(*names, 3 * APPENDS, 1_000)
        assert [record.body for record in page.records] == ["behind"]
        assert [line.split()[0] for line in cluster.errors] == ["state_diverged"]
        assert _group(victim).is_serving

    in_simulation(1, Options(nodes=1, gateways=1, http=False, basins=1, streams=1), main)
