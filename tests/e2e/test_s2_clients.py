"""S2's official clients, unmodified, against three nodes."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from svc_cluster.http.client import HttpClient
from tests.e2e.cluster import running
from tests.log_lines import whole_text

CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"
SCRIPT = Path(__file__).parent / "clients" / "s2_python.py"
LIMITS_SCRIPT = Path(__file__).parent / "clients" / "s2_python_limits.py"
METRICS_SCRIPT = Path(__file__).parent / "clients" / "s2_python_metrics.py"
TOKENS_SCRIPT = Path(__file__).parent / "clients" / "s2_python_tokens.py"


async def output_of(script: Path, *arguments: str) -> str:
    """What a script of the official client says; it must end with 0."""
    client = await asyncio.create_subprocess_exec(
        str(CLIENTS),
        str(script),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await client.communicate()
    assert client.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_python_client_is_at_home(tmp_path: Path) -> None:
    """Basins, streams, unary and session appends and reads, with every compression and cipher, over
    HTTP/2."""

    async def main() -> str:
        async with running(tmp_path / "cluster") as cluster:
            return await output_of(SCRIPT, cluster.url)

    said = asyncio.run(main())
    for cipher in ("aegis-256", "aes-256-gcm"):
        assert f"encryption with {cipher}: ok" in said
    for compression in ("none", "zstd", "gzip"):
        for step in ("unary", "sessions", "refused"):
            assert f"{step} with compression {compression}: ok" in said


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_python_client_has_access_tokens(tmp_path: Path) -> None:
    """Issue, list and revoke, and a tenant behind a prefix, where requests need a token."""

    async def main() -> str:
        async with running(tmp_path / "cluster", options=["--auth"]) as cluster:
            root = await root_token(cluster.log_path)
            return await output_of(TOKENS_SCRIPT, cluster.url, root)

    said = asyncio.run(main())
    for step in ("access tokens", "a tenant behind a prefix", "no valid token"):
        assert f"{step}: ok" in said


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_python_client_is_told_what_was_used(tmp_path: Path) -> None:
    """All metric sets of account, basin and stream, with what was really appended and read."""

    async def main() -> str:
        async with running(tmp_path / "cluster") as cluster:
            return await output_of(METRICS_SCRIPT, cluster.url)

    said = asyncio.run(main())
    for step in ("account", "basin", "stream", "refusals"):
        assert f"{step}: ok" in said


async def root_token(log: Path) -> str:
    """As it is shown on the terminal at the first start."""
    async with asyncio.timeout(60):
        while not (found := re.search(r"S2_ACCESS_TOKEN=(svct_\S+)", whole_text(log))):
            await asyncio.sleep(0.05)
    return found[1]


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_python_client_comes_back_when_it_is_told_to(tmp_path: Path) -> None:
    """At a limit of ten requests a second its own retries carry every append through, once."""

    async def main() -> tuple[str, str]:
        environment = {"SVC_CLUSTER_ACCOUNT_REQUESTS_PER_SECOND": "10"}
        async with running(tmp_path / "cluster", nodes=1, environment=environment) as cluster:
            said = await output_of(LIMITS_SCRIPT, cluster.url)
            async with HttpClient(cluster.url) as http:
                metrics = await http.request("GET", "/metrics")
            return said, metrics.body.decode()

    said, metrics = asyncio.run(main())
    assert "appends at a limit" in said
    refused = re.search(
        r'^svc_rate_limited_total\{reason="account_requests"\} (\S+)$', metrics, re.MULTILINE
    )
    assert refused is not None
    assert float(refused[1]) > 0
