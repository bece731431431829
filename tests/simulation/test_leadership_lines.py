"""Whole nodes in virtual time: what their logs say when a quorum goes and comes back."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from svc_cluster.replica.leadership_news import QUORUM_SECONDS
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.snapshot_scenario import OPTIONS


def _lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [
        {**getattr(record, "fields", {}), "level": record.levelname}
        for record in caplog.records
        if record.getMessage() == event
    ]


def test_a_node_that_is_cut_off_warns_once_and_tells_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One node loses the two others: it warns once, names them and the basins; the two
    others, which go on, do not warn. When it is back it says so. Every line about a basin's group
    has the basin's name."""

    async def main(cluster: SimCluster) -> None:
        # the simulation listens to errors alone, and puts this back behind itself
        logger = logging.getLogger("svc_cluster")
        logger.setLevel(logging.INFO)
        logger.addHandler(caplog.handler)
        _ = cluster.start()
        await cluster.set_up()
        alone, *others = cluster.nodes
        for other in others:
            cluster.nemesis.cut(alone.node_id, other.node_id, both=True)
        await asyncio.sleep(QUORUM_SECONDS + LIVENESS_S)
        (lost,) = _lines(caplog, "quorum_lost")
        assert (lost["level"], lost["node"]) == ("WARNING", alone.node_id)
        assert lost["absent"] == [other.node_id for other in others]
        assert "(catalog)" in lost["basins"]
        assert "basin-000" in lost["basins"]
        assert _lines(caplog, "quorum_regained") == []
        cluster.nemesis.heal()
        await asyncio.sleep(LIVENESS_S)
        (regained,) = _lines(caplog, "quorum_regained")
        assert (regained["node"], regained["absent"]) == (alone.node_id, lost["absent"])
        assert regained["groups"] == lost["groups"] == 1 + OPTIONS.basins
        assert len(_lines(caplog, "quorum_lost")) == 1

    in_simulation(3, OPTIONS, main)
    changed = _lines(caplog, "leadership_changed")
    assert {line["basin"] for line in changed if line["group"] > 1} >= {"basin-000"}
    for record in caplog.records:
        facts = getattr(record, "fields", {})
        if "group" in facts:
            assert facts["basin"], (record.getMessage(), facts)
