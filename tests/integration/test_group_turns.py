"""A node with very many groups keeps no turn of its loop long, whatever is done to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from svc_cluster.raft.group import Role
from svc_cluster.replica.host import Host
from tests.integration.turns import OTHER, Full, Turn, full, kept_short
from tests.integration.turns_groups import GROUPS, AgreeingPeers, leads_all

SECONDS = 1.5
"""Longer than any leader lasts without an answer; several looks of everything periodic."""


class Many:
    """A node of three that leads very many groups; the others agree to all it asks."""

    def __init__(self, directory: Path) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.peers = AgreeingPeers()
        self._made = full(directory, 3, self.peers)
        self.node: Full = self.run(self._made.__aenter__())
        self.opened: list[Turn] = self.run(self._open())

    @property
    def host(self) -> Host:
        return self.node.node.host

    async def _open(self) -> list[Turn]:
        self.node.turns.clear()
        await leads_all(self.node, self.peers, GROUPS)
        return list(self.node.turns)

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def longest(self, act: Callable[[], Awaitable[None]]) -> Turn:
        turn: Turn
        turn, _ = self.run(self.node.longest(lambda: asyncio.ensure_future(act())))
        return turn

    def close(self) -> None:
        self.run(self._made.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    made = Many(tmp_path_factory.mktemp("many"))
    yield made
    made.close()


async def _ticks(many: Many) -> None:
    await asyncio.sleep(SECONDS)


async def _peer_goes_and_comes(many: Many) -> None:
    many.host.news.down(OTHER)
    await asyncio.sleep(SECONDS / 3)
    many.host.news.up(OTHER)
    await asyncio.sleep(SECONDS / 3)
    many.host.news.room(OTHER)
    await asyncio.sleep(SECONDS / 3)


async def _catalog_changes(many: Many) -> None:
    for _ in range(5):
        many.host.reconciler.schedule()
        await asyncio.sleep(SECONDS / 5)


async def _states_are_compared(many: Many) -> None:
    many.node.node.housekeeper._last_comparison = float("-inf")
    await asyncio.sleep(SECONDS)


async def _is_flushed(many: Many) -> None:
    keeper = many.node.node.housekeeper
    flushes = keeper.flushes
    keeper.flush()
    while keeper.flushes == flushes:
        await asyncio.sleep(0.01)


async def _is_asked_whether_it_is_ready(many: Many) -> None:
    checks = many.node.node.readiness()
    assert checks["groups_caught_up"]


@pytest.mark.parametrize(
    "act",
    [
        _ticks,
        _peer_goes_and_comes,
        _catalog_changes,
        _states_are_compared,
        _is_flushed,
        _is_asked_whether_it_is_ready,
    ],
)
def test_what_is_done_to_all_groups_keeps_no_turn_long(
    many: Many, act: Callable[[Many], Awaitable[None]]
) -> None:
    """And they go on meanwhile: all are led, in the terms that they were."""
    terms = [basin.group.engine.term for basin in many.host.basins.values()]
    kept_short(lambda number: [(act.__name__, many.longest(lambda: act(many)))])
    groups = [basin.group for basin in many.host.basins.values()]
    assert len(groups) == GROUPS
    assert all(group.engine.role is Role.LEADER for group in groups)
    assert [group.engine.term for group in groups] == terms, "nobody had to stand again"
