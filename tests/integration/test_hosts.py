"""Three hosts, bootstrapped from files as docs/operations/hosts.md says: own addresses, TLS between
them, a gateway that asks for tokens, and one host lost."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.authority import Authority, certificate_names, issue
from svc_cluster.cli.admin.bootstrap import bootstrap
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.settings_errors import EXIT_CONFIGURATION, EXIT_CREDENTIAL
from tests.chaos.namespaces import unavailable
from tests.integration.hosts import Hosts
from tests.integration.wrong_callers import let_in, wrong_callers

READY_S = 120.0
NODES = (1, 2, 3)
ATTEMPTS = int(os.environ.get("TLS_ATTEMPTS", "28"))
"""Wrong callers in all; the suite's number is small because each is a handshake."""


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
        "log_format": "text",
    }

    def peer_tls(name: str) -> dict[str, str]:
        place = cluster / name
        return {
            "secret_file": str(place / "cluster.secret"),
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
            "root_token_file": str(cluster / f"node-{node}" / "root-token"),
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

    async def known() -> None:
        """Return once the root token of the file is in the catalog, which takes a leader."""
        end = SystemClock().monotonic() + READY_S
        while (await call("GET", "/v1/basins"))[0] == 401:
            assert SystemClock().monotonic() < end, "the root token is not taken"
            await asyncio.sleep(0.2)

    async def play() -> None:
        await known()
        assert (await call("POST", "/v1/basins", b'{"basin":"host-basin"}'))[0] in (201, 409)
        assert (await call("POST", "/v1/streams", b'{"stream":"s"}'))[0] in (201, 409)
        assert await append("first") in (200, 412)
        nodes[3].kill()
        for number in range(5):
            assert await append(f"after {number}") in (200, 412)
        status, batch = await call("GET", "/v1/streams/s/records?seq_num=0&count=100")
        assert status == 200
        assert [record["body"] for record in batch["records"]] == texts
        for given in (None, "svct_nothing"):
            status, _ = await call("GET", "/v1/basins", given=given)
            assert status == 401

    asyncio.run(play())


async def wait_page(url: str, *words: str) -> str:
    """A page of a node's admin listener, once it has these words."""
    end = SystemClock().monotonic() + READY_S
    text = "nothing"
    while SystemClock().monotonic() < end:
        try:
            async with HttpClient(url) as client:
                answer = await client.request("GET", "/readyz?verbose", timeout_s=10.0)
                text = answer.body.decode()
                answer = await client.request("GET", "/metrics", timeout_s=10.0)
                text += answer.body.decode()
        except ConnectionLostError as lost:
            text = str(lost)
        if all(word in text for word in words):
            return text
        await asyncio.sleep(0.2)
    raise AssertionError(f"{url}: {text[:3000]}")


def impostor(files: dict[str, Path], tmp_path: Path, kind: str) -> Path:
    """The settings of host 3 with what somebody has who is not of this cluster."""
    settings = yaml.safe_load(files["node-3"].read_text())
    place = tmp_path / kind
    keys = ("peer_tls_cert", "peer_tls_key", "peer_tls_ca")
    if kind == "plain text":
        for key in keys:
            del settings[key]
    else:
        ca, names, now = tmp_path / "ca", certificate_names([3]), utc_now
        if kind == "another CA":
            ca = tmp_path / "other-ca"
            Authority.create(ca, utc_now)
        if kind == "expired":
            now = long_ago
        if kind == "wrong name":
            names = certificate_names([2])
        issue(Authority(ca, now), names, place, days=1)
        files_of = ("tls.crt", "tls.key", "ca.crt")
        settings |= {key: str(place / name) for key, name in zip(keys, files_of, strict=True)}
    settings["data_dir"] = str(tmp_path / f"data of {kind}")
    path = tmp_path / f"{kind}.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def long_ago() -> datetime.datetime:
    return utc_now() - datetime.timedelta(days=10)


def test_hosts_that_are_not_of_the_cluster_are_refused(hosts: Hosts, tmp_path: Path) -> None:
    """On host 3, in the place of its node, once the cluster is formed with that: expired, wrong
    name and plain text do not even start;
    another CA starts, is refused by both others and never has a part; then callers of every wrong
    kind at the ports of both, none of whom gets in; then the right node 3, which does."""
    files = write_files(hosts, tmp_path)
    nodes = {
        node: hosts.start(
            node, ["node", "--config", str(files[f"node-{node}"])], tmp_path / f"node-{node}.log"
        )
        for node in NODES
    }
    admin = {node: f"http://{hosts.address(node)}:9090" for node in NODES}

    async def formed() -> None:
        for node in NODES:
            await wait_page(admin[node], "[+]registered")

    asyncio.run(formed())
    nodes[3].stop()
    for kind, status in (
        ("expired", EXIT_CREDENTIAL),
        ("wrong name", EXIT_CREDENTIAL),
        ("plain text", EXIT_CONFIGURATION),
    ):
        log = tmp_path / f"{kind}.log"
        started = hosts.start(3, ["node", "--config", str(impostor(files, tmp_path, kind))], log)
        assert started.end(READY_S) == status, log.read_text()
    foreign = impostor(files, tmp_path, "another CA")
    impostor_log = tmp_path / "another CA.log"
    stranger = hosts.start(3, ["node", "--config", str(foreign)], impostor_log)
    secret = (tmp_path / "cluster" / "cluster.secret").read_bytes().strip()
    callers = wrong_callers(tmp_path / "ca", "production", tmp_path / "callers")

    async def play() -> None:
        for node in (1, 2):
            await wait_page(
                admin[node],
                f'svc_raft_peer_active{{peer="{3 - node}"}} 1.0',
                'svc_raft_peer_active{peer="3"} 0.0',
                "[+]registered",
            )
        addresses = [(node, f"{hosts.address(node)}:7000") for node in (1, 2)]
        assert await let_in(addresses, secret, callers, ATTEMPTS) == []
        await wait_page(admin[3], "[-]registered", 'svc_raft_peer_active{peer="1"} 0.0')
        await asyncio.to_thread(stranger.stop)
        hosts.start(3, ["node", "--config", str(files["node-3"])], tmp_path / "node-3.log")
        await wait_page(admin[3], "[+]registered", 'svc_raft_peer_active{peer="1"} 1.0')

    asyncio.run(play())
