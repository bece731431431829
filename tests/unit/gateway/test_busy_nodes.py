"""A node that has not dealt with what it was asked is asked again: nothing was done, and if it
stays so the client hears that nothing was, and when to come again."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    DeadlineError,
    InternalError,
    RateLimitedError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.gateway.cluster.leaders import Group, Leaders
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.error_answers import RETRY_AFTER_MS, error_response
from svc_cluster.link.calls import Verb
from svc_cluster.link.session import NodeSession
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.link.far import FarNode

ONE, TWO = NodeId(1), NodeId(2)
SECONDS = 4.0


class Leader(FarNode):
    """Does what it is asked, at once."""

    def __init__(self, loop: Any) -> None:
        self.done = 0
        self.silent = False
        self._loop = loop
        super().__init__(NodeSession(loop))

    def asked(self, number: int, request: pb.Request) -> None:
        self.done += 1
        if not self.silent:
            response = pb.Response()
            response.done.SetInParent()
            self._loop.call_soon(self.answer, number, response)


class Rig:
    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.nodes = {ONE: Leader(loop), TWO: Leader(loop)}
        self.clock = SimClock(loop)
        self.group = Group(GroupId(7), (ONE, TWO), ONE)
        self.filled = 0
        """How often a request was written down."""
        self.leaders = Leaders(
            sessions={node: each.session for node, each in self.nodes.items()},
            loop=loop,
            clock=self.clock,
            rng=random.Random(5),
        )

    async def write(self, key: bytes = b"") -> pb.Response:
        def fill(request: pb.Request) -> None:
            self.filled += 1
            request.ping.SetInParent()

        deadline = self.clock.monotonic() + SECONDS
        if key:
            return await self.leaders.call_idempotent(self.group, fill, key, deadline=deadline)
        return await self.leaders.call(self.group, fill, write=True, deadline=deadline)


def test_a_busy_node_is_asked_again_until_it_has_room() -> None:
    """It keeps being taken for the leader, is asked once it has room and does it once."""

    async def main(loop: Any) -> None:
        rig = Rig(loop)
        rig.nodes[ONE].full = True
        writing = asyncio.ensure_future(rig.write())
        await asyncio.sleep(1.0)
        assert not writing.done() and rig.nodes[ONE].sent == []
        assert rig.group.leader == ONE
        rig.nodes[ONE].full = False
        assert (await writing).WhichOneof("result") == "done"
        assert (rig.nodes[ONE].done, rig.nodes[TWO].done) == (1, 0)
        assert rig.filled == 1, "nothing was encoded for the attempts without credit"
        assert rig.nodes[ONE].cancelled == []
        assert set(rig.leaders.retries) == {"busy"}
        assert rig.nodes[ONE].session.pending == 0

    run(main)


def test_a_node_that_stays_busy_is_a_definite_refusal() -> None:
    """At the deadline, after a bounded number of tries with pauses; nothing was sent, and
    the client hears a 503 without effect that says when to come again."""

    async def main(loop: Any) -> None:
        rig = Rig(loop)
        rig.nodes[ONE].full = True
        begun = loop.time()
        with pytest.raises(UnavailableError, match="too much to deal with") as refused:
            await rig.write()
        assert loop.time() - begun == pytest.approx(SECONDS, abs=0.2)
        assert not refused.value.may_have_taken_effect
        assert all(node.sent == [] for node in rig.nodes.values())
        assert 20 <= rig.leaders.retries["busy"] <= 100
        assert rig.filled == 0, "nothing is encoded for what is refused"
        assert rig.nodes[ONE].session.pending == 0
        response = error_response(refused.value, Dialect.SEED, is_write=True)
        headers = dict(response.headers)
        assert response.status == 503
        assert headers["svc-side-effects"] == "none"
        assert (headers["retry-after-ms"], headers["retry-after"]) == (str(RETRY_AFTER_MS), "1")

    run(main)


def test_a_write_that_may_be_there_is_not_told_as_refused_by_a_busy_node() -> None:
    """The first attempt went unanswered, the repetitions find no room: what the client hears is
    that nobody knows."""

    async def main(loop: Any) -> None:
        rig = Rig(loop)
        node = rig.nodes[ONE]
        node.silent = True
        rig.group.replicas = (ONE,)
        writing = asyncio.ensure_future(rig.write(b"k" * 32))
        await asyncio.sleep(0.5)
        assert node.done == 1
        node.full = True
        node.reset()
        with pytest.raises(ServiceError) as unknown:
            await writing
        assert isinstance(unknown.value, DeadlineError)
        assert unknown.value.may_have_taken_effect
        assert node.done == 1
        assert [row[2] for row in node.sent] == [Verb.REQUEST]

    run(main)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    ("error", "wait_ms"),
    [
        (UnavailableError("no leader was found"), RETRY_AFTER_MS),
        (RateLimitedError("", 1234), 1234),
    ],
)
def test_a_definite_refusal_says_when_to_come_again(
    error: ServiceError, wait_ms: int, dialect: Dialect
) -> None:
    """In milliseconds, and in whole seconds that are not fewer."""
    headers = dict(error_response(error, dialect, is_write=True).headers)
    assert headers["retry-after-ms"] == str(wait_ms)
    assert headers["retry-after"] == str(-(-wait_ms // 1000))


@pytest.mark.parametrize("dialect", list(Dialect))
def test_what_may_have_taken_effect_is_not_to_be_repeated_blindly(dialect: Dialect) -> None:
    """Neither an unknown outcome nor a 503 that may have had one says when to come again."""
    unknown = UnavailableError("the node stopped")
    unknown.may_have_taken_effect = True
    for error in (unknown, DeadlineError("no answer"), InternalError("a bug of ours")):
        response = error_response(error, dialect, is_write=True)
        assert "retry-after-ms" not in dict(response.headers), (error, response.status)
    assert error_response(unknown, dialect, is_write=True).status == 503
