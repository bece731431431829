"""A question that must not wait for a silent node is put to the others meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ReadDeadlineError
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.codec import rpc
from svc_cluster.gateway.cluster.leaders import (
    IN_TURN_SECONDS,
    OTHERS_SECONDS,
    PING_ANSWER_SECONDS,
    PING_SECONDS,
    RETRY_SECONDS_MAX,
    Group,
    Leaders,
)
from svc_cluster.link.session import NodeSession
from tests.simulation.loop import run
from tests.unit.gateway.test_hints import LoopClock
from tests.unit.link.far import SPEAKER, FarNode

FIRST, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)
SECONDS = 2.5


class Member(FarNode):
    """Hints at FIRST for so many seconds, and answers then; each answer takes `delay` seconds."""

    def __init__(self, loop: Any, leads_after: float | None, *, delay: float = 0.0) -> None:
        self.asked_count = 0
        self._loop = loop
        self._leads_at = None if leads_after is None else loop.time() + leads_after
        self._delay = delay
        super().__init__(NodeSession(loop))

    def asked(self, number: int, request: pb.Request) -> None:
        self.asked_count += 1
        response = pb.Response()
        if self._leads_at is not None and self._loop.time() >= self._leads_at:
            response.done.SetInParent()
        else:
            rpc.refusal_to_pb(response.refusal, rpc.NotLeaderHereError(FIRST))
        self._loop.call_later(self._delay, self.answer, number, response)


class Silent(Member):
    def asked(self, number: int, request: pb.Request) -> None:
        self.asked_count += 1


async def ask(loop: Any, nodes: Mapping[NodeId, Member], group: Group) -> Leaders:
    leaders = Leaders(
        sessions={node: each.session for node, each in nodes.items()},
        loop=loop,
        clock=LoopClock(loop),  # type: ignore[arg-type]
        rng=random.Random(5),
    )
    try:
        await leaders.call_any(
            group, lambda r: r.ping.SetInParent(), deadline=loop.time() + SECONDS
        )
    finally:
        await asyncio.sleep(0)
        assert {task.get_name() for task in asyncio.all_tasks()} & {"ask", "ask the others"} == (
            set()
        )
    return leaders


def test_the_successor_of_a_silent_leader_is_found_before_the_deadline() -> None:
    """The member that names the silent one until it leads itself is asked again and again; the
    silent one is not, and from then on the successor is the first to be asked."""

    async def main(loop: Any) -> None:
        begun = loop.time()
        nodes = {FIRST: Silent(loop, None), SECOND: Member(loop, 1.5)}
        group = Group(GroupId(1), (FIRST, SECOND), FIRST)
        leaders = await ask(loop, nodes, group)
        assert 1.5 <= loop.time() - begun <= 1.5 + 1.5 * RETRY_SECONDS_MAX
        assert nodes[FIRST].asked_count == 1
        assert group.leader == SECOND
        assert leaders.retries["silent"] == 1

    run(main)


def test_a_leader_that_is_only_slow_is_heard() -> None:
    """Its answer counts, though the others were asked too: who leads stays known."""

    async def main(loop: Any) -> None:
        begun = loop.time()
        nodes = {FIRST: Member(loop, 0.0, delay=0.8), SECOND: Member(loop, None)}
        group = Group(GroupId(1), (FIRST, SECOND), FIRST)
        await ask(loop, nodes, group)
        assert loop.time() - begun == pytest.approx(0.8)
        assert nodes[FIRST].asked_count == 1
        assert 1 <= nodes[SECOND].asked_count <= 15
        assert group.leader == FIRST

    run(main)


def test_a_prompt_leader_is_asked_alone() -> None:
    async def main(loop: Any) -> None:
        nodes = {FIRST: Member(loop, 0.0, delay=OTHERS_SECONDS / 2), SECOND: Member(loop, None)}
        leaders = await ask(loop, nodes, Group(GroupId(1), (FIRST, SECOND), FIRST))
        assert (nodes[FIRST].asked_count, nodes[SECOND].asked_count) == (1, 0)
        assert leaders.retries == {}

    run(main)


def test_when_nobody_answers_it_ends_at_the_deadline() -> None:
    async def main(loop: Any) -> None:
        begun = loop.time()
        nodes = {FIRST: Silent(loop, None), SECOND: Silent(loop, None)}
        group = Group(GroupId(1), (FIRST, SECOND), FIRST)
        with pytest.raises(ReadDeadlineError):
            await ask(loop, nodes, group)
        assert loop.time() - begun == pytest.approx(SECONDS)
        assert group.leader is None

    run(main)


def test_a_replica_that_is_silent_in_its_turn_is_left_for_the_leader() -> None:
    """Within IN_TURN_SECONDS, and so is one that refuses; the next question goes to another."""

    async def main(loop: Any) -> None:
        nodes = {FIRST: Silent(loop, None), SECOND: Member(loop, 0.0), THIRD: Member(loop, None)}
        leaders = Leaders(
            sessions={node: each.session for node, each in nodes.items()},
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        group = Group(GroupId(2), tuple(nodes), SECOND)
        found = {}
        for _ in nodes:
            begun = loop.time()
            response = await leaders.ask_in_turn(group, lambda r: r.ping.SetInParent())
            (asked,) = [
                node for node, each in nodes.items() if each.asked_count and node not in found
            ]
            found[asked] = response is not None, loop.time() - begun
        assert found == {
            FIRST: (False, pytest.approx(IN_TURN_SECONDS)),
            SECOND: (True, pytest.approx(0.0)),
            THIRD: (False, pytest.approx(0.0)),
        }
        assert leaders.retries == {"replica_refused": 1}
        assert group.leader == SECOND, "who leads is not in question"

    run(main)


def test_a_node_that_comes_back_is_asked_from_the_moment_when_its_link_is_up() -> None:
    """Pings that found no link say nothing of it. One that leaves a ping unanswered, or takes none,
    is asked nothing until it has answered one."""

    async def main(loop: Any) -> None:
        class Node(FarNode):
            answers = True

            def asked(self, number: int, request: pb.Request) -> None:
                if self.answers:
                    response = pb.Response()
                    response.done.SetInParent()
                    loop.call_soon(self.answer, number, response)

        node = Node(NodeSession(loop))
        leaders = Leaders(
            sessions={FIRST: node.session},
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        leaders.start()

        def comes_back() -> None:
            node.is_up = True
            node.session.link_up(SPEAKER)

        for _ in range(2):
            await asyncio.sleep(3.1 * PING_SECONDS)
            assert leaders.is_usable(FIRST)
            node.is_up = False
            node.session.link_down()
            await asyncio.sleep(3.1 * PING_SECONDS)
            assert not leaders.is_usable(FIRST)
            comes_back()
            assert leaders.is_usable(FIRST)
        node.full = True
        await asyncio.sleep(2 * PING_SECONDS)
        assert not leaders.is_usable(FIRST)
        node.full = False
        await asyncio.sleep(2 * PING_SECONDS)
        assert leaders.is_usable(FIRST)
        node.answers = False
        await asyncio.sleep(2 * PING_SECONDS + PING_ANSWER_SECONDS)
        assert not leaders.is_usable(FIRST)
        # a link that goes and comes proves nothing for it
        node.is_up = False
        node.session.link_down()
        await asyncio.sleep(3 * PING_SECONDS)
        comes_back()
        assert not leaders.is_usable(FIRST)
        node.answers = True
        await asyncio.sleep(3 * PING_SECONDS + PING_ANSWER_SECONDS)
        assert leaders.is_usable(FIRST)
        # one whose link is lost under a ping is asked as soon as it is back
        node.answers = False
        await asyncio.sleep(1.5 * PING_SECONDS)
        node.is_up = False
        node.session.link_down()
        comes_back()
        assert leaders.is_usable(FIRST)
        await leaders.close()

    run(main)


def test_of_a_node_that_left_nothing_is_kept() -> None:
    """Its last ping may end behind it; under its name another one may come."""

    async def main(loop: Any) -> None:
        node = FarNode(NodeSession(loop))
        sessions = {FIRST: node.session}
        leaders = Leaders(
            sessions=sessions,
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        leaders.start()
        await asyncio.sleep(1.5 * PING_SECONDS)
        del sessions[FIRST]
        leaders.left(FIRST)
        await asyncio.sleep(2 * PING_ANSWER_SECONDS)
        other = FarNode(NodeSession(loop))
        sessions[FIRST] = other.session
        assert leaders.is_usable(FIRST)
        await leaders.close()

    run(main)
