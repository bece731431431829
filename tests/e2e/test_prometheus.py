"""Debian's Prometheus against a live cluster: every process is scraped, its exposition is clean,
and a node that dies is seen. The binaries come from a Debian package, fetched by
deploy/prometheus/fetch.sh."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load
from tests.e2e.load import set_up
from tests.integration.processes import ready_cluster
from tests.tidy.observability import ALERTS, DASHBOARDS, asked_for, expressions, panels

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "prometheus"
FETCH = ROOT / "deploy" / "prometheus" / "fetch.sh"
ALERTS_TEST = Path(__file__).with_name("alerts_test.yml")
READY_S = 60.0
BASIN = "shown-basin"


@pytest.fixture(scope="module")
def binaries() -> Path:
    """The directory of prometheus and promtool."""
    found = shutil.which("prometheus")
    if found is not None and shutil.which("promtool") is not None:
        return Path(found).parent
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("Prometheus is not installed and there is no apt-get to fetch its package by")
    done = subprocess.run([FETCH, BUILD], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        pytest.skip(f"Debian's prometheus package cannot be fetched: {done.stderr[-200:]}")
    return BUILD


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    with ready_cluster(tmp_path_factory.mktemp("scraped") / "data", "--no-restart") as own:
        yield own


def targets(own: OwnCluster) -> dict[str, list[str]]:
    """Job to addresses."""
    nodes = [f"127.0.0.1:{node['admin_port']}" for node in own.file()["nodes"]]
    return {"svc-node": nodes, "svc-gateway": [f"127.0.0.1:{own.port}"]}


class Prometheus:
    """A running one, and its answers."""

    def __init__(self, binary: Path, directory: Path, jobs: dict[str, list[str]]) -> None:
        self._held = HeldPorts(1)
        self.port = self._held.numbers[0]
        config = directory / "prometheus.yml"
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                    "scrape_configs": [
                        {"job_name": job, "static_configs": [{"targets": addresses}]}
                        for job, addresses in jobs.items()
                    ],
                }
            )
        )
        self.process = subprocess.Popen(
            [
                binary / "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def query(self, expression: str) -> dict[str, float]:
        """Instance to value; empty while it does not answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode(
            {"query": expression}
        )
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                rows = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, OSError):
            return {}
        return {row["metric"].get("instance", ""): float(row["value"][1]) for row in rows}

    async def wait(self, expression: str, wanted: dict[str, float]) -> None:
        """Until the answer is `wanted`."""
        end = SystemClock().monotonic() + READY_S
        seen: dict[str, float] = {}
        while SystemClock().monotonic() < end:
            seen = self.query(expression)
            if seen == wanted:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"{expression} is {seen}, not {wanted}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


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
