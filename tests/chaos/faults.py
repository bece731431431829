"""The rows of the fault matrix: each breaks something while the load runs.

A row draws all its choices from the round's generator, leaves what it broke to the round's healing
unless mending is a part of it, and reports what it measured as facts.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from svc_cluster.storage.worker import EXIT_STORAGE
from tests.chaos import writers
from tests.chaos.cluster import GATEWAYS
from tests.chaos.members import NODES
from tests.chaos.scene import RECOVERY_S, Scene
from tests.own_processes import resident_bytes

MIB: Final = 1024 * 1024


def name(node: int) -> str:
    return f"node-{node}"


def others(node: int) -> list[int]:
    return [other for other in NODES if other != node]


async def kill_leader(scene: Scene) -> None:
    """D1: kill -9 of the leader, up to three times."""
    for _ in range(scene.rng.randint(1, 3)):
        node = scene.cluster.nodes[await scene.leader()]
        moment = time.monotonic()
        node.kill()
        await scene.successes(moment)
        await scene.for_a_while(0.1, 0.8)
        await scene.restart(node)


async def kill_leader_in_sessions(scene: Scene) -> None:
    """D22: the leader changes three times in a row, by kill -9 or by a freeze behind which another
    leads, while append sessions have batches on their way."""
    for _ in range(3):
        number = await scene.leader()
        node = scene.cluster.nodes[number]
        moment = time.monotonic()
        if scene.rng.random() < 0.5:
            node.kill()
            await scene.successes(moment)
            await scene.restart(node)
        else:
            node.pause()
            await scene.successes(moment)
            node.resume()
        await scene.for_a_while(0.1, 0.8)


async def kill_others(scene: Scene) -> None:
    """D2: kill -9 of a follower, or of all nodes at once."""
    if scene.rng.random() < 0.5:
        scene.facts["killed"] = "follower"
        node = scene.cluster.nodes[await scene.follower()]
        node.kill()
        await scene.for_a_while(0.5, 2.0)
        await scene.restart(node)
        return
    scene.facts["killed"] = "all"
    for node in scene.cluster.nodes.values():
        node.kill()
    moment = time.monotonic()
    await scene.restart(*scene.cluster.nodes.values())
    first = await scene.successes(moment)
    scene.failover_ms.clear()  # not a failover: there was nobody to take over
    scene.facts["restart_to_append_ms"] = round((first - moment) * 1000)


async def lose_power(scene: Scene) -> None:
    """D4: power loss of one node, of a majority or of all, with torn sectors."""
    count = scene.rng.choice((1, 2, 3, 3))
    nodes = scene.rng.sample(NODES, count)
    for node in nodes:
        scene.cluster.nodes[node].kill()
    report = scene.cluster.cut_power(nodes, scene.rng)
    scene.facts |= {
        "nodes": count,
        "writes_undone": report.undone_writes,
        "names_undone": len(report.undone_names),
        "sectors_torn_in": report.kept_sectors,
    }
    await scene.restart(*scene.cluster.nodes.values())


async def freeze_leader(scene: Scene) -> None:
    """D5: SIGSTOP of the leader for 1 to 10 s; it then believes that it still leads."""
    node = scene.cluster.nodes[await scene.leader()]
    moment = time.monotonic()
    node.pause()
    seconds = scene.rng.uniform(1, 10)
    scene.facts["frozen_ms"] = round(seconds * 1000)
    await scene.successes(moment)
    await asyncio.sleep(max(0.0, moment + seconds - time.monotonic()))
    node.resume()
    await scene.for_a_while(0.5, 1.0)


async def isolate_leader(scene: Scene) -> None:
    """D6: the leader and one gateway on one side, everybody else on the other."""
    leader = await scene.leader()
    with_leader, with_others = scene.rng.sample(GATEWAYS, 2)
    moment = time.monotonic()
    network = scene.cluster.network
    network.isolate(name(leader), [name(other) for other in others(leader)])
    network.isolate(f"gateway-{with_leader}", [name(other) for other in others(leader)])
    network.isolate(f"gateway-{with_others}", [name(leader)])
    await scene.successes(moment)
    await scene.for_a_while(2, 6)
    network.heal()
    await scene.for_a_while(0.5, 1.0)


async def cut_one_way(scene: Scene) -> None:
    """D7: a deaf leader, a mute leader, or a ring in which each hears only one other."""
    leader = await scene.leader()
    kind = scene.rng.choice(("deaf", "mute", "ring"))
    scene.facts["kind"] = kind
    terms = await _terms(scene)
    begin = time.monotonic()
    network = scene.cluster.network
    if kind == "ring":
        for node in NODES:
            network.cut(name(node), name(node % 3 + 1))
    for other in others(leader):
        if kind == "deaf":
            network.cut(name(other), name(leader))
        elif kind == "mute":
            network.cut(name(leader), name(other))
    await scene.for_a_while(3, 7)
    seconds = time.monotonic() - begin
    scene.facts["outcomes"] = scene.recorder.outcomes_between(begin, time.monotonic())
    network.heal()
    await scene.leader()
    scene.facts |= {"terms": await _terms(scene) - terms, "cut_ms": round(seconds * 1000)}


async def _terms(scene: Scene) -> int:
    return max(
        (
            int(group["term"])
            for groups in (await scene.cluster.groups()).values()
            for group in groups
            if group["basin"] == scene.basin
        ),
        default=0,
    )


async def bad_links(scene: Scene) -> None:
    """D8: flapping at about 1 Hz, links clogged one after the other, delays, resets."""
    network = scene.cluster.network
    kind = scene.rng.choice(("flap", "swizzle", "delay", "reset"))
    scene.facts["kind"] = kind
    names = [name(node) for node in NODES]
    pairs = [(one, two) for one in names for two in names if one != two]
    if kind == "delay":
        low = scene.rng.uniform(0.05, 0.15)
        high = scene.rng.uniform(low, 0.5)
        scene.facts["delay_ms"] = [round(low * 1000), round(high * 1000)]
        for source, target in pairs if scene.rng.random() < 0.5 else pairs[:2]:
            network.delay(source, target, low, high)
        await scene.for_a_while(4, 8)
    elif kind == "reset":
        for _ in range(scene.rng.randint(5, 15)):
            one = scene.rng.choice([*names, "gateway-1", "gateway-2"])
            network.reset(one, scene.rng.choice([other for other in names if other != one]))
            await scene.for_a_while(0.05, 0.6)
    elif kind == "flap":
        victim = scene.rng.choice(names)
        for _ in range(scene.rng.randint(4, 7)):
            network.isolate(victim, [other for other in names if other != victim])
            await scene.for_a_while(0.3, 0.7)
            network.heal()
            await scene.for_a_while(0.3, 0.7)
    else:
        scene.rng.shuffle(pairs)
        for pair in pairs[: scene.rng.randint(2, 6)]:
            network.cut(*pair)
            await scene.for_a_while(0.2, 0.8)
        scene.rng.shuffle(pairs)
        for pair in pairs:
            network.way(*pair).set(cut=False)
            await scene.for_a_while(0.0, 0.3)


async def slow_disk(scene: Scene) -> None:
    """D9: every sync of the leader, or of one follower, takes 50 to 500 ms longer."""
    on_leader = scene.rng.random() < 0.5
    node = await (scene.leader() if on_leader else scene.follower())
    delay_ms = scene.rng.choice((50, 100, 200, 500))
    scene.facts |= {"on": "leader" if on_leader else "follower", "delay_ms": delay_ms}
    begin = time.monotonic()
    scene.cluster.controls[node].put("sync_delay_us", delay_ms * 1000)
    await scene.for_a_while(3, 6)
    scene.cluster.controls[node].ease()
    took = sorted(e.known - e.begun for e in scene.recorder.timed if e.begun >= begin)
    if took:
        scene.facts["append_p99_ms"] = round(took[int(0.99 * (len(took) - 1))] * 1000)


async def fail_sync(scene: Scene) -> None:
    """D10: a node's syncs fail; it must end at once, and what it had not synced is gone."""
    on_leader = scene.rng.random() < 0.7
    number = await (scene.leader() if on_leader else scene.follower())
    node = scene.cluster.nodes[number]
    begin = time.monotonic()
    scene.cluster.controls[number].put("fail_sync", 1)
    async with asyncio.timeout(10):
        while node.is_up:
            await asyncio.sleep(0.01)
    scene.facts |= {"exit": node.exits[-1], "exit_ms": round((time.monotonic() - begin) * 1000)}
    if node.exits[-1] != EXIT_STORAGE:
        scene.violations.append(f"{node.name} ended with {node.exits[-1]}, not {EXIT_STORAGE}")
    await scene.successes(begin)
    if not on_leader:
        scene.failover_ms.clear()
    scene.cluster.controls[number].ease()
    scene.cluster.cut_power([number], scene.rng)
    await scene.restart(node)


async def fill_disk(scene: Scene) -> None:
    """D11: no room on one node or on all; either below the reserve, or really none."""
    everywhere = scene.rng.random() < 0.5
    nodes = list(NODES) if everywhere else [await scene.leader()]
    room = scene.rng.choice((32 * MIB, 32 * MIB, 2 * MIB))
    scene.facts |= {"nodes": len(nodes), "room_mib": room // MIB}
    for node in nodes:
        scene.cluster.controls[node].put("space", 1 + room)
    await scene.for_a_while(2.5, 3.5)  # until the nodes have looked, and a leader stood aside
    begin = time.monotonic()
    read = await _can_be_read(scene)
    await scene.for_a_while(2, 4)
    outcomes = scene.recorder.outcomes_between(begin, time.monotonic())
    scene.facts |= {"outcomes": outcomes, "readable": read}
    if everywhere and (outcomes.get("ok") or outcomes.get("unknown")):
        scene.violations.append(f"no node has room, and appends came to {outcomes}")
    if not everywhere and not outcomes.get("ok"):
        scene.violations.append(f"two nodes have room, and appends came to {outcomes}")
    if room >= 32 * MIB and not read:
        scene.violations.append("nothing could be read of a full disk")
    for node in nodes:
        scene.cluster.controls[node].ease()
    ended = [m for m in scene.cluster.nodes.values() if not m.is_up]
    scene.facts["ended"] = [m.exits[-1] for m in ended]
    if any(status != EXIT_STORAGE for status in scene.facts["ended"]):
        scene.violations.append(f"nodes ended with {scene.facts['ended']}")
    if room >= 32 * MIB and ended:
        scene.violations.append(f"{[m.name for m in ended]} ended above an empty reserve")
    moment = time.monotonic()
    await scene.restart(*ended)
    await scene.successes(moment)
    scene.failover_ms.clear()


async def _can_be_read(scene: Scene) -> bool:
    """By our own requests: the load's clients wait for the answers to their appends."""
    client = scene.recorder.new_client()
    for api in scene.apis * 3:
        read = await scene.recorder.read(api, scene.history, client, 0, 10)
        tail = await scene.recorder.check_tail(api, scene.history, client)
        if read is not None and tail is not None:
            return True
    return False


async def jump_clock(scene: Scene) -> None:
    """D15: wall clocks jump by up to an hour, drift apart, and jump back, under load."""
    steps = scene.rng.randint(2, 5)
    for _ in range(steps):
        for node in NODES if scene.rng.random() < 0.3 else [scene.rng.choice(NODES)]:
            offset_s = scene.rng.choice((-3600, 3600, -60, 60, -1, 1, 0))
            scene.cluster.controls[node].put("clock_offset_ns", offset_s * 10**9)
        await scene.for_a_while(0.5, 1.5)
    reads = [scene.cluster.controls[node].get("clock_reads") for node in NODES]
    scene.facts |= {"steps": steps, "clock_reads": sum(reads)}
    if not all(reads):
        scene.violations.append("a node did not read the clock that was set")


async def kill_gateway(scene: Scene) -> None:
    """D20: gateways die by kill -9 in the middle of appends, one at a time."""
    kills = scene.rng.randint(2, 4)
    for _ in range(kills):
        gateway = scene.cluster.gateways[scene.rng.choice(GATEWAYS)]
        gateway.kill()
        await scene.for_a_while(0.1, 0.5)
        await scene.restart(gateway)
        await scene.for_a_while(0.2, 0.6)
    scene.facts["kills"] = kills


async def cut_clients(scene: Scene) -> None:
    """D21: clients reset their connections in the middle of a request; nothing leaks."""
    before = _descriptors(scene)
    for _ in range(scene.rng.randint(50, 150)):
        url = scene.rng.choice(scene.cluster.urls)
        await writers.break_off(url, scene.basin, scene.history.stream, scene.rng)
    async with asyncio.timeout(10):
        while _descriptors(scene) > before + 30:  # the load's own connections come and go
            await asyncio.sleep(0.1)
    scene.facts |= {"descriptors_before": before, "descriptors_after": _descriptors(scene)}


def _descriptors(scene: Scene) -> int:
    pids = [g.process.pid for g in scene.cluster.gateways.values() if g.process is not None]
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


async def slow_readers(scene: Scene) -> None:
    """D23: readers that take one byte a second cost the gateway little and its writers nothing."""
    count = 10
    pids = [g.process.pid for g in scene.cluster.gateways.values() if g.process is not None]
    before = sum(resident_bytes(pid) for pid in pids)
    stop = asyncio.Event()
    readers = [
        asyncio.ensure_future(
            writers.hardly_read(
                scene.rng.choice(scene.cluster.urls), scene.basin, scene.history.stream, stop
            )
        )
        for _ in range(count)
    ]
    await scene.for_a_while(4, 6)
    after = sum(resident_bytes(pid) for pid in pids)
    stop.set()
    await asyncio.gather(*readers)
    scene.facts |= {"readers": count, "rss_growth_kib": (after - before) // 1024}


async def recreate(scene: Scene) -> None:
    """D24: a stream is deleted and made again while it is read and written."""
    recreator = writers.Recreator(scene.apis[0], scene.basin, f"reborn-{scene.recorder.run}")
    running = asyncio.ensure_future(recreator.run())
    await scene.for_a_while(3, 5)
    if scene.rng.random() < 0.5:
        node = scene.cluster.nodes[await scene.leader()]
        moment = time.monotonic()
        node.kill()
        await scene.successes(moment)
        await scene.restart(node)
    recreator.stopping = True
    async with asyncio.timeout(RECOVERY_S):
        await running
    scene.violations += recreator.violations
    scene.facts |= {"lives": recreator.lives, "reads_of_it": recreator.reads}
