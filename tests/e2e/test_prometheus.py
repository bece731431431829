"""Debian's Prometheus against a live cluster: every process is scraped, its exposition is clean,
and a node that dies is seen. The binaries come from a Debian package, fetched by
deploy/prometheus/fetch.sh."""

from __future__ import annotations

import asyncio
import math
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load
from tests.e2e.load import set_up
from tests.e2e.prometheus import READY_S, Prometheus, fetched, targets
from tests.integration.processes import ready_cluster
from tests.tidy.observability import ALERTS, DASHBOARDS, asked_for, expressions, panels

ALERTS_TEST = Path(__file__).with_name("alerts_test.yml")
BASIN = "shown-basin"


@pytest.fixture(scope="module")
def binaries() -> Path:
    """The directory of prometheus and promtool."""
    return fetched()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    with ready_cluster(tmp_path_factory.mktemp("scraped") / "data", "--no-restart") as own:
        yield own


def test_every_process_is_scraped_and_a_dead_node_is_seen(
    binaries: Path, cluster: OwnCluster, tmp_path: Path
) -> None:
    """`up` is 1 for three nodes and the gateway, our own metrics are in, and after kill -9 `up` is
    0 for that node alone."""
    jobs = targets(cluster)
    every = [*jobs["svc-node"], *jobs["svc-gateway"]]
    prometheus = Prometheus(binaries, tmp_path, jobs)
    try:

        async def watch() -> None:
            await prometheus.wait("up", dict.fromkeys(every, 1.0))
            await prometheus.wait("svc_build_info > 0", dict.fromkeys(every, 1.0))
            node = cluster.node(2)
            cluster.kill_node(2, signal.SIGKILL)
            dead = f"127.0.0.1:{node['admin_port']}"
            await prometheus.wait("up", {each: float(each != dead) for each in every})

        asyncio.run(watch())
    finally:
        prometheus.stop()


def panel_expressions() -> dict[str, str]:
    """Of every line of every panel, by where it stands, as it is asked of Prometheus."""
    out: dict[str, str] = {}
    for board in DASHBOARDS:
        for panel in panels(board):
            for target in panel["targets"]:
                text = target["expr"].replace("$__rate_interval", "20s")
                for variable in ("$instance", "$basin"):
                    text = text.replace(variable, ".*")
                out[f"{board.stem}: {panel['title']} {target['refId']}"] = text
    return out


def test_no_panel_is_empty_on_a_healthy_cluster(binaries: Path, tmp_path: Path) -> None:
    """While somebody appends and reads, every line of every panel of every dashboard comes to hold
    a number, be it 0."""

    async def watch(own: OwnCluster, prometheus: Prometheus) -> list[str]:
        await set_up(own.url, BASIN, ["stream-0"])
        load = Load(own.url, BASIN, writers=1)
        load.start()
        waiting = panel_expressions()
        end = SystemClock().monotonic() + READY_S
        try:
            while waiting and SystemClock().monotonic() < end:
                async with HttpClient(own.url) as client:
                    path = "/v1/streams/stream-0/records?seq_num=0&count=1"
                    await client.request("GET", path, {"svc-basin": BASIN})
                for where, text in list(waiting.items()):
                    values = await asyncio.to_thread(prometheus.query, text)
                    if any(not math.isnan(value) for value in values.values()):
                        del waiting[where]
                await asyncio.sleep(0.2)
        finally:
            await load.stop()
        return sorted(waiting)

    with ready_cluster(tmp_path / "data", "--no-restart") as own:
        prometheus = Prometheus(binaries, tmp_path, targets(own))
        try:
            assert asyncio.run(watch(own, prometheus)) == []
        finally:
            prometheus.stop()


def test_the_expositions_are_clean(binaries: Path, cluster: OwnCluster) -> None:
    """promtool finds nothing to say about names, units and help texts of a node or a gateway."""
    jobs = targets(cluster)
    for address in (jobs["svc-node"][0], jobs["svc-gateway"][0]):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read()
        checked = subprocess.run(
            [binaries / "promtool", "check", "metrics"],
            input=text,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr.decode() + checked.stdout.decode()


def test_alerts_and_dashboard_are_read_by_prometheus_and_fire_when_they_should(
    binaries: Path, tmp_path: Path
) -> None:
    """promtool takes every rule and every expression of a panel, and plays a lost majority, a lost
    leader, a full disk and certificates that come to their end through the rules."""
    rules = {"groups": [{"name": "panels", "rules": panel_rules()}]}
    (tmp_path / "panels.yml").write_text(yaml.safe_dump(rules))
    played = ALERTS_TEST.read_text().replace("[ALERTS]", f'["{ALERTS}"]')
    (tmp_path / "play.yml").write_text(played)
    for arguments in (
        ["check", "rules", str(ALERTS), str(tmp_path / "panels.yml")],
        ["test", "rules", str(tmp_path / "play.yml")],
    ):
        done = subprocess.run(
            [binaries / "promtool", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def panel_rules() -> list[dict[str, str]]:
    """What the dashboard asks for, as rules: promtool reads those."""
    return [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(expressions().values())
    ]


def test_what_alerts_and_dashboard_ask_for_is_on_the_pages(cluster: OwnCluster) -> None:
    """Every metric that an expression names is a page's of a real node or gateway."""
    pages = ""
    jobs = targets(cluster)
    for address in (jobs["svc-node"][0], jobs["svc-gateway"][0]):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            pages += answer.read().decode()
    exported = {line.split()[2] for line in pages.splitlines() if line.startswith("# TYPE")}
    assert asked_for() <= exported
    samples = {line.split("{")[0].split()[0] for line in pages.splitlines() if line[:1] != "#"}
    for name in ("svc_wal_fsync_duration_seconds_count", "svc_event_loop_lag_seconds_count"):
        assert name in samples
    fields = [line.split() for line in pages.splitlines()]
    written = [float(f[1]) for f in fields if f[0] == "svc_wal_bytes_written_total"]
    assert max(written) > 0, "the log was written to, and it shows"
