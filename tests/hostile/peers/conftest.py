"""The cluster of all strangers, which therefore also meet what those before have left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.load import set_up
from tests.hostile.peers.victim import BASIN, READY_S, STREAM, Victim


@pytest.fixture(scope="package")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    directory = tmp_path_factory.mktemp("hostile")
    cluster = OwnCluster(directory / "cluster")
    cluster.start()
    try:
        asyncio.run(cluster.wait_ready(READY_S))
        asyncio.run(set_up(cluster.url, BASIN, [STREAM]))
        yield Victim(cluster, directory)
    finally:
        cluster.end()
