"""Rows of the fault matrix in which copies come and go: a group's members change, and one that is
far behind gets a whole state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.cli.admin.admin_client import AdminError, Target, connected
from tests.chaos.losses import times_said, whole, write_bulk
from tests.chaos.members import NODES
from tests.chaos.scene import RECOVERY_S, Scene

PAUSE_S: Final = 0.15
"""Between two appends of bulk: rounds on one cluster add to the state that a snapshot carries."""
BEHIND_BYTES: Final = 12 * 1024 * 1024
"""Several times what a log keeps for who is away..."""
BEHIND_S: Final = 7.0
"""...and longer than it does."""
BREAKS: Final = 4
ASKED_AGAIN_S: Final = 0.2

Trouble = Callable[[Scene], Awaitable[None]]
"""What happens amid a change; it is over when it returns."""


async def change_members(scene: Scene) -> None:
    """D18: the basin's leader is removed and the group shrinks to one replica, and grows to three
    again; the catalog's votes do the same. Nodes are killed on the way, and of two changes at once
    one is refused."""
    await _shrink_and_grow(scene, _kill_one)


async def change_while_apart(scene: Scene) -> None:
    """D34: the same changes, and amid each of them one node is on its own, or hears the others and
    is not heard."""
    await _shrink_and_grow(scene, _cut_one_off)


async def _shrink_and_grow(scene: Scene, amid: Trouble) -> None:
    basin = pb.MoveBasinRequest(basin=scene.basin, reason="chaos")
    votes = pb.MoveBasinRequest(catalog=True, reason="chaos")
    leader = await scene.leader()
    stays = scene.rng.choice([node for node in NODES if node != leader])
    others = [node for node in NODES if node != stays]
    began = time.monotonic()
    for request in (basin, votes):
        for to in ([stays], [stays, *others]):
            await _changed(scene, request, to, amid)
    scene.facts |= {"stays": stays, "changes_ms": round((time.monotonic() - began) * 1000)}
    await whole(scene)


async def _kill_one(scene: Scene) -> None:
    victim = scene.cluster.nodes[scene.rng.choice(NODES)]
    victim.kill()
    await scene.restart(victim)


async def _cut_one_off(scene: Scene) -> None:
    network = scene.cluster.network
    alone = scene.rng.choice(NODES)
    others = [scene.cluster.nodes[node].name for node in NODES if node != alone]
    if scene.rng.random() < 0.5:
        network.isolate(scene.cluster.nodes[alone].name, others)
    else:
        for other in others:
            network.cut(scene.cluster.nodes[alone].name, other)
    await scene.for_a_while(1.0, 4.0)
    network.heal()


async def _changed(
    scene: Scene, request: pb.MoveBasinRequest, to: list[int], amid: Trouble
) -> None:
    """Order the change, order another beside it, have something happen amid, and wait until it is
    so."""
    wanted = pb.MoveBasinRequest()
    wanted.CopyFrom(request)
    wanted.to[:] = to
    deadline = time.monotonic() + RECOVERY_S
    while (said := await _ask(scene, wanted)) is not None:
        if time.monotonic() > deadline:
            scene.violations.append(f"the change to {to} is not taken: {said}")
            return
        await asyncio.sleep(ASKED_AGAIN_S)
    beside = pb.MoveBasinRequest()
    beside.CopyFrom(wanted)
    beside.to[:] = [to[0], *(node for node in NODES if node != to[0])][: 4 - len(to)]
    refused = await _ask(scene, beside)
    if refused is None and not await _is_so(scene, wanted):
        scene.violations.append(f"a change to {list(beside.to)} was taken beside one to {to}")
    await scene.for_a_while(0.0, 0.6)
    await amid(scene)
    while not await _is_so(scene, wanted):
        if time.monotonic() > deadline:
            scene.violations.append(f"the change to {to} is not through after {RECOVERY_S} s")
            return
        await asyncio.sleep(ASKED_AGAIN_S)


async def _ask(scene: Scene, request: pb.MoveBasinRequest) -> str | None:
    """Why it is refused, or nobody answers; None: it is ordered, or was before."""
    port = scene.cluster.order_ports[scene.rng.choice(NODES)]
    try:
        async with connected(Target(f"127.0.0.1:{port}")) as client:
            await client.move_basin(request)
    except AdminError as refusal:
        return str(refusal)
    return None


async def _is_so(scene: Scene, request: pb.MoveBasinRequest) -> bool:
    """Whether the group has these members, and no change of it is open."""
    port = scene.cluster.order_ports[scene.rng.choice(NODES)]
    try:
        async with connected(Target(f"127.0.0.1:{port}")) as client:
            found = await (client.catalog() if request.catalog else client.basin(request.basin))
    except AdminError:
        return False
    members = {row.node_id for row in found.replicas}
    return members == {*request.to} and not found.HasField("move") and bool(found.leader)


async def fall_behind(scene: Scene) -> None:
    """D19: a follower stands still until no log has what it lacks. Snapshots make it whole, which
    are broken off, by its own death again and again and once by the sender's."""
    number = await scene.follower()
    node = scene.cluster.nodes[number]
    node.pause()
    stop, began = asyncio.Event(), time.monotonic()
    bulk = asyncio.ensure_future(write_bulk(scene, 0, stop, PAUSE_S))
    try:
        await asyncio.sleep(BEHIND_S)
    finally:
        stop.set()
        written = await bulk
    told = times_said(node, "snapshot_installed")
    node.resume()
    moment = time.monotonic()
    for _ in range(BREAKS):
        await scene.for_a_while(0.05, 0.8)
        node.kill()
        node.start()
    leader = scene.cluster.nodes[await scene.leader()]
    leader.kill()
    await scene.restart(node, leader)
    await whole(scene)
    got = times_said(node, "snapshot_installed") - told
    if written >= BEHIND_BYTES and not got:
        scene.violations.append(f"{node.name} lacked {written} bytes, and got no snapshot")
    scene.facts |= {
        "node": number,
        "bulk_mib": round(written / 1024 / 1024),
        "snapshots": got,
        "behind_s": round(moment - began, 1),
        "whole_ms": round((time.monotonic() - moment) * 1000),
    }
