"""Whoever stops a node gives it the time to give its leads away, and the hook before that ends."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from svc_cluster import handover
from svc_cluster.cli.local import command as local
from svc_cluster.lab import own_cluster
from svc_cluster.replica.leader_handover import (
    ANSWER_SECONDS,
    ATTEMPT_SECONDS,
    LIMIT_SECONDS,
    TOLD_SECONDS,
)

ROOT = Path(__file__).parents[3]
CLOSE_SECONDS = 4.0
STOP = LIMIT_SECONDS + ATTEMPT_SECONDS + ANSWER_SECONDS + TOLD_SECONDS + CLOSE_SECONDS


def test_every_way_to_stop_a_node_leaves_it_time() -> None:
    """`local`, compose and systemd send a signal; Kubernetes runs the hook before it."""
    assert STOP <= local.STOP_SECONDS < own_cluster._STOP_S
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services = compose["services"].values()
    nodes = [service for service in services if service.get("command") == ["node"]]
    assert nodes
    assert all(float(node["stop_grace_period"].removesuffix("s")) >= STOP for node in nodes)
    unit = (ROOT / "deploy/systemd/svc-cluster-node.service").read_text()
    assert float(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0]) >= STOP
    hook = handover.WAIT_SECONDS + handover.TIMEOUT_SECONDS
    values = yaml.safe_load((ROOT / "helm/svc-cluster/values.yaml").read_text())
    assert hook + STOP <= values["replica"]["terminationGracePeriodSeconds"]
    schema = json.loads((ROOT / "helm/svc-cluster/values.schema.json").read_text())
    period = schema["properties"]["replica"]["properties"]["terminationGracePeriodSeconds"]
    assert hook + STOP <= period["minimum"]


class Slow(BaseHTTPRequestHandler):
    """A node under load: each look at it takes 0.2 s, and it leads all the time."""

    looks = 0

    def do_GET(self) -> None:
        type(self).looks += 1
        threading.Event().wait(0.2)
        body = b'svc_raft_groups{state="leader"} 3\n'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def slow_node() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_hooks_limit_is_time_however_long_a_look_takes(
    slow_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second is two looks of 0.2 s and the pauses between them, not five."""
    monkeypatch.setattr(handover, "WAIT_SECONDS", 0.5)
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        assert handover.main([str(os.getpid()), slow_node]) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert 1 <= Slow.looks <= 2
