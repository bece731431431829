"""What tests of real processes have in common: clusters for fixtures, single nodes, their pages."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import ApiClient
from svc_cluster.lab.own_cluster import OwnCluster

READY_S: Final = 90.0
STOP_S: Final = 30.0


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test's coroutine on a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@contextmanager
def ready_cluster(directory: Path, *options: str) -> Iterator[OwnCluster]:
    """For a fixture of a whole module; its log is shown when it does not become ready."""
    own = OwnCluster(directory, options=options)
    own.start()
    try:
        asyncio.run(own.wait_ready(READY_S))
        yield own
    finally:
        own.end()


@contextmanager
def tls_cluster(directory: Path, basins: Sequence[str]) -> Iterator[OwnCluster]:
    """Three nodes and a gateway, all of it under TLS, with a stream `s` in each of these basins."""
    own = OwnCluster(directory, options=["--tls"])
    own.start()
    try:
        asyncio.run(_fill(own, basins))
        yield own
    finally:
        own.end()


async def _fill(own: OwnCluster, basins: Sequence[str]) -> None:
    end = SystemClock().monotonic() + READY_S
    while not (own.directory / "ca" / "ca.pem").exists():
        assert SystemClock().monotonic() < end, own.log_tail()
        await asyncio.sleep(0.05)
    api = ApiClient(f"https://127.0.0.1:{own.port}", trust(own))
    try:
        for basin in basins:
            await api.make(SystemClock(), basin, None, READY_S)
            await api.make(SystemClock(), basin, "s", READY_S)
    finally:
        api.close()


def trust(own: OwnCluster) -> ssl.SSLContext:
    """A client's view, as strict as Python can be."""
    context = ssl.create_default_context(cafile=str(own.directory / "ca" / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


async def page(port: int, path: str) -> tuple[int, str]:
    """Status and text; 0 while nobody answers."""
    try:
        async with HttpClient(f"http://127.0.0.1:{port}") as client:
            answer = await client.request("GET", path, timeout_s=5.0)
    except ConnectionLostError as lost:
        return 0, str(lost)
    return answer.status, answer.body.decode()


async def samples(port: int) -> dict[str, float]:
    """What a page of metrics has, by name and labels; empty while nobody answers."""
    status, text = await page(port, "/metrics")
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines} if status == 200 else {}


async def flushed_nodes(ports: Iterable[int]) -> None:
    """Return once what these nodes have applied by now is on their disks: of the next two flushes
    that end, the second has begun since. Raises AssertionError."""
    wanted: dict[int, float] = {}
    end = SystemClock().monotonic() + READY_S
    for port in [*ports]:
        while (count := await _flushes(port)) < wanted.setdefault(port, count + 2):
            assert SystemClock().monotonic() < end, f"{port}: {count} flushes, not {wanted[port]}"
            await asyncio.sleep(0.05)


async def _flushes(port: int) -> float:
    text = await wait_page(port, "/metrics", 200, "svc_store_flushes_total")
    (line,) = [line for line in text.split("\n") if line.startswith("svc_store_flushes_total ")]
    return float(line.rpartition(" ")[2])


async def wait_page(port: int, path: str, status: int, *words: str) -> str:
    """The page, once it has this status and these words. Raises AssertionError."""
    end = SystemClock().monotonic() + READY_S
    seen: tuple[int, str] = (0, "")
    while SystemClock().monotonic() < end:
        seen = await page(port, path)
        if seen[0] == status and all(word in seen[1] for word in words):
            return seen[1]
        await asyncio.sleep(0.1)
    raise AssertionError(f"{port}{path}: {seen[0]} {seen[1][-3000:]}, wanted {status} {words}")
