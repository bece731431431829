"""Bits of a node's log change while it is down: it is found, and repaired by the others."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.identity import open_identity
from svc_cluster.replica.prefixed import PREFIX_BYTES
from svc_cluster.storage.wal.reader import SegmentReader
from svc_cluster.storage.wal.segment import (
    ACTIVE,
    DATA_START,
    Segment,
    read_slots,
    segment_number,
)
from svc_cluster.storage.wal.wal_frame import FrameCoder
from svc_cluster.stream import keys, rows
from tests.linearizability.history import Outcome
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, Report, SimCluster, in_simulation
from tests.simulation.disk import SimDisk, SimFile
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.store import StallingStore

SEEDS = int(os.environ.get("CORRUPTION_SEEDS", "12"))
APPENDS = 15
DOWN_S = 0.5
QUIET_S = 3.0
"""Longer than a node waits until it marks the end of a quiet log."""

FIRE = (
    *("crash_any", "crash_any", "crash_leader", "crash_most", "crash_all"),
    *("partition", "isolate_leader", "one_way", "slow_disk", "reset"),
)
LEADER_NEEDS_THE_LAGGARD = 8
"""A seed in which a leader, beside a recovering replica, could commit nothing before it had sent a
snapshot to one that was only behind."""

DETECTION_S = 60.0
BASIN = GroupId(CATALOG_GROUP + 1)

OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)


@dataclass(slots=True)
class Found:
    """What became of the trials."""

    recovering: int = 0
    repaired: int = 0


class Trial:
    """Damage to the logs of some nodes that are down, and what the cluster makes of it."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rng = random.Random(f"{cluster.seed}/damage")
        self.found = Found()

    async def one_node(self) -> Found:
        cluster = self.cluster
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(self._append(APPENDS), watch)
        victim = self.rng.choice(cluster.nodes)
        await cluster.guarded(self._damage([victim]), watch)
        await cluster.guarded(self._become_whole(), watch)
        await cluster.guarded(self._append(3), watch)
        history = cluster.recorder.streams[0]
        final = await cluster.guarded(cluster.read_all(history), watch)
        watch.cancel()
        cluster.judge(history, final)
        self.found.repaired += sum(n.node.host.installs.repaired for n in cluster.nodes if n.node)
        return self.found

    async def every_node(self) -> Found:
        cluster = self.cluster
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(self._append(APPENDS), watch)
        await cluster.guarded(self._damage(cluster.nodes), watch)
        await cluster.guarded(asyncio.sleep(LIVENESS_S / 2), watch)
        cluster.look()
        for node in cluster.nodes:
            assert node.node is not None
            for replica in node.node.host.replicas():
                if replica.group.engine.recovery:
                    self.found.recovering += 1
                    assert not replica.group.is_serving
        if cluster.not_whole() is None:
            history = cluster.recorder.streams[0]
            cluster.judge(history, await cluster.guarded(cluster.read_all(history), watch))
        watch.cancel()
        return self.found

    async def _append(self, count: int) -> None:
        cluster = self.cluster
        history, client = cluster.recorder.streams[0], cluster.recorder.new_client()
        done = 0
        while done < count:
            items = cluster.recorder.items(self.rng, client, 3, 2_000)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            done += append.outcome is Outcome.OK
            await asyncio.sleep(0.1)
        await asyncio.sleep(QUIET_S)

    async def _damage(self, victims: list[SimNode]) -> None:
        for victim in victims:
            self.cluster.nemesis.crash(victim, self.rng, DOWN_S)
        for victim in victims:
            _flip_somewhere(victim, self.rng)
        await asyncio.sleep(DOWN_S + 0.1)
        for victim in victims:
            assert victim.node is not None, "a node starts whatever has happened to its log"
            self.found.recovering += sum(
                bool(r.group.engine.recovery) for r in victim.node.host.replicas()
            )

    async def _become_whole(self) -> None:
        deadline = self.cluster.loop.time() + LIVENESS_S
        while (why := self.cluster.not_whole()) is not None:
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: after the damage: {why}")
            await asyncio.sleep(0.1)
        self.cluster.compare_stores()

    # A log, a store, or what is in it, is gone

    async def lost_log(self) -> Found:
        """All segments of a node's log are gone; its identity and its store are there."""

        def remove(victim: SimNode) -> None:
            for name in [n for n in victim.disk.files if segment_number(n) is not None]:
                victim.disk.unlink(name)

        return await self._lose(remove)

    async def lost_newest(self) -> Found:
        """The newest segment with frames in it is gone, with the last votes and entries."""

        def remove(victim: SimNode) -> None:
            used = _places(victim)
            victim.disk.unlink(used[max(used)])

        return await self._lose(remove)

    async def cut_newest(self) -> Found:
        """The newest segment with frames in it lost its second half."""

        def cut(victim: SimNode) -> None:
            used = _places(victim)
            data = victim.disk.files[used[max(used)]].durable
            del data[DATA_START + (len(data) - DATA_START) // 2 :]

        return await self._lose(cut)

    async def lost_store(self) -> Found:
        """A node begins with an empty store, as when a damaged one was set aside."""
        return await self._lose(lambda victim: self._change_store(victim, {}))

    async def older_log(self) -> Found:
        """A node's log is as it was some time ago, whole in itself, and its store has gone on."""
        images: dict[SimNode, dict[str, bytes]] = {}

        async def before() -> None:
            for node in self.cluster.nodes:
                images[node] = {name: bytes(file.durable) for name, file in node.disk.files.items()}
            await self._append(APPENDS)

        def go_back(victim: SimNode) -> None:
            victim.disk.files = {
                name: SimFile(name, bytearray(data)) for name, data in images[victim].items()
            }

        return await self._lose(go_back, before)

    async def _lose(
        self,
        lose: Callable[[SimNode], None],
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> Found:
        cluster = self.cluster
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(self._append(APPENDS), watch)
        if before is not None:
            await cluster.guarded(before(), watch)
        victim = self.rng.choice(cluster.nodes)
        cluster.nemesis.crash(victim, self.rng, DOWN_S)
        lose(victim)
        await cluster.guarded(asyncio.sleep(DOWN_S + 0.1), watch)
        await cluster.guarded(self._become_whole(), watch)
        await cluster.guarded(self._trusts_itself(victim), watch)
        watch.cancel()
        history = cluster.recorder.streams[0]
        cluster.judge(history, await cluster.read_all(history))
        assert victim.node is not None
        self.found.repaired = victim.node.host.installs.repaired
        return self.found

    async def _trusts_itself(self, node: SimNode) -> None:
        async with asyncio.timeout(LIVENESS_S):
            while node.node is None or any(
                replica.group.engine.recovery for replica in node.node.host.replicas()
            ):
                await asyncio.sleep(0.1)

    def _change_store(self, victim: SimNode, pairs: dict[bytes, bytes]) -> None:
        victim.store = StallingStore(self.cluster.loop, self.rng, pairs)

    # A state that is not what it should be

    async def diverged(self, *, leads: bool) -> None:
        """The digest in one replica's store is another one, as if it had applied something else."""
        cluster = self.cluster
        cluster.start().cancel()  # error lines are expected here
        await cluster.set_up()
        await self._append(APPENDS)
        victim = self.rng.choice(cluster.nodes)
        cluster.nemesis.crash(victim, self.rng, DOWN_S, look=False)
        self._change_store(victim, _with_other_digest(victim))
        await asyncio.sleep(DOWN_S + 0.1)
        await self._append(1)
        if leads:
            while not self._group(victim).is_serving:
                for node in cluster.nodes:
                    if node is not victim and self._group(node).is_serving:
                        self._group(node).transfer_leadership(victim.node_id)
                await asyncio.sleep(0.5)
        assert not cluster.errors, cluster.errors
        deadline = cluster.loop.time() + DETECTION_S
        while not cluster.errors and cluster.loop.time() < deadline:
            await asyncio.sleep(0.1)
        (line,) = cluster.errors
        assert line.startswith("state_diverged")
        assert f"'node': {victim.node_id}" in line
        cluster.errors.clear()
        assert not self._group(victim).is_serving
        await self._become_whole()
        history = cluster.recorder.streams[0]
        cluster.judge(history, await cluster.read_all(history))
        assert not cluster.errors

    @staticmethod
    def _group(node: SimNode) -> AnyGroup:
        assert node.node is not None
        return node.node.host.basins[BASIN].group


def _with_other_digest(victim: SimNode) -> dict[bytes, bytes]:
    pairs = victim.store.pairs()
    found, size = 0, len(rows.encode_applied(rows.AppliedRow()))
    for key, value in pairs.items():
        # the catalog has a row of another form under the same key
        if key[PREFIX_BYTES:] == keys.APPLIED_KEY and len(value) == size:
            row = rows.decode_applied(value)
            pairs[key] = rows.encode_applied(msgspec.structs.replace(row, digest=row.digest ^ 1))
            found += 1
    assert found == 1
    return pairs


def _places(node: SimNode) -> dict[int, str]:
    """The names of the log's segments that hold frames, by their place."""
    used = {}
    for name in node.disk.list_names():
        if segment_number(name) is not None:
            for slot in read_slots(node.disk.open(name), _tag(node)):
                if slot is not None and slot.state == ACTIVE and _has_frames(node, name):
                    used[slot.segment_seq] = name
    return used


def _tag(node: SimNode) -> int:
    return open_identity(node.disk, "simulated", node.node_id, random.Random(0)).tag


def _has_frames(node: SimNode, name: str) -> bool:
    return bool(bytes(node.disk.files[name].durable[DATA_START:]).strip(b"\0"))


def _flip_somewhere(node: SimNode, rng: random.Random) -> None:
    """One bit among the written bytes of the log's segments."""
    written = [
        (name, len(bytes(file.durable).rstrip(b"\0")))
        for name, file in sorted(node.disk.files.items())
        if segment_number(name) is not None
    ]
    name, end = rng.choice([(name, end) for name, end in written if end > DATA_START])
    node.disk.flip(name, rng.randrange(DATA_START, end), rng.randrange(8))


def _flip_what_is_testified(disk: SimDisk, tag: int, rng: random.Random) -> bool:
    """One bit of what a whole later frame says was synced: that can be told from a torn write."""
    segments = []
    for name in disk.list_names():
        if segment_number(name) is None:
            continue
        file = disk.open(name)
        headers = [slot for slot in read_slots(file, tag) if slot is not None]
        header = max(headers, key=lambda header: header.generation, default=None)
        if header is not None and header.state == ACTIVE:
            segments.append((name, Segment(file, header, file.size())))
    coder = FrameCoder(tag)
    sure = max(
        (SegmentReader(coder, segment).testimony(DATA_START) for _, segment in segments),
        default=(0, 0),
    )
    places = [
        (name, len(bytes(disk.files[name].durable).rstrip(b"\0")))
        if segment.seq < sure[0]
        else (name, sure[1])
        for name, segment in segments
        if segment.seq <= sure[0]
    ]
    places = [(name, end) for name, end in places if end > DATA_START]
    if not places:
        return False
    name, end = rng.choice(places)
    disk.flip(name, rng.randrange(DATA_START, end), rng.randrange(8))
    return True


async def _rot_under_fire(cluster: SimCluster) -> Report:
    """One node's log decays whenever it crashes, while everything else goes wrong as well."""
    rng = random.Random(f"{cluster.seed}/rot")
    victim = rng.choice(cluster.nodes)
    crash = victim.crash

    def crash_and_rot(*arguments: Any, **named: Any) -> None:
        node = victim.node
        crash(*arguments, **named)
        if node is not None:
            _flip_what_is_testified(victim.disk, node.identity.tag, rng)

    victim.crash = crash_and_rot  # type: ignore[method-assign]
    report = await cluster.run()
    report.repaired = victim.repaired
    return report


def test_a_node_that_rots_again_and_again_does_no_harm_under_other_faults() -> None:
    """Crashes of others, partitions and slow disks fall into its recoveries: every history is
    linearizable, nothing acknowledged is lost, and when the faults end everything is whole."""
    repaired, seeds = 0, {LEADER_NEEDS_THE_LAGGARD, *range(1, 1 + SEEDS // 4)}
    for seed in sorted(seeds):
        options = Options(
            safety_s=25.0,
            fault_pause_s=1.5,
            faults=FIRE,
            log_retention_seconds=60.0 if seed % 2 else 0.5,
            flush_seconds=0.5,
        )
        repaired += in_simulation(seed, options, _rot_under_fire).repaired
    assert repaired >= len(seeds) // 2, "recoveries happened"


def test_a_flipped_bit_on_one_node_is_repaired_by_the_others() -> None:
    """Wherever the bit was: within 20 seconds all replicas are equal, and nothing is lost."""
    total = Found()
    for seed in range(1, 1 + SEEDS):
        short = OPTIONS if seed % 2 else replace(OPTIONS, flush_seconds=0.5)
        found = in_simulation(seed, short, lambda cluster: Trial(cluster).one_node())
        total.recovering += found.recovering
        total.repaired += found.repaired
    assert total.recovering >= SEEDS // 3, "the damage is found"
    assert total.repaired >= total.recovering


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS // 3))
def test_different_damage_on_every_node_gives_no_wrong_answer(seed: int) -> None:
    """Groups that no majority of whole replicas is left of refuse; the others serve what was."""
    in_simulation(seed, OPTIONS, lambda cluster: Trial(cluster).every_node())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_node_that_lost_its_log_does_not_vote_before_it_is_repaired(seed: int) -> None:
    """A state without the log that led to it: whatever was promised in it is forgotten."""
    found = in_simulation(seed, OPTIONS, lambda cluster: Trial(cluster).lost_log())
    assert found.repaired == 2


def _harmed(harm: Callable[[Trial], Coroutine[Any, Any, Any]], cluster: SimCluster) -> Any:
    return harm(Trial(cluster))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_node_that_lost_the_end_of_its_log_does_not_vote_before_it_is_repaired(seed: int) -> None:
    """The newest segment vanished or was cut while the node was down: it is found, and all that
    may have stood there is repaired by the others."""
    for harm in (Trial.lost_newest, Trial.cut_newest):
        found = in_simulation(seed, OPTIONS, partial(_harmed, harm))
        assert found.repaired == 2


def test_a_node_that_lost_its_store_gets_the_state_back() -> None:
    """From its own log while that reaches back to the beginning, otherwise from a snapshot."""
    repaired = set()
    for seed, retention_s in enumerate((60.0, 60.0, 0.5, 0.5), start=1):
        options = replace(OPTIONS, log_retention_seconds=retention_s, flush_seconds=0.5)
        found = in_simulation(seed, options, lambda cluster: Trial(cluster).lost_store())
        repaired.add(bool(found.repaired))
    assert repaired == {True, False}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_log_that_ends_before_its_state_is_repaired(seed: int) -> None:
    """Whatever was promised behind the end of such a log is forgotten: the replica takes no part
    until the others have given it their state."""
    options = replace(OPTIONS, flush_seconds=0.5)
    found = in_simulation(seed, options, lambda cluster: Trial(cluster).older_log())
    assert found.repaired >= 1


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_state_that_diverged_is_found_within_a_minute_and_repaired(leads: bool) -> None:
    """The two others agree on what is right, also against their leader, which then steps down."""
    in_simulation(1, OPTIONS, lambda cluster: Trial(cluster).diverged(leads=leads))
