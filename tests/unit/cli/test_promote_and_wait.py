"""`member promote` and `node drain --wait`: what is asked of a node, and what comes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from typer.testing import CliRunner

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.cli.admin.admin_app import app
from svc_cluster.cli.admin.admin_client import AdminError
from svc_cluster.cli.admin.drain_commands import LOOK_SECONDS, emptied
from tests.unit.cli.test_what_cannot_be_undone import Cluster, run


@pytest.mark.parametrize(
    ("votes", "promoted", "to"),
    [
        (3, ["4", "5"], [1, 2, 3, 4, 5]),
        (1, ["3", "2"], [1, 3, 2]),
        (3, ["3", "4", "5"], [1, 2, 3, 4, 5]),
        (3, ["4"], None),
        (5, ["6"], None),
        (3, ["2"], None),
    ],
)
def test_nodes_get_a_vote_beside_those_that_have_one(
    votes: int, promoted: list[str], to: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only to 1, 3 or 5 of them; otherwise it is said what does it, and nothing is done."""
    cluster = Cluster(votes)
    status, said = run(cluster, monkeypatch, "member", "promote", *promoted)
    assert status == (1 if to is None else 0), said
    assert [list(one.to) for one in cluster.done] == ([] if to is None else [to])
    assert ("nothing was done" in said) == (to is None)


class Draining:
    """A node that is empty behind so many questions, some of which nobody answers."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.verbs: list[str] = []
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def drain_node(self, request: pb.DrainNodeRequest) -> pb.DrainNodeResponse:
        assert request.node_id == 5
        self.verbs.append(request.verb)
        if len(self.verbs) == 3:
            raise AdminError("the leader changes")
        return pb.DrainNodeResponse(node_id=5, empty=len(self.verbs) > self.looks)


@pytest.mark.parametrize(
    ("looks", "empty", "seconds"), [(0, True, 0), (4, True, 4), (99, False, 10)]
)
def test_a_drain_is_waited_for(looks: int, empty: bool, seconds: int) -> None:
    """It is ordered once, and then asked about, until the node is empty or the time is over."""
    node: Any = Draining(looks)
    left = asyncio.run(
        emptied(node, pb.DrainNodeRequest(node_id=5, verb="drain"), 10.0, node, node.sleep)
    )
    assert left.empty == empty
    assert node.now == seconds * LOOK_SECONDS
    assert node.verbs == ["drain", *["status"] * seconds]


def test_an_upgrade_is_a_state_of_the_cluster_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cluster upgrade` says what `upgrade status` says."""
    from svc_cluster.cli.admin import upgrade_commands

    version = pb.VersionResponse(active=2, newest=3, why_not="node 2 is not connected: start it")
    monkeypatch.setattr(upgrade_commands, "asked", lambda *_: version)
    told = [
        CliRunner().invoke(app, [*words, "--address", "127.0.0.1:1"])
        for words in (("cluster", "upgrade"), ("upgrade", "status"))
    ]
    assert {(one.exit_code, one.output) for one in told} == {(1, told[0].output)}
    assert "node 2 is not connected" in told[0].output
