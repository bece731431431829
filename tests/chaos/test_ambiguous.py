"""A short run of retries after kill -9: enough to know that the long run would run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.chaos.ambiguous import run

SEED = 3


def test_retries_after_kills_neither_duplicate_nor_lose(tmp_path: Path) -> None:
    """Gateways and a leader are killed with writes under way; every write is settled by retries
    under its request token, once."""
    result = asyncio.run(run(tmp_path / "cluster", 25, seed=SEED, clients=40, seconds=120.0))
    print(result.fields())
    assert result.ok, result.violations
    assert result.ambiguous >= 25
