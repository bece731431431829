"""TLS for clients and between the processes: a whole cluster of real processes under it, and
callers of every wrong kind at a node's port, none of whom gets a word in."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import read_certificate, utc_now
from svc_cluster.cli.processes.tls_files import PublicCertificate
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.link.handshake import Identity
from svc_cluster.link.tls import PeerTls
from tests.integration.processes import READY_S, in_loop, tls_cluster, trust
from tests.integration.wrong_callers import Caller, is_let_in, let_in, wrong_callers

BASIN = "secure-basin"
METRIC = "svc_tls_cert_expiry_timestamp_seconds"
ATTEMPTS = int(os.environ.get("TLS_ATTEMPTS", "40"))
"""Wrong callers in all; the suite's number is small because each is a handshake."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three nodes and a gateway, all of it under TLS."""
    with tls_cluster(tmp_path_factory.mktemp("tls") / "data", [BASIN]) as own:
        yield own


@in_loop
async def test_records_travel_under_tls_from_client_to_quorum(cluster: OwnCluster) -> None:
    """An append and a read over HTTPS, through gateway and nodes whose own talk is under TLS."""
    api = ApiClient(f"https://127.0.0.1:{cluster.port}", trust(cluster))
    try:
        done = await api.insist(
            SystemClock(),
            lambda: api.append(BASIN, "s", [AppendRecord(b"over tls")], match_seq_num=0),
            accept=frozenset({200}),
            deadline_s=READY_S,
        )
        assert done.json()["tail"]["seq_num"] == 1
        answer = await api.read(BASIN, "s", "seq_num=0&count=10")
        assert [record.body for record in decode_batch(answer.body)] == [b"over tls"]
    finally:
        api.close()


@pytest.mark.parametrize(("offered", "spoken"), [(["h2"], "h2"), (["http/1.1"], "http/1.1")])
@in_loop
async def test_the_protocol_is_agreed_on_by_alpn(
    cluster: OwnCluster, offered: list[str], spoken: str
) -> None:
    """HTTP/2 or HTTP/1.1, whichever the client offers; the server's first bytes are of it."""
    context = trust(cluster)
    context.set_alpn_protocols(offered)
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port, ssl=context)
    try:
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == spoken
        if spoken == "h2":
            settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
            head = await asyncio.wait_for(reader.readexactly(9), READY_S)
            assert head[3] == 4, "a server's first frame is SETTINGS"
        else:
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await asyncio.wait_for(reader.readline(), READY_S)).startswith(b"HTTP/1.1 200")
    finally:
        writer.transport.abort()  # TLS would wait for a farewell


@in_loop
async def test_a_client_in_clear_text_gets_no_answer(cluster: OwnCluster) -> None:
    """The port speaks TLS alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    try:
        got = await asyncio.wait_for(reader.read(100), READY_S)
    except ConnectionError:
        got = b""
    finally:
        writer.transport.abort()  # TLS would wait for a farewell
    assert not got.startswith(b"HTTP/"), got


@in_loop
async def test_no_caller_without_a_certificate_of_its_own_gets_in(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """The cluster's secret alone opens nothing: each is refused before a message is taken, again
    and again, and a caller with the right certificate is not."""
    secret = (cluster.directory / "cluster.secret").read_bytes().strip()
    settings = yaml.safe_load((cluster.directory / "node-1.yaml").read_text())
    address = f"127.0.0.1:{cluster.node(1)['rpc_port']}"
    callers = wrong_callers(cluster.directory / "ca", settings["cluster_id"], tmp_path)
    assert await let_in([(1, address)], secret, callers, ATTEMPTS) == []
    place = cluster.directory / "certificates" / "gateway"
    tls = PeerTls(place / "tls.crt", place / "tls.key", place / "ca.crt")
    identity = Identity(settings["cluster_id"], "gateway", NodeId(0), "f" * 32)
    assert await is_let_in(address, 1, secret, Caller("right", tls, identity))


@in_loop
async def test_pages_of_metrics_tell_when_certificates_expire(cluster: OwnCluster) -> None:
    """Of each node's peer port, and of both of the gateway's listeners, as the files have it."""

    async def expiries(client: HttpClient) -> dict[str, float]:
        text = (await client.request("GET", "/metrics", timeout_s=READY_S)).body.decode()
        found = re.findall(rf'^{METRIC}{{listener="(\w+)"}} (\S+)$', text, re.MULTILINE)
        return {listener: float(value) for listener, value in found}

    def expected(name: str) -> float:
        certificate = read_certificate(cluster.directory / "certificates" / name / "tls.crt")
        return certificate.not_valid_after_utc.timestamp()

    async with HttpClient(f"http://127.0.0.1:{cluster.node(1)['admin_port']}") as client:
        assert await expiries(client) == {"peer": expected("node-1")}
    async with HttpClient(f"https://127.0.0.1:{cluster.port}", trust(cluster)) as client:
        assert await expiries(client) == {
            "peer": expected("gateway"),
            "public": expected("public"),
        }


@in_loop
async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    """New files are shown from the next handshake on; half-written ones change nothing."""
    ca = Authority.create(tmp_path / "ca", utc_now)
    place = tmp_path / "public"
    issue(ca, ["localhost"], place)
    certificate = PublicCertificate(place / "tls.crt", place / "tls.key")
    server = await asyncio.start_server(
        lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context
    )
    port = server.sockets[0].getsockname()[1]

    async def shown() -> bytes:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca" / "ca.pem"))
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        try:
            der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()  # TLS would wait for a farewell
        return der

    async with server:
        first = await shown()
        assert not certificate.look()
        issue(ca, ["localhost"], tmp_path / "next")
        (place / "tls.crt").write_bytes((tmp_path / "next" / "tls.crt").read_bytes())
        assert not certificate.look(), "a certificate without its key"
        assert await shown() == first
        (place / "tls.key").write_bytes((tmp_path / "next" / "tls.key").read_bytes())
        assert certificate.look()
        assert await shown() == ssl.PEM_cert_to_DER_cert((place / "tls.crt").read_text())
        assert await shown() != first
