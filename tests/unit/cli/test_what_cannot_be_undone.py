"""What an operator cannot take back wants `--yes`: a node that takes part is not removed by a slip
of the hand, and no replica is lost by a list that is too short."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.cli.admin import basin_commands, member_commands
from svc_cluster.cli.admin.admin_app import app
from svc_cluster.cli.admin.admin_client import AdminError

PLACE = ["--address", "127.0.0.1:1"]


class Cluster:
    """A node's answers, and what it was told to do."""

    def __init__(self, replicas: int = 3) -> None:
        self.replicas = replicas
        self.done: list[Any] = []

    async def members(self) -> pb.MembersResponse:
        rows = [
            pb.Member(node_id=node, state=state)
            for node, state in ((4, "active"), (5, "draining"), (6, "removed"))
        ]
        return pb.MembersResponse(members=rows)

    async def remove_member(self, request: pb.RemoveMemberRequest) -> pb.RemoveMemberResponse:
        self.done.append(request)
        return pb.RemoveMemberResponse(node_id=request.node_id)

    async def drain_node(self, request: pb.DrainNodeRequest) -> pb.DrainNodeResponse:
        assert request.verb == "status"
        return pb.DrainNodeResponse(node_id=request.node_id)

    async def basin(self, name: str) -> pb.BasinResponse:
        assert name == "b"
        return await self.catalog()

    async def catalog(self) -> pb.BasinResponse:
        rows = [pb.BasinReplica(node_id=node) for node in range(1, self.replicas + 1)]
        return pb.BasinResponse(replicas=rows)

    async def move_basin(self, request: pb.MoveBasinRequest) -> pb.MoveBasinResponse:
        self.done.append(request)
        return pb.MoveBasinResponse(group_id=1)


def run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    def asked(_: object, call: Callable[[Any], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            return await call(cluster)

        return asyncio.run(ask())

    for module in (member_commands, basin_commands):
        monkeypatch.setattr(module, "asked", asked)
    done = CliRunner().invoke(app, [*arguments, *PLACE])
    return done.exit_code, done.output + done.stderr


def call_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Raises what the command itself is told."""
    raised: list[BaseException] = []

    def asked(_: object, call: Callable[[Any], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            return await call(cluster)

        try:
            return asyncio.run(ask())
        except AdminError as cause:
            raised.append(cause)
            raise

    monkeypatch.setattr(member_commands, "asked", asked)
    CliRunner().invoke(app, [*arguments, *PLACE])
    if raised:
        raise raised[0]


@pytest.mark.parametrize(("node", "yes", "goes"), [(4, False, False), (4, True, True)])
def test_a_node_that_takes_part_is_not_removed_without_a_word(
    node: int, yes: bool, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even an empty one: it is gone for good, and may not be the one that was meant."""
    cluster = Cluster()
    status, said = run(cluster, monkeypatch, "member", "remove", str(node), *["--yes"] * yes)
    assert status == (0 if goes else 1), said
    assert len(cluster.done) == goes
    if not goes:
        assert "svc-cluster admin node drain 4" in said
        assert "nothing was done" in said


@pytest.mark.parametrize("node", [5, 6, 7])
def test_a_drained_node_and_a_join_token_go_as_they_are_told(
    node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that was removed already is told so again; the node itself says what it holds."""
    cluster = Cluster()
    assert run(cluster, monkeypatch, "member", "remove", str(node))[0] == 0
    assert [one.node_id for one in cluster.done] == [node]


@pytest.mark.parametrize("what", [("basin", "move", "b"), ("catalog", "move")])
@pytest.mark.parametrize(
    ("replicas", "to", "goes"),
    [
        (3, "1,2,4", True),
        (3, "1,2", False),
        (3, "1", False),
        (3, "1,2,3,4", False),
        (3, "1,2,3,4,5", True),
        (5, "1,2,3", False),
        (1, "1,2,3", True),
    ],
)
def test_replicas_become_fewer_or_an_even_number_only_if_that_is_said(
    what: tuple[str, ...], replicas: int, to: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that was left out is a replica that nobody makes again."""
    cluster = Cluster(replicas)
    status, said = run(cluster, monkeypatch, *what, "--to", to)
    assert status == (0 if goes else 1), said
    assert len(cluster.done) == goes
    assert ("nothing was done" in said) != goes
    cluster.done.clear()
    assert run(cluster, monkeypatch, *what, "--to", to, "--yes")[0] == 0
    assert list(cluster.done[0].to) == [int(node) for node in to.split(",")]


@pytest.mark.parametrize("what", [("basin", "move", "b"), ("catalog", "move")])
def test_a_move_is_given_up_without_a_word_more(
    what: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    assert run(cluster, monkeypatch, *what, "--give-up")[0] == 0
    assert len(cluster.done) == 1


def assert_half_is_told(
    states: dict[int, str], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the second is refused after all, the first is named: it is gone."""
    if states != {5: "draining", 4: "draining"}:
        return
    remove = cluster.remove_member

    async def one_only(request: pb.RemoveMemberRequest) -> pb.RemoveMemberResponse:
        if request.node_id == 4:
            raise AdminError("node 4 holds replicas of 1 basin")
        return await remove(request)

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "remove_member", one_only)
        patched.setattr(cluster, "drain_node", Cluster().drain_node)
        with pytest.raises(AdminError, match="node 5 was removed, and then: node 4 holds"):
            call_of(cluster, patched, "member", "remove", "5", "4")
    cluster.done.clear()


@pytest.mark.parametrize(
    ("states", "left", "goes"),
    [
        ({5: "draining", 4: "draining"}, {}, True),
        ({5: "draining", 4: "draining"}, {4: 1}, False),
        ({5: "draining", 4: "active"}, {}, False),
        ({5: "removed", 4: "draining"}, {}, True),
        ({5: "draining"}, {}, False),
    ],
)
def test_of_several_nodes_none_goes_while_one_may_not(
    states: dict[int, str], left: dict[int, int], goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a release that is scaled in loses a node to an upgrade that fails."""

    class Drained(Cluster):
        async def members(self) -> pb.MembersResponse:
            rows = [pb.Member(node_id=node, state=state) for node, state in states.items()]
            return pb.MembersResponse(members=rows)

        async def drain_node(self, request: pb.DrainNodeRequest) -> pb.DrainNodeResponse:
            assert request.verb == "status"
            replicas = left.get(request.node_id, 0)
            return pb.DrainNodeResponse(node_id=request.node_id, replicas=replicas)

    cluster = Drained()
    assert_half_is_told(states, cluster, monkeypatch)
    status, said = run(cluster, monkeypatch, "member", "remove", "5", "4")
    assert status == (0 if goes else 1), said
    assert [one.node_id for one in cluster.done] == ([5, 4] if goes else [])
    assert ("node 4" in said and "nothing was done" in said) != goes
    if "active" in states.values():
        cluster.done.clear()
        left[4] = 1
        assert run(cluster, monkeypatch, "member", "remove", "5", "4", "--yes")[0] == 1
        assert cluster.done == [], "what is asked for with a word is looked at before, too"
