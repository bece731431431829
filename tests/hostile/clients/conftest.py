"""The cluster of all attacks of clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.hostile.clients.scene import READY_S, STREAMS_OPEN_MAX, Scene
from tests.hostile.conftest import Measured


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
            place = self._place / f"cluster-{self._made}"
            bound = {"SVC_CLUSTER_STREAMS_OPEN_MAX": str(STREAMS_OPEN_MAX)}
            cluster = OwnCluster(place, options=options, environment=bound)
            cluster.start()
            self._scene = Scene(cluster, spoiled=True)
            asyncio.run(cluster.wait_ready(READY_S))
            self._scene.root = token.read_text().strip()
            asyncio.run(self._scene.prepare())
        return self._scene

    def close(self) -> None:
        if self._scene is not None:
            print(self._scene.cluster.log_tail(30))
            self._scene.cluster.end()
            self._scene = None


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("hostile"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def scene(stage: Stage, measured: Measured) -> Scene:
    found = stage.scene()
    found.measured = measured
    return found
