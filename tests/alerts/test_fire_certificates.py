"""Alerts about certificates that come to their end, fired by files that do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.lab.own_cluster import OwnCluster
from tests.alerts.watch import watching
from tests.e2e.prometheus import targets
from tests.integration.processes import tls_cluster

SCENE = "certificates"

pytestmark = pytest.mark.timeout(240)


def test_certificates_near_their_end_fire(binaries: Path, tmp_path: Path) -> None:
    """The public one is replaced by one of ten days, and that by one of a single day, under the
    gateway that runs."""

    async def main(cluster: OwnCluster) -> None:
        authority = cluster.directory / "ca"
        place = cluster.directory / "certificates" / "public"
        jobs = targets(cluster)
        trusted = {"svc-gateway": authority / "ca.pem"}
        with watching(binaries, tmp_path, jobs, SCENE, over_tls=trusted) as watch:
            await watch.scraped(jobs)
            await watch.quiet("SvcCertExpiringSoon", "SvcCertExpiring")
            issue(Authority(authority, utc_now), ["127.0.0.1", "localhost"], place, days=10)
            await watch.fires("SvcCertExpiringSoon")
            await watch.quiet("SvcCertExpiring")
            issue(Authority(authority, utc_now), ["127.0.0.1", "localhost"], place, days=1)
            await watch.fires("SvcCertExpiring")
            watch.complete()

    with tls_cluster(tmp_path / "cluster", ["watched-basin"]) as cluster:
        asyncio.run(main(cluster))
