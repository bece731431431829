"""A basin's replicas are elsewhere by now: those that had one say so, and the catalog is asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    BasinNotFoundError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.codec import rpc
from svc_cluster.gateway.cluster.directory import Directory
from svc_cluster.gateway.cluster.leaders import FIND_SECONDS, RETRY_SECONDS_MAX, Group, Leaders
from svc_cluster.link.session import NodeSession
from tests.simulation.loop import run
from tests.unit.gateway.test_hints import LoopClock
from tests.unit.link.far import FarNode

FIRST, SECOND, THIRD, FOURTH = (NodeId(number) for number in (1, 2, 3, 4))
SECONDS = 4.0
ROUND_S = 0.1
"""More than three tries with the pauses between them take."""


class Member(FarNode):
    """It leads the group, or has no replica of it."""

    def __init__(self, loop: Any, *, leads: bool = False, is_up: bool = True) -> None:
        self.asked_count = 0
        self.leads = leads
        self._loop = loop
        super().__init__(NodeSession(loop), is_up=is_up)

    def asked(self, number: int, request: pb.Request) -> None:
        self.asked_count += 1
        response = pb.Response()
        if self.leads:
            response.done.SetInParent()
        else:
            rpc.refusal_to_pb(response.refusal, rpc.GroupUnknownError())
        self._loop.call_soon(self.answer, number, response)


class Scene:
    """A group that was on three nodes, of which the third is down, and is led by the fourth."""

    def __init__(self, loop: Any, *, all_are_down: bool = False) -> None:
        self.loop = loop
        self.nodes = {
            FIRST: Member(loop, is_up=not all_are_down),
            SECOND: Member(loop, is_up=not all_are_down),
            THIRD: Member(loop, is_up=False),
            FOURTH: Member(loop, leads=True),
        }
        self.leaders = Leaders(
            sessions={node: each.session for node, each in self.nodes.items()},
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        self.sought = 0
        self.takes = 0.05
        self.group = Group(GroupId(7), (FIRST, SECOND, THIRD), THIRD, find=self._find)

    async def _find(self, group: Group, deadline: float) -> None:
        self.sought += 1
        left = deadline - self.loop.time()
        await asyncio.sleep(min(self.takes, left))
        if self.takes <= left:
            group.replicas = (SECOND, THIRD, FOURTH)

    async def ask(self) -> pb.Response:
        deadline = self.loop.time() + SECONDS
        return await self.leaders.call(self.group, fill, write=True, deadline=deadline)


def fill(request: pb.Request) -> None:
    request.ping.SetInParent()


def in_scene(play: Callable[[Scene], Awaitable[None]], *, all_are_down: bool = False) -> None:
    async def main(loop: Any) -> None:
        scene = Scene(loop, all_are_down=all_are_down)
        await play(scene)
        await scene.leaders.close()

    run(main)


@pytest.mark.parametrize("all_are_down", [False, True])
def test_a_group_is_sought_where_it_went(all_are_down: bool) -> None:
    """Behind one round of those that had it, whether they say so or are not there any more; fifty
    requests that come at once wait for one answer."""

    async def play(scene: Scene) -> None:
        begun = scene.loop.time()
        answers = await asyncio.gather(*(scene.ask() for _ in range(50)))
        assert all(answer.WhichOneof("result") == "done" for answer in answers)
        assert scene.loop.time() - begun < 2 * ROUND_S + scene.takes
        assert scene.sought == 1
        assert scene.group.leader == FOURTH
        assert scene.leaders.retries["moved"] == 1
        asked = scene.nodes[FIRST].asked_count + scene.nodes[SECOND].asked_count
        assert asked <= 50 * 10

    in_scene(play, all_are_down=all_are_down)


def test_a_catalog_that_does_not_answer_keeps_nobody_from_a_replica_that_is_there() -> None:
    """Those that are known are asked on, and nobody waits for the catalog."""

    async def play(scene: Scene) -> None:
        scene.takes = 3600.0

        async def comes_back() -> None:
            await asyncio.sleep(FIND_SECONDS / 2)
            scene.nodes[SECOND].leads = True

        begun = scene.loop.time()
        back = scene.loop.create_task(comes_back())
        assert (await scene.ask()).WhichOneof("result") == "done"
        await back
        assert scene.loop.time() - begun < FIND_SECONDS / 2 + 3 * RETRY_SECONDS_MAX
        assert scene.sought == 1

    in_scene(play)


def test_what_is_nowhere_is_refused_at_the_deadline_without_effect() -> None:
    async def play(scene: Scene) -> None:
        scene.takes = 3600.0
        begun = scene.loop.time()
        with pytest.raises(UnavailableError, match="no leader was found") as refused:
            await scene.ask()
        assert not refused.value.may_have_taken_effect
        assert SECONDS - 0.2 <= scene.loop.time() - begun <= SECONDS + 0.01
        assert SECONDS / FIND_SECONDS - 1 <= scene.sought <= SECONDS / FIND_SECONDS

    in_scene(play)


def test_reads_in_turn_have_it_sought_beside_them() -> None:
    """They do not wait for that: who leads is asked instead. Once a second at most."""

    async def play(scene: Scene) -> None:
        begun = scene.loop.time()
        for _ in range(20):
            assert await scene.leaders.ask_in_turn(scene.group, fill) is None
        assert scene.loop.time() == begun and scene.sought <= 1
        await asyncio.sleep(2 * scene.takes)
        assert (scene.sought, scene.group.replicas) == (1, (SECOND, THIRD, FOURTH))
        answers = [await scene.leaders.ask_in_turn(scene.group, fill) for _ in range(20)]
        assert [answer is not None for answer in answers].count(True) == 10, "every other one"
        assert scene.sought == 1
        await asyncio.sleep(FIND_SECONDS)
        for _ in range(4):
            await scene.leaders.ask_in_turn(scene.group, fill)
        await asyncio.sleep(0)
        assert scene.sought == 2

    in_scene(play)


class Catalog:
    """Answers a directory as it is told to."""

    def __init__(self) -> None:
        self.answers: dict[str, pb.Response | ServiceError] = {}
        self.asked: list[tuple[str, float]] = []
        self.retries: list[str] = []

    async def call(self, group: Group, fill: Any, *, write: bool, deadline: float) -> pb.Response:
        assert group.group_id == CATALOG_GROUP and not write
        request = pb.Request()
        fill(request)
        self.asked.append((request.resolve_basin.basin, deadline))
        answer = self.answers[request.resolve_basin.basin]
        if isinstance(answer, ServiceError):
            raise answer
        return answer

    def note_retry(self, reason: str) -> None:
        self.retries.append(reason)


@pytest.mark.parametrize(
    ("answer", "replicas", "retries"),
    [
        (pb.BasinInfo(name="b", group_id=7, replicas=[2, 3, 4]), (2, 3, 4), []),
        (pb.BasinInfo(name="b", group_id=8, replicas=[2, 3, 4]), (1, 2, 3), []),
        (BasinNotFoundError("b"), (1, 2, 3), []),
        (UnavailableError("no leader was found"), (1, 2, 3), ["catalog_unavailable"]),
        (ReadDeadlineError("no answer by the deadline"), (1, 2, 3), ["catalog_unavailable"]),
    ],
    ids=["moved", "another", "gone", "no-leader", "silent"],
)
def test_what_the_catalog_says_is_taken_only_of_the_same_group(
    answer: pb.BasinInfo | ServiceError, replicas: tuple[int, ...], retries: list[str]
) -> None:
    """Who leads it stays as it was known; nothing is raised at those who did not ask."""
    catalog = Catalog()
    directory = Directory(cast(Any, catalog), (FIRST, SECOND))
    group = directory.remember(pb.BasinInfo(name="b", group_id=7, replicas=[1, 2, 3]))
    group.leader = SECOND
    catalog.answers["b"] = answer if isinstance(answer, ServiceError) else pb.Response(basin=answer)
    assert group.find is not None
    asyncio.run(group.find(group, 5.0))
    assert catalog.asked == [("b", 5.0)]
    assert (group.replicas, group.leader) == (replicas, SECOND)
    assert catalog.retries == retries
    assert directory.known("b") is group
