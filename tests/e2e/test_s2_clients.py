"""S2's official clients, unmodified, against three nodes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import running

CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"
SCRIPT = Path(__file__).parent / "clients" / "s2_python.py"


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_python_client_is_at_home(tmp_path: Path) -> None:
    """Basins, streams, unary and session appends and reads, with every compression, over HTTP/2."""

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
    for compression in ("none", "zstd", "gzip"):
        for step in ("unary", "sessions", "refused"):
            assert f"{step} with compression {compression}: ok" in said
