"""One client who does not behave, beside others who do: these see nothing but 200, every append
that they were answered is there once, no process takes 700 MiB, and nobody loses a lead."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.cli.own_cluster import OwnCluster
from tests.e2e.hostile_attacks import (
    BOMBS,
    CONNECTIONS,
    FOLLOWERS,
    GHOSTS,
    READS_AT_ONCE,
)
from tests.e2e.hostile_scene import BUSY, READY_S, Scene

pytestmark = pytest.mark.timeout(180)


class Stage:
    """The cluster of all attacks, which therefore also meet what those before have left; a new one
    behind an attack that has done harm."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._scene: Scene | None = None
        self._made = 0

    def scene(self) -> Scene:
        if self._scene is not None and self._scene.spoiled:
            self.close()
        if self._scene is None:
            self._made += 1
            token = self._place / f"root-token-{self._made}"
            options = ["--auth", "--root-token-file", str(token)]
            cluster = OwnCluster(self._place / f"cluster-{self._made}", options=options)
            cluster.start()
            self._scene = Scene(cluster, spoiled=True)
            asyncio.run(cluster.wait_ready(READY_S))
            self._scene.root = token.read_text().strip()
            asyncio.run(self._scene.prepare())
        return self._scene

    def close(self) -> None:
        if self._scene is not None:
            print(self._scene.cluster.log_tail(30))
            self._scene.cluster.stop()
            self._scene = None


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("hostile"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage.scene()


def test_a_thousand_large_reads_at_once_harm_nobody(scene: Scene) -> None:
    """Ten connections of a token that may only read ask for a hundred records of 0.9 MB each."""
    answered = asyncio.run(scene.under("big reads", scene.reader))
    assert sum(answered.values()) <= CONNECTIONS * READS_AT_ONCE + CONNECTIONS


def test_three_hundred_followers_from_the_beginning_harm_nobody(scene: Scene) -> None:
    """They behave: they only come all at once."""
    answered = asyncio.run(scene.under("followers", scene.reader))
    assert sum(answered.values()) in (1, FOLLOWERS)


def test_bodies_that_unpack_to_millions_of_records_harm_nobody(scene: Scene) -> None:
    """Each is refused, and nothing of it is appended."""
    answered = asyncio.run(scene.under("bombs", scene.issuer))
    assert set(answered) <= {"400", "413", "422"} and answered.total() == BOMBS, answered


def test_requests_with_values_at_the_ends_of_their_types_harm_nobody(scene: Scene) -> None:
    """Beside six busy clients on six basins; each of these requests is answered, none with 500."""
    answered = asyncio.run(scene.under("ghosts", scene.issuer, busy=BUSY))
    assert answered.total() == GHOSTS, answered
    assert not {status for status in answered if status == "500" or not status.isdigit()}, answered
