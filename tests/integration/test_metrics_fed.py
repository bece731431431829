"""Every declared metric is fed: by a cluster at work, or by a fault in a test that is named."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.own_cluster import OwnCluster
from tests.alerts.table import FIRED
from tests.e2e.cluster import Load, running
from tests.e2e.load import set_up
from tests.integration.processes import page
from tests.tidy.metric_names import ROOT, declared
from tests.tidy.observability import alerts

BASIN, STREAM, IDLE = "fed-basin", "refused", "idle-basin"
SETTINGS: Final = {
    "scrub_interval_seconds": 1.0,
    "stored_mib_per_basin_max": 64,
    "rest_seconds": 1.0,
    "payload_files": True,
}
FED_S: Final = 60.0
"""Some gauges are other than 0 for moments, which a look may miss."""
WAKE_S: Final = 4.0
"""Behind `rest_seconds` and the agreement to rest."""

IN_TESTS: Final[dict[str, str]] = {
    "svc_audit_suppressed_total": "unit/gateway/test_audit.py",
    "svc_event_loop_collector_pause_seconds": "unit/cli/test_loop_turns.py",
    "svc_http_bodies_waiting": "contract/test_slow_bodies.py",
    "svc_http_requests_shed_total": "contract/test_open_streams.py",
    "svc_http_streams_open": "contract/test_open_streams.py",
    "svc_http_unread_body_bytes": "contract/test_slow_bodies.py",
    "svc_admin_calls_total": "integration/test_metrics_of_faults.py",
    "svc_audit_failures_total": "integration/test_metrics_of_faults.py",
    "svc_auth_failures_total": "contract/test_refusals_of_tokens.py",
    "svc_cluster_upgrade_outstanding": "integration/test_finalize.py",
    "svc_raft_groups_without_leader": "integration/test_metrics_of_faults.py",
    "svc_raft_hand_overs_total": "integration/test_metrics_of_faults.py",
    "svc_raft_peer_unreadable_total": "integration/test_metrics_of_faults.py",
    "svc_raft_read_index_failures_total": "integration/test_metrics_of_faults.py",
    "svc_raft_replicas_repaired_total": "integration/test_scrub.py",
    "svc_raft_snapshot_send_duration_seconds": "integration/test_snapshot_install.py",
    "svc_raft_snapshots_total": "integration/test_snapshot_install.py",
    "svc_scrub_differences_total": "integration/test_scrub.py",
    "svc_store_reads_refused_total": "integration/test_memory.py",
    "svc_store_reads_waiting": "integration/test_memory.py",
    "svc_append_sessions": "unit/gateway/test_append_session.py",
    "svc_read_sessions": "contract/test_events.py",
    "svc_loop_faults_total": "unit/cli/test_loop_faults.py",
    "svc_memory_refused_total": "integration/test_memory.py",
    "svc_node_refused": "integration/test_refused_node.py",
    "svc_raft_peer_refused": "integration/test_refused_node.py",
    "svc_payload_dead_bytes": "integration/test_payload_space.py",
    "svc_payload_hole_bytes_total": "integration/test_payload_space.py",
    "svc_payload_live_bytes": "integration/test_payload_space.py",
    "svc_quota_refusals_total": "contract/test_limits.py",
    "svc_rate_limit_waiting_bytes": "unit/gateway/test_rate_limiter.py",
    "svc_rate_limited_total": "unit/gateway/test_rate_limiter.py",
    "svc_request_log_left_out_total": "unit/gateway/test_request_log.py",
    "svc_tls_cert_expiry_timestamp_seconds": "integration/test_tls.py",
    "svc_trace_spans_total": "unit/cli/test_span_export.py",
    "svc_wal_held_bytes": "integration/test_stopped_groups.py",
}
"""What stands still in a cluster in which nothing is wrong, and the test that sees it move."""

IN_ALERTS: Final[dict[str, str]] = {
    "svc_backup_last_success_timestamp_seconds": "SvcBackupStale",
    "svc_raft_state_divergence_total": "SvcStateDivergence",
    "svc_retention_stopped_groups": "SvcClockAway",
    "svc_scrub_in_doubt_groups": "SvcScrubInDoubt",
    "svc_storage_read_only": "SvcReadOnly",
}
"""What `make alerts-fire` has real processes move until this alert fires."""


UNSEEN: Final = frozenset(
    {
        "svc_payload_inline_total",
        "svc_raft_peer_send_failures_total",
        "svc_raft_proposals_failed_total",
    }
)
"""What the product writes and no test sees move on a page. This list only shrinks."""
UNSEEN_MAX: Final = 3


def moved(text: str) -> set[str]:
    """Families of a page with a sample other than 0."""
    families: set[str] = set()
    family = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            family = line.split()[2]
        elif line and not line.startswith("#") and float(line.rpartition(" ")[2]) != 0:
            families.add(family)
    return families


async def fed(cluster: OwnCluster) -> set[str]:
    """What has moved on any process by now."""
    found: set[str] = set()
    gateway = int(cluster.url.rpartition(":")[2])
    ports = [int(cluster.node(node)["admin_port"]) for node in (1, 2, 3)]
    for port in (gateway, *ports):
        status, text = await page(port, "/metrics")
        assert status == 200
        found |= moved(text)
    return found


async def work(url: str) -> None:
    """Requests of each kind that feeds a metric of its own: read, followed, refused."""
    named = {"svc-basin": BASIN}
    records = f"/v1/streams/{STREAM}/records"
    async with HttpClient(url) as client:
        await client.request("GET", "/v1/streams/stream-0/records?seq_num=0&count=5", named)
        body = json.dumps({"records": [{"body": ""}], "match_seq_num": 10**9}).encode()
        refused = await client.request(
            "POST", records, {**named, "content-type": "application/json"}, body
        )
        assert refused.status == 412, refused
        trim = {"headers": [["", "dHJpbQ=="]], "body": "AAAAAAAAAAE="}
        done = await client.request(
            "POST",
            records,
            {**named, "content-type": "application/json", "svc-request-token": "fed"},
            json.dumps({"records": [trim]}).encode(),
        )
        assert done.status == 200, done
        large = json.dumps({"records": [{"body": "A" * 400_000}]}).encode()
        token = {**named, "content-type": "application/json", "svc-request-token": "again"}
        for _ in range(2):
            done = await client.request("POST", records, token, large)
            assert done.status == 200, done


async def wake(url: str) -> None:
    """Ask the idle basin for something whenever it has had the time to rest, and the other one for
    its first records, which are read from the disk once they have gone from memory."""
    first = f"/v1/streams/{STREAM}/records?seq_num=0&count=5"
    async with HttpClient(url) as client:
        while True:
            await asyncio.sleep(WAKE_S)
            await client.request("GET", f"/v1/streams/{STREAM}/records/tail", {"svc-basin": IDLE})
            await client.request("GET", first, {"svc-basin": BASIN})


def test_every_metric_is_fed(tmp_path: Path) -> None:
    """A cluster is appended to, read, refused and scrubbed, and a node is killed and comes back.
    What has not moved then on any page has a test of its own that sees it move."""
    environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(SETTINGS)}

    async def main() -> set[str]:
        async with running(tmp_path / "cluster", environment=environment) as cluster:
            await set_up(cluster.url, BASIN, [STREAM, "stream-0", "stream-1"])
            await set_up(cluster.url, IDLE, [STREAM])
            load = Load(cluster.url, BASIN, writers=2)
            load.start()
            await load.acknowledged(30)
            await work(cluster.url)
            found = await fed(cluster)
            cluster.kill_node(await cluster.wait_leader(BASIN), signal.SIGKILL)
            await load.acknowledged(30, 60.0)
            wanted = set(declared().values()) - IN_TESTS.keys() - IN_ALERTS.keys() - UNSEEN
            end = SystemClock().monotonic() + FED_S
            await cluster.wait_ready(60.0)
            waking = asyncio.create_task(wake(cluster.url))
            while wanted - found and SystemClock().monotonic() < end:
                found |= await fed(cluster)
                await asyncio.sleep(0.02)
            waking.cancel()
            await load.stop()
            return wanted - found

    unfed = sorted(asyncio.run(main()))
    assert not unfed, " ".join(unfed)


def test_what_faults_alone_feed_is_seen_to_move() -> None:
    """Each in the test that is named, which is there and speaks of it, or by an alert that is fired
    for real and asks for it."""
    attributes = {name: attribute for attribute, name in declared().items()}
    for name, where in IN_TESTS.items():
        text = (ROOT / "tests" / where).read_text()
        assert name in text or f".{attributes[name]}" in text, (name, where)
    asked = {rule["alert"]: rule["expr"] for rule in alerts()}
    for name, alert in IN_ALERTS.items():
        assert alert in FIRED and name in asked[alert], (name, alert)
    assert attributes.keys() >= UNSEEN
    assert len(UNSEEN) <= UNSEEN_MAX
