"""A hint is worth one try before a pause, whoever it names."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.codec import rpc
from svc_cluster.codec.entry_since import NotActiveYetError
from svc_cluster.gateway.cluster.leaders import RETRY_SECONDS_MIN, Group, Leaders
from svc_cluster.link.session import NodeSession
from tests.simulation.loop import run
from tests.unit.link.far import FarNode

NODES = tuple(NodeId(number) for number in (1, 2, 3))
SECONDS = 4.0
ATTEMPTS_MAX = 200
"""In four seconds, with pauses that double from 10 ms to 100 ms, halved at most by the jitter, and
two tries between them."""


class LoopClock:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()


class Hinting(FarNode):
    """A node that names another as the leader, at once."""

    def __init__(self, loop: Any, hint: NodeId, *, is_up: bool = True) -> None:
        self.asked_count = 0
        self._loop = loop
        self._hint = hint
        super().__init__(NodeSession(loop), is_up=is_up)

    def asked(self, number: int, request: pb.Request) -> None:
        self.asked_count += 1
        response = pb.Response()
        rpc.refusal_to_pb(response.refusal, rpc.NotLeaderHereError(self._hint))
        self._loop.call_soon(self.answer, number, response)


@pytest.mark.parametrize("unreachable", [True, False])
def test_hints_that_lead_nowhere_are_followed_with_pauses(unreachable: bool) -> None:
    """Two nodes name the third, which cannot be reached or names the first: the request is tried
    until its deadline, a bounded number of times, and refused without effect."""

    async def main(loop: Any) -> None:
        nodes = {
            NodeId(1): Hinting(loop, NodeId(3)),
            NodeId(2): Hinting(loop, NodeId(3)),
            NodeId(3): Hinting(loop, NodeId(1), is_up=not unreachable),
        }
        leaders = Leaders(
            sessions={node: each.session for node, each in nodes.items()},
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        begun = loop.time()
        with pytest.raises(UnavailableError):
            await leaders.call(
                Group(GroupId(7), NODES, NodeId(1)),
                lambda request: request.ping.SetInParent(),
                write=True,
                deadline=begun + SECONDS,
            )
        assert loop.time() - begun == pytest.approx(SECONDS, abs=0.2)
        asked = sum(node.asked_count for node in nodes.values())
        assert 20 <= asked <= ATTEMPTS_MAX
        # who is there needs no knock, and who is not gets one before each pause
        assert [nodes[node].knocks for node in NODES[:2]] == [0, 0]
        assert (20 <= nodes[NODES[2]].knocks <= ATTEMPTS_MAX) == unreachable

    run(main)


def test_a_hint_that_is_right_costs_no_pause() -> None:
    """The leader is found in no time."""

    async def main(loop: Any) -> None:
        class Leading(Hinting):
            def asked(self, number: int, request: pb.Request) -> None:
                response = pb.Response()
                response.done.SetInParent()
                self._loop.call_soon(self.answer, number, response)

        nodes = {NodeId(1): Hinting(loop, NodeId(2)), NodeId(2): Leading(loop, NodeId(2))}
        leaders = Leaders(
            sessions={node: each.session for node, each in nodes.items()},
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        group = Group(GroupId(7), (NodeId(1), NodeId(2)), NodeId(1))
        begun = loop.time()
        await leaders.call(
            group, lambda r: r.ping.SetInParent(), write=True, deadline=loop.time() + SECONDS
        )
        assert loop.time() - begun < RETRY_SECONDS_MIN / 2
        assert nodes[NodeId(1)].asked_count == 1

    run(main)


def test_what_takes_a_newer_active_version_is_told_at_once() -> None:
    """No other node and no pause changes it: the first answer is the caller's, without effect, and
    with the node's sentence."""

    async def main(loop: Any) -> None:
        class Older(Hinting):
            def asked(self, number: int, request: pb.Request) -> None:
                self.asked_count += 1
                response = pb.Response()
                sentence = "shared_caching takes version 3 of the cluster, which is at 2"
                rpc.refusal_to_pb(response.refusal, NotActiveYetError(sentence))
                self._loop.call_soon(self.answer, number, response)

        nodes = {node: Older(loop, node) for node in NODES}
        leaders = Leaders(
            sessions={node: each.session for node, each in nodes.items()},
            loop=loop,
            clock=LoopClock(loop),  # type: ignore[arg-type]
            rng=random.Random(5),
        )
        begun = loop.time()
        with pytest.raises(NotActiveYetError, match="takes version 3") as told:
            await leaders.call_idempotent(
                Group(GroupId(7), NODES, NodeId(1)),
                lambda request: request.ping.SetInParent(),
                b"k" * 32,
                deadline=begun + SECONDS,
            )
        assert loop.time() - begun < RETRY_SECONDS_MIN / 2
        assert sum(node.asked_count for node in nodes.values()) == 1
        refusal = told.value
        assert (refusal.code.value, refusal.may_have_taken_effect) == ("unavailable", False)

    run(main)
