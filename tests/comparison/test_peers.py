"""Peers that are on this machine take the load that this service takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.load.run import Run
from svc_cluster.lab.load.scenarios import SCENARIOS
from tests.comparison.peers import PEERS, Peer
from tests.integration.processes import in_loop

HERE = [peer for peer in PEERS if peer.needs() is not None]


@pytest.mark.skipif(not HERE, reason="needs etcd, NATS, Redis or s2 on PATH")
@pytest.mark.parametrize("peer", HERE, ids=lambda peer: peer.name)
@in_loop
async def test_a_peer_is_measured(peer: Peer, tmp_path: Path) -> None:
    """It starts, answers appends without an error, and is gone afterwards."""
    scenario = SCENARIOS["unary-16"].changed({}, 0.5)
    async with peer.started(tmp_path, 0.0) as target:
        run = Run(scenario, target, 0.5, SystemClock(), 7)
        await run.fill()
        (row,) = await run.measure()
        pids = list(target.pids)
    assert row["requests"] > 0
    assert row["errors"] == {}
    assert row["rss_mib_max"] > 1
    assert pids
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)
