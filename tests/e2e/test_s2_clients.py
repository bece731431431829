"""S2's official clients, unmodified, against three nodes."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import running

CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"
SCRIPT = Path(__file__).parent / "clients" / "s2_python.py"
TOKENS_SCRIPT = Path(__file__).parent / "clients" / "s2_python_tokens.py"


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_python_client_is_at_home(tmp_path: Path) -> None:
    """Basins, streams, unary and session appends and reads, with every compression and cipher, over
    HTTP/2."""

    async def main() -> str:
        async with running(tmp_path / "cluster") as cluster:
            client = await asyncio.create_subprocess_exec(
                str(CLIENTS),
                str(SCRIPT),
                cluster.url,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await client.communicate()
            assert client.returncode == 0, said.decode()
            return said.decode()

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
            root = await _root_token(cluster.log_path)
            client = await asyncio.create_subprocess_exec(
                str(CLIENTS),
                str(TOKENS_SCRIPT),
                cluster.url,
                root,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await client.communicate()
            assert client.returncode == 0, said.decode()
            return said.decode()

    said = asyncio.run(main())
    for step in ("access tokens", "a tenant behind a prefix", "no valid token"):
        assert f"{step}: ok" in said


async def _root_token(log: Path) -> str:
    """As it is shown on the terminal at the first start."""
    async with asyncio.timeout(60):
        while not (found := re.search(r"S2_ACCESS_TOKEN=(svct_\S+)", log.read_text())):
            await asyncio.sleep(0.05)
    return found[1]
