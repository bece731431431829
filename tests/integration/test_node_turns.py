"""No message that a node takes keeps its event loop longer than TURN_SECONDS_MAX of the loop's
processor time: every kind of request, of message between nodes and of command in a log, at its
limits, to a node that is full. Told by production's own instrument; processor time is asserted, so
a machine that is busy fails nobody, and a kind whose caches were cold in one attempt has others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.codec.catalog_entry import encode_catalog_entry
from svc_cluster.codec.entry_version import BASIN_KINDS, CATALOG_KINDS
from svc_cluster.link.calls import Verb, decode
from svc_cluster.link.frame import FrameKind
from svc_cluster.replica.roles import EVERYDAY, GATEWAY, ROLES
from svc_cluster.replica.snapshot_stream import send_snapshot
from svc_cluster.replica.transfers import SnapshotPace
from tests.at_once import encode_entry
from tests.integration.turns import Full, Turn, full, kept_short, proposed
from tests.integration.turns_commands import BASIN_CASES, CATALOG_CASES
from tests.integration.turns_content import Content, fill, token_id
from tests.integration.turns_peers import led
from tests.integration.turns_requests import BEFORE, REQUESTS, trim_all
from tests.turn_bound import TURN_BOUND_SECONDS

DEADLINE_MS = 20_000

REFUSED = {
    "add_member",
    "change_members",
    "give_lead",
    "join_cluster",
    "raise_version",
    "remove_basin",
    "remove_member",
    "replace_node",
    "seal_basin",
    "set_default_location",
}
"""Kinds of which the answer may be a refusal: there is no such place or version, it is not deleted
yet, or nobody else could lead."""


class Leading:
    """A full node that leads all there is, on one event loop for all tests of this file."""

    def __init__(self, directory: Path) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._made = full(directory, 1)
        self.node: Full = self.run(self._made.__aenter__())
        self.content: Content = self.run(fill(self.node))
        gc.freeze()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def close(self) -> None:
        gc.unfreeze()
        self.run(self._made.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def leading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leading]:
    made = Leading(tmp_path_factory.mktemp("leading"))
    yield made
    made.close()


def operations() -> list[str]:
    return [field.name for field in pb.Request.DESCRIPTOR.oneofs_by_name["operation"].fields]


def test_every_kind_of_request_has_a_case() -> None:
    assert REQUESTS.keys() == set(operations())


async def ask(node: Full, request: pb.Request) -> tuple[Turn, pb.Response]:
    request.deadline_ms = DEADLINE_MS
    data = request.SerializeToString()
    operation = request.WhichOneof("operation")
    line = node.gateway if GATEWAY in ROLES.get(operation or "", EVERYDAY) else node.own
    kind = FrameKind.BULK if operation in ("append", "read") else FrameKind.CALL
    turn, answer = await node.longest(lambda: line.say(Verb.REQUEST, data, kind))
    return turn, pb.Response.FromString(decode(answer).body)


@pytest.mark.parametrize("operation", operations())
def test_request_keeps_no_turn_long(leading: Leading, operation: str) -> None:
    """At its limits, and answered."""

    def attempt(number: int) -> list[tuple[str, Turn]]:
        turns = []
        if operation in BEFORE:
            BEFORE[operation](leading.node)
        for request in REQUESTS[operation](leading.content, number):
            turn, answer = leading.run(ask(leading.node, request))
            result = answer.WhichOneof("result")
            assert result is not None
            assert result != "refusal" or operation in REFUSED, answer
            turns.append((f"{operation} {result}", turn))
        return turns

    kept_short(attempt)


def test_every_kind_of_command_has_a_case() -> None:
    assert BASIN_CASES.keys() == BASIN_KINDS
    assert CATALOG_CASES.keys() == CATALOG_KINDS


def applied(leading: Leading, group_id: GroupId, payload: bytes, count: int) -> Turn:
    """The longest turn while the entry is written, committed, applied and told of."""
    node = leading.node
    turn: Turn
    turn, outcomes = leading.run(node.longest(lambda: proposed(node, group_id, payload)))
    assert len(outcomes) == count
    return turn


@pytest.mark.parametrize("kind", sorted(BASIN_KINDS - {"seal"}))
def test_commands_of_a_basin_keep_no_turn_long(leading: Leading, kind: str) -> None:
    """As many as an entry holds, of streams that are in no cache."""

    def attempt(number: int) -> list[tuple[str, Turn]]:
        commands = BASIN_CASES[kind](leading.node, leading.content, number)
        payload = encode_entry(commands)
        group_id = leading.content.group_id
        return [(kind, applied(leading, group_id, payload, len(commands)))]

    kept_short(attempt)


@pytest.mark.parametrize("kind", sorted(CATALOG_KINDS))
def test_commands_of_the_catalog_keep_no_turn_long(leading: Leading, kind: str) -> None:
    """In a catalog that is full."""

    def attempt(number: int) -> list[tuple[str, Turn]]:
        commands = CATALOG_CASES[kind](leading.node, leading.content, number)
        payload = encode_catalog_entry(commands)
        return [(kind, applied(leading, CATALOG_GROUP, payload, len(commands)))]

    kept_short(attempt)


def test_the_trim_of_very_many_batches_keeps_no_turn_long(leading: Leading) -> None:
    kept_short(
        lambda number: [
            ("trim", leading.run(ask(leading.node, request))[0])
            for request in trim_all(leading.content, number)
        ]
    )


def test_the_state_of_a_full_group_is_sent_and_taken_in_short_turns(
    leading: Leading, tmp_path: Path
) -> None:
    """Of a basin and of the catalog, each whole; the basin's is installed by another node."""
    group_id = leading.content.group_id
    chunks: list[bytes] = []
    digest = 0

    def sent(number: int) -> list[tuple[str, Turn]]:
        nonlocal digest
        chunks.clear()
        of_catalog: list[bytes] = []
        catalog, _ = leading.run(transfer(leading.node, CATALOG_GROUP, of_catalog))
        basin, digest = leading.run(transfer(leading.node, group_id, chunks))
        for each in (of_catalog, chunks):
            told = [pb.SnapshotChunk.FromString(chunk) for chunk in each]
            assert told[-1].last
            assert sum(len(chunk.keys) for chunk in told) == told[-1].pairs > 20_000
        return [("catalog", catalog), ("basin", basin)]

    kept_short(sent)

    def taken(number: int) -> list[tuple[str, Turn]]:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        try:
            turns, came_to = runner.run(take(tmp_path / str(number), chunks))
        finally:
            runner.close()
        assert came_to == digest
        return turns

    kept_short(taken)


async def transfer(node: Full, group_id: GroupId, chunks: list[bytes]) -> tuple[Turn, int]:
    """The longest turn while all of the group is sent to somebody who takes every chunk; and the
    digest of the state that is sent."""
    host = node.node.host
    replica = host.replica(group_id)
    assert replica is not None
    group = replica.group

    async def call(chunk: bytes) -> bytes:
        chunks.append(chunk)
        await asyncio.sleep(0)
        return pb.SnapshotResult(accepted=True).SerializeToString()

    async def send() -> int:
        digest: int = group.machine.digest
        pace = SnapshotPace(host.services.clock, lambda: False)
        await send_snapshot(group, host.services, 7, call, host.memory.pieces, pace, by_pieces=True)
        return digest

    return await node.longest(lambda: asyncio.ensure_future(send()))


async def take(directory: Path, chunks: list[bytes]) -> tuple[list[tuple[str, Turn]], int]:
    """What a leader of the test's own sends to a node that has the group and nothing of this: the
    longest turn of each chunk, and the digest of the state that it comes to."""
    directory.mkdir()
    turns = []
    async with full(directory, 3) as node:
        leader = await led(node)
        for number, data in enumerate(chunks):
            chunk = pb.SnapshotChunk.FromString(data)
            chunk.group_id = leader.group_id
            chunk.term = chunk.sender_term = leader.group.engine.term
            told = chunk.SerializeToString()
            turn, answer = await node.longest(
                partial(node.raft.say, Verb.SNAPSHOT, told, FrameKind.TRANSFER)
            )
            result = pb.SnapshotResult.FromString(decode(answer).body)
            assert result.accepted, result.reason
            turns.append((f"chunk {number}", turn))
        return turns, leader.group.machine.digest


def test_a_token_from_which_all_others_came_is_revoked_in_short_turns(leading: Leading) -> None:
    """Nothing is left of them, and no turn was long. It can be done once."""
    catalog = leading.node.node.host.catalog
    assert catalog is not None
    table = catalog.state.tokens
    assert len(table) > 15_000
    request = pb.Request(group_id=CATALOG_GROUP)
    request.revoke_token.token_id = token_id(0)
    request.revoke_token.authentication_off.SetInParent()
    turn, answer = leading.run(ask(leading.node, request))
    assert answer.WhichOneof("result") == "done", answer
    assert all(token.parent != leading.content.serials.start for token in table.by_serial.values())
    assert leading.content.serials.start not in table.by_serial
    assert turn.seconds <= TURN_BOUND_SECONDS, turn


def test_the_seal_of_a_basin_with_very_many_streams_and_its_end_keep_no_turn_long(
    leading: Leading,
) -> None:
    """By the request that deletes it, until its group is gone."""
    node = leading.node
    host = node.node.host
    catalog = host.catalog
    assert catalog is not None
    group_id = leading.content.group_id
    request = pb.Request(group_id=CATALOG_GROUP, deadline_ms=DEADLINE_MS)
    request.delete_basin.basin = catalog.state.basins_by_group[group_id].name

    async def gone() -> None:
        await node.gateway.say(Verb.REQUEST, request.SerializeToString(), FrameKind.CALL)
        while group_id in host.basins:
            await asyncio.sleep(0.01)

    turn, _ = leading.run(node.longest(lambda: asyncio.ensure_future(gone())))
    assert turn.seconds <= TURN_BOUND_SECONDS, turn
