"""Three hosts, bootstrapped from files as docs/operations/hosts.md says: own addresses, TLS between
them, a gateway that asks for tokens, and one host lost."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.bootstrap import bootstrap
from svc_cluster.cli.http_client import ConnectionLostError, HttpClient
from tests.chaos.namespaces import unavailable
from tests.integration.hosts import Hosts

READY_S = 120.0
NODES = (1, 2, 3)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    why = unavailable()
    if why is not None:
        pytest.skip(f"no network namespaces here ({why}): three hosts are not tried")
    made = Hosts(len(NODES))
    try:
        try:
            made.make()
        except subprocess.CalledProcessError as refused:
            pytest.skip(f"no bridge can be made here ({refused.stderr!r})")
        yield made
    finally:
        made.close()


def write_files(hosts: Hosts, directory: Path) -> dict[str, Path]:
    """What the document puts on each host, in one place: the settings' files by process."""
    cluster = directory / "cluster"
    bootstrap(cluster, directory / "ca", NODES, [hosts.address(1)])
    common: dict[str, Any] = {
        "cluster_id": "production",
        "nodes": {str(node): f"{hosts.address(node)}:7000" for node in NODES},
        "secret_file": str(cluster / "cluster.secret"),
        "log_format": "text",
    }

    def peer_tls(name: str) -> dict[str, str]:
        place = cluster / name
        return {
            "peer_tls_cert": str(place / "tls.crt"),
            "peer_tls_key": str(place / "tls.key"),
            "peer_tls_ca": str(place / "ca.crt"),
        }

    out = {}
    for node in NODES:
        settings = {
            **common,
            **peer_tls(f"node-{node}"),
            "node_id": node,
            "data_dir": str(directory / f"data-{node}"),
            "root_token_file": str(cluster / "root-token"),
            "admin_address": f"{hosts.address(node)}:9090",
        }
        out[f"node-{node}"] = directory / f"node-{node}.yaml"
        out[f"node-{node}"].write_text(yaml.safe_dump(settings))
    gateway = {
        **common,
        **peer_tls("gateway"),
        "host": "0.0.0.0",
        "port": 443,
        "tls_cert": str(cluster / "public" / "tls.crt"),
        "tls_key": str(cluster / "public" / "tls.key"),
    }
    out["gateway"] = directory / "gateway.yaml"
    out["gateway"].write_text(yaml.safe_dump(gateway))
    return out


def test_three_hosts_serve_over_tls_and_outlive_one(hosts: Hosts, tmp_path: Path) -> None:
    """Nodes and a gateway from files; an append under a token is read back; kill -9 of a host's
    node, and the next append is acknowledged too; without a token nothing is."""
    files = write_files(hosts, tmp_path)
    nodes = {
        node: hosts.start(
            node, ["node", "--config", str(files[f"node-{node}"])], tmp_path / f"node-{node}.log"
        )
        for node in NODES
    }
    hosts.start(1, ["gateway", "--config", str(files["gateway"])], tmp_path / "gateway.log")
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca" / "ca.pem"))
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    url = f"https://{hosts.address(1)}:443"
    token = (tmp_path / "cluster" / "root-token").read_text().strip()

    async def call(method: str, path: str, body: bytes = b"", *, given: str | None = token) -> Any:
        """The answer's status and JSON, once the service says something final."""
        headers = {
            "content-type": "application/json",
            "svc-basin": "host-basin",
            "svc-format": "utf8",
        }
        if given is not None:
            headers["authorization"] = f"Bearer {given}"
        end = SystemClock().monotonic() + READY_S
        last = "nothing"
        while SystemClock().monotonic() < end:
            try:
                async with HttpClient(url, trust) as client:
                    answer = await client.request(method, path, headers, body, timeout_s=10.0)
                if answer.status < 500 and answer.status != 408:
                    return answer.status, answer.json()
                last = f"{answer.status} {answer.body!r}"
            except ConnectionLostError as lost:
                last = str(lost)
            await asyncio.sleep(0.2)
        logs = "\n".join(path.read_text()[-1500:] for path in sorted(tmp_path.glob("*.log")))
        raise AssertionError(f"{method} {path}: {last}\n{logs}")

    async def append(text: str) -> int:
        """Once, whatever became of earlier tries: a refusal by position says that it is in."""
        place = len(texts)
        body = b'{"records":[{"body":"%s"}],"match_seq_num":%d}' % (text.encode(), place)
        status, _ = await call("POST", "/v1/streams/s/records", body)
        texts.append(text)
        return int(status)

    texts: list[str] = []

    async def play() -> None:
        assert (await call("POST", "/v1/basins", b'{"basin":"host-basin"}'))[0] in (201, 409)
        assert (await call("POST", "/v1/streams", b'{"stream":"s"}'))[0] in (201, 409)
        assert await append("first") in (200, 412)
        nodes[3].send_signal(signal.SIGKILL)
        nodes[3].wait()
        for number in range(5):
            assert await append(f"after {number}") in (200, 412)
        status, batch = await call("GET", "/v1/streams/s/records?seq_num=0&count=100")
        assert status == 200
        assert [record["body"] for record in batch["records"]] == texts
        for given in (None, "svct_nothing"):
            status, _ = await call("GET", "/v1/basins", given=given)
            assert status == 401

    asyncio.run(play())
