"""Rows of the fault matrix in which something is gone for good: a directory, the end of a log, rows
of a store; and those in which processes end in order, or stand still beside bulk."""

from __future__ import annotations

import asyncio
import base64
import random
import shutil
import time
from pathlib import Path
from typing import Final

from svc_cluster.base.write_set import WriteSet
from svc_cluster.replica.prefixed import PREFIX_BYTES
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.wal.reach import BATCHES_MAX
from svc_cluster.stream import keys
from tests.chaos.members import Member
from tests.chaos.scene import RECOVERY_S, Scene
from tests.corruption import damage
from tests.log_lines import whole_lines
from tests.own_processes import resident_bytes
from tests.simulation.workload import NoEffectError, UnknownOutcomeError

MIB: Final = 1024 * 1024
NODE_RSS_MAX: Final = 700 * MIB
GATEWAY_RSS_MAX: Final = 500 * MIB
"""What processes stay below whatever clients do (docs/sizing.md)."""

BULK_WRITERS: Final = 6
BULK_BYTES: Final = 768 * 1024
_BATCH: Final = keys.batch_key(keys.WHOLE_BASIN, 0)[:1]
_OF_DAMAGE: Final = ("replica_recovering", "replica_repaired")
"""What a node says of a replica whose log is damaged, and once that is whole again."""

_GONE_ROWS: Final = 3
_FLUSHED_S: Final = 2.5
"""Longer than `flush_seconds` of the cluster and the flush itself."""


async def restart_in_turn(scene: Scene) -> None:
    """D16: every node and gateway is stopped in order and started again, one at a time; each ends
    with status 0."""
    members = list(scene.cluster.members())
    scene.rng.shuffle(members)
    for member in members:
        assert member.process is not None, "it runs"
        status = await asyncio.to_thread(member.process.stop)
        member.is_up  # noqa: B018 -- takes note of the exit
        if status != 0:
            scene.violations.append(f"{member.name} was stopped and ended with {status}")
        await scene.restart(member)


async def lose_directory(scene: Scene) -> None:
    """D17: the disk of a node is gone, and an empty one is in its place: the node comes back as
    another directory of its place, without any command. What it had promised counts for nothing."""
    number = await (scene.leader() if scene.rng.random() < 0.5 else scene.follower())
    node = scene.cluster.nodes[number]
    moment = time.monotonic()
    await _end(scene, number)
    shutil.rmtree(scene.cluster.ledgers[number].root / "data")
    await scene.successes(moment)
    scene.failover_ms.clear()  # nobody may have led who is gone
    began = time.monotonic()
    await scene.restart(node)
    scene.facts |= {"node": number, "replaced_ms": round((time.monotonic() - began) * 1000)}


async def lose_log(scene: Scene) -> None:
    """D28: the newest file of a node's log is gone, or shorter, or another's, or its end is empty:
    that is damage and no clean end. The node says so, counts for nothing until it is repaired from
    the others, and is whole then."""
    number = await (scene.leader() if scene.rng.random() < 0.5 else scene.follower())
    node = scene.cluster.nodes[number]
    kind = scene.rng.choice(("segment gone", "segment cut", "segments swapped", "emptied end"))
    await _end(scene, number)
    directory = scene.cluster.ledgers[number].root / "data"
    newest = damage.newest_log_file(directory)
    before = newest.read_bytes()
    scene.facts |= {"node": number, "damage": damage.WAL[kind](directory, scene.rng)}
    like_a_crash = False
    if kind == "emptied end":
        scene.facts["batches"] = damage.batches_emptied(before, newest.read_bytes())
        like_a_crash = scene.facts["batches"] <= BATCHES_MAX + 1
    noticed, repaired = (times_said(node, event) for event in _OF_DAMAGE)
    await scene.restart(node)
    await whole(scene)
    if times_said(node, _OF_DAMAGE[0]) == noticed:
        if like_a_crash:
            scene.facts["looked_like"] = "a crash"
            return
        scene.violations.append(f"{kind} on {node.name}, and it came up as if nothing were lost")
    elif times_said(node, _OF_DAMAGE[1]) == repaired:
        scene.violations.append(f"{kind} on {node.name}, and no replica of it was repaired")


async def lose_rows(scene: Scene) -> None:
    """D29: records of one replica vanish from its store while all that tells of writes is in order:
    the scrub finds them missing, and the replica is made anew from the others. Where the log that
    it missed is gone already by the time that it is back, a snapshot has made it anew before."""
    number = await scene.follower()
    node = scene.cluster.nodes[number]
    await whole(scene)
    await asyncio.sleep(_FLUSHED_S)  # or the log would make it whole at its next start
    await _end(scene, number)
    directory = scene.cluster.ledgers[number].root / "data" / "state"
    gone = _delete_rows(directory, scene.rng)
    told = times_said(node, "replica_repaired")
    installed = _snapshots(node, scene.basin)
    await scene.restart(node)
    scene.facts |= {"node": number, "rows_gone": gone}
    if not gone:
        return  # the stream is too young
    began = time.monotonic()
    while times_said(node, "replica_repaired") == told:
        if _snapshots(node, scene.basin) > installed:
            scene.facts["found_by"] = "snapshot"
            return
        if time.monotonic() > began + 2 * RECOVERY_S:
            scene.violations.append(f"{gone} rows of {node.name} are gone, and nobody noticed")
            return
        await asyncio.sleep(0.1)
    scene.facts["found_ms"] = round((time.monotonic() - began) * 1000)


async def pause_and_crash(scene: Scene) -> None:
    """D33: the leader stands still, and then the machine of who leads in its place crashes: what
    that had not synced is gone. Either comes back first, and with the third goes on."""
    frozen = scene.cluster.nodes[await scene.leader()]
    moment = time.monotonic()
    frozen.pause()
    await scene.successes(moment)
    number = await scene.leader()
    crashed = scene.cluster.nodes[number]
    await scene.for_a_while(0.1, 1.0)
    crashed.kill()
    report = scene.cluster.cut_power([number], scene.rng)
    first = scene.rng.choice(("crashed", "frozen"))
    moment = time.monotonic()
    if first == "frozen":
        frozen.resume()
    else:
        crashed.start()
    back = await scene.successes(moment)
    scene.failover_ms.pop()  # not a failover: there was nobody to take over
    frozen.resume()
    await scene.restart(crashed)
    scene.facts |= {
        "back_first": first,
        "back_to_append_ms": round((back - moment) * 1000),
        "writes_undone": report.undone_writes,
        "sectors_torn_in": report.kept_sectors,
    }
    await whole(scene)


async def freeze_beside_bulk(scene: Scene) -> None:
    """D27: a follower stands still while the others are given bodies by the mebibyte: processes
    stay within their budgets, and all is whole soon after it goes on."""
    number = await scene.follower()
    node = scene.cluster.nodes[number]
    stop = asyncio.Event()
    bulk = [asyncio.ensure_future(write_bulk(scene, n, stop)) for n in range(BULK_WRITERS)]
    try:
        node.pause()
        await scene.for_a_while(4, 8)
        _look_at_memory(scene)
        node.resume()
        moment = time.monotonic()
        await scene.for_a_while(0.5, 1.0)
        _look_at_memory(scene)
    finally:
        stop.set()
        written = sum(await asyncio.gather(*bulk))
    await whole(scene)
    scene.facts |= {
        "bulk_mib": round(written / MIB),
        "whole_ms": round((time.monotonic() - moment) * 1000),
    }


async def write_bulk(scene: Scene, number: int, stop: asyncio.Event, pause_s: float = 0.0) -> int:
    """Bytes acknowledged, in a stream of its own that no history is kept of."""
    api = scene.apis[number % len(scene.apis)]
    stream = f"bulk-{scene.recorder.run}-{number}"
    body = base64.b64encode(random.Random(stream).randbytes(BULK_BYTES)).decode()
    path = f"/v1/streams/{stream}/records"
    written = 0
    is_there = False
    while not stop.is_set():
        try:
            if not is_there:
                made, _ = await api.ask(
                    "POST", "/v1/streams", {"stream": stream}, basin=scene.basin
                )
                is_there = made in (200, 201, 409)
                continue
            status, _ = await api.ask(
                "POST", path, {"records": [{"body": body}]}, basin=scene.basin
            )
        except (NoEffectError, UnknownOutcomeError):
            await asyncio.sleep(0.05)
            continue
        if status == 200:
            written += BULK_BYTES
            await asyncio.sleep(pause_s)
        else:
            await asyncio.sleep(0.05)
    return written


def _look_at_memory(scene: Scene) -> None:
    for members, most in (
        (scene.cluster.nodes.values(), NODE_RSS_MAX),
        (scene.cluster.gateways.values(), GATEWAY_RSS_MAX),
    ):
        for member in members:
            if member.process is None:
                continue
            size = resident_bytes(member.process.pid)
            role = member.name.partition("-")[0]
            fact = f"{role}_rss_mib"
            scene.facts[fact] = max(scene.facts.get(fact, 0), size // MIB)
            if size > most:
                scene.violations.append(f"{member.name} has {size // MIB} MiB")


async def _end(scene: Scene, number: int) -> None:
    """SIGKILL, and what no sync covers is gone with it: the ledger knows nothing of the node any
    more, so that its files may be changed."""
    scene.cluster.nodes[number].kill()
    scene.cluster.cut_power([number], scene.rng)


async def whole(scene: Scene) -> None:
    scene.violations += await scene.cluster.equal()


def _delete_rows(state: Path, rng: random.Random) -> int:
    """Of the basin that has the most batches, some of its older ones."""
    loop = asyncio.new_event_loop()
    store = RocksStore(state, loop)
    by_replica: dict[bytes, list[bytes]] = {}
    for key, _ in store.scan(b"", b"\xff" * PREFIX_BYTES):
        if key[PREFIX_BYTES : PREFIX_BYTES + 1] == _BATCH:
            by_replica.setdefault(key[:PREFIX_BYTES], []).append(key)
    found = max(by_replica.values(), key=len, default=[])
    older = found[: len(found) // 2]
    chosen = rng.sample(older, min(_GONE_ROWS, len(older)))
    write_set = WriteSet()
    for key in chosen:
        write_set.delete(key)
    store.write(write_set)
    store.close()
    loop.close()
    return len(chosen)


def _snapshots(member: Member, basin: str) -> int:
    """How often a replica of the basin was made of a snapshot."""
    lines = whole_lines(member.log)
    return sum("snapshot_installed" in line and f"basin='{basin}'" in line for line in lines)


def times_said(member: Member, event: str) -> int:
    return sum(event in line for line in whole_lines(member.log))
