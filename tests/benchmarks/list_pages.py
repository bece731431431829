"""What a page of a long list costs: `python -m tests.benchmarks.list_pages`.

Three nodes and a gateway of its own with STREAMS streams in a basin and TOKENS access tokens, then
PAGES pages of 1,000 and as many of 10 at random places of each list, one after another. Prints a
JSON object for each list and size of page, with the time of a page in milliseconds as its client
sees it, and ends with status 1 if the 99th percentile of any of them is above 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.own_cluster import OwnCluster

BASIN: Final = "list-pages"
P99_MS_MAX: Final = 50.0
SIZES: Final = (1_000, 10)
CREATED_AT_ONCE: Final = 64
_BASIN_HEADER: Final = {"svc-basin": BASIN}

Ask = Callable[[int], Awaitable[None]]


async def repeat(count: int, ask: Ask) -> None:
    """`ask` each number below `count`, many at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await ask(number)

    await asyncio.gather(*(worker() for _ in range(CREATED_AT_ONCE)))


async def fill(session: aiohttp.ClientSession, streams: int, tokens: int) -> None:
    async def post(path: str, body: dict[str, Any]) -> None:
        async with session.post(path, json=body, headers=_BASIN_HEADER) as answer:
            assert answer.status == 201, await answer.text()

    await post("/v1/basins", {"basin": BASIN})
    await repeat(streams, lambda number: post("/v1/streams", {"stream": f"s-{number:06}"}))
    scope = {"basins": {"prefix": "a"}, "streams": {"prefix": "b"}, "ops": ["read", "append"]}
    await repeat(
        tokens,
        lambda number: post("/v1/access-tokens", {"id": f"t-{number:06}", "scope": scope}),
    )


async def measure(
    session: aiohttp.ClientSession, path: str, member: str, total: int, limit: int, pages: int
) -> list[float]:
    """Milliseconds of each page, in order."""
    clock, rng = SystemClock(), random.Random(limit)
    letter = "s" if member == "streams" else "t"
    found = []
    for _ in range(pages):
        behind = f"{letter}-{rng.randrange(max(1, total - limit)):06}"
        query = {"prefix": f"{letter}-", "start_after": behind, "limit": str(limit)}
        begun = clock.monotonic()
        async with session.get(path, params=query, headers=_BASIN_HEADER) as answer:
            body = await answer.read()
        found.append((clock.monotonic() - begun) * 1000)
        assert answer.status == 200
        assert len(json.loads(body)[member]) == min(limit, total - 1)
    return sorted(found)


async def main(options: argparse.Namespace) -> bool:
    within = True
    with tempfile.TemporaryDirectory() as directory:
        cluster = OwnCluster(Path(directory) / "cluster")
        cluster.start()
        try:
            await cluster.wait_ready(60.0)
            timeout = aiohttp.ClientTimeout(total=60)
            async with aiohttp.ClientSession(cluster.url, timeout=timeout) as session:
                await fill(session, options.streams, options.tokens)
                for path, member, total in (
                    ("/v1/streams", "streams", options.streams),
                    ("/v1/access-tokens", "access_tokens", options.tokens),
                ):
                    for limit in SIZES:
                        times = await measure(session, path, member, total, limit, options.pages)
                        p99 = times[len(times) * 99 // 100]
                        within &= p99 <= P99_MS_MAX
                        row = {
                            "list": member,
                            "of": total,
                            "page": limit,
                            "p50_ms": round(times[len(times) // 2], 2),
                            "p99_ms": round(p99, 2),
                            "max_ms": round(times[-1], 2),
                        }
                        print(json.dumps(row), flush=True)
        finally:
            cluster.stop()
    return within


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=20_000, help="as many as a cluster takes")
    parser.add_argument("--pages", type=int, default=500)
    sys.exit(0 if asyncio.run(main(parser.parse_args())) else 1)
