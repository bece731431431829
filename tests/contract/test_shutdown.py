"""Closing a listening gateway, on both event loops. These tests own their servers.

Rules: contract 14.3.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.http.server import Server, serve
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend

SECONDS = 30.0
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    asyncio.new_event_loop,
    uvloop.new_event_loop,
]


async def start(
    tls: ssl.SSLContext | None = None, metrics: Metrics | None = None
) -> tuple[GatewayApp, Server]:
    clock = SystemClock()
    backend = MemoryBackend(clock)
    await backend.create_basin("basin-0001", BasinConfig())
    await backend.create_stream("basin-0001", "s", NewStream())
    app = GatewayApp(backend, clock=clock, rng=random.Random(1), metrics=metrics or Metrics())
    seconds = None if tls is None else HANDSHAKE_SECONDS
    return app, await serve(app, "127.0.0.1", 0, tls=tls, header_seconds=seconds)


async def begun(metrics: Metrics) -> None:
    """Return once a request is being worked on."""

    def count() -> float:
        families = metrics.http_requests_in_flight.collect()
        return sum(sample.value for family in families for sample in family.samples)

    async with asyncio.timeout(SECONDS):
        while not count():
            await asyncio.sleep(0.01)


async def ask(server: Server, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    await writer.drain()
    return reader, writer


def run(factory: Callable[[], asyncio.AbstractEventLoop], main: Any) -> None:
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


READ = b"GET /v1/basins/basin-0001/streams/s/read%b HTTP/1.1\r\nhost: localhost\r\n%b\r\n"


@pytest.mark.parametrize("factory", LOOPS)
def test_a_request_in_progress_is_answered_before_the_server_ends(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """A long poll of a second outlives the beginning of the shutdown; its connection then ends."""

    async def main() -> None:
        metrics = Metrics()
        app, server = await start(metrics=metrics)
        port = server.port
        idle = await asyncio.open_connection("127.0.0.1", server.port)
        kept = await ask(server, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await kept[0].readuntil(b"\r\n\r\nOK")
        polling = await ask(server, READ % (b"?wait=1", b""))
        await begun(metrics)
        app.drain()
        await server.close(5)
        answer = await polling[0].read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert await kept[0].read() == b""
        for _, writer in (idle, kept, polling):
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    run(factory, main)


@pytest.mark.parametrize("factory", LOOPS)
def test_a_stream_is_cut_off_when_the_grace_is_over(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Without draining a follower would never end by itself; its session is closed."""

    async def main() -> None:
        _, server = await start()
        following = await ask(server, READ % (b"", b"accept: text/event-stream\r\n"))
        await following[0].readuntil(b"event: ping")
        await asyncio.wait_for(server.close(0.1), 5)
        rest = await following[0].read()
        assert b"[DONE]" not in rest
        following[1].close()

    run(factory, main)


HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def wait_refused(port: int) -> None:
    """Until nobody listens any more."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("factory", LOOPS)
def test_a_server_that_leaves_answers_on_the_connections_that_it_has(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """New connections are refused. A balancer's idle one is served once more and told to end, and
    when that was the last one the server need not wait any longer. One that is connected but was
    not accepted when it began is served too, with the request that has arrived on it."""

    async def main() -> None:
        _, server = await start()
        port = server.port
        idle = await ask(server, HEALTH)
        await idle[0].readuntil(b"\r\n\r\nOK")
        with socket.create_connection(("127.0.0.1", port)) as waiting:
            waiting.sendall(HEALTH)  # the loop has had no turn to accept it
            leaving = asyncio.ensure_future(server.leave(600))
            await wait_refused(port)
            waiting.settimeout(30)
            answer = await asyncio.to_thread(waiting.makefile("rb").read)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert not leaving.done(), "the idle connection is one that a request may come on"
        idle[1].write(HEALTH)
        answer = await asyncio.wait_for(idle[0].read(), 30)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        await asyncio.wait_for(leaving, 30)
        idle[1].close()
        await server.close(5)

    run(factory, main)


def test_a_server_that_leaves_waits_so_long_for_idle_connections_and_no_longer() -> None:
    """The connection that nothing comes on is closed after that."""

    async def main() -> None:
        _, server = await start()
        idle = await ask(server, HEALTH)
        await idle[0].readuntil(b"\r\n\r\nOK")
        await asyncio.wait_for(server.leave(0.1), 30)
        await server.close(5)
        assert await idle[0].read() == b""
        idle[1].close()

    run(asyncio.new_event_loop, main)


SILENT = 40
HANDSHAKE_SECONDS = 300.0
"""For longer than a test has."""


def tls_contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Those of a server and of its client."""
    issue(Authority.create(directory, utc_now), ["127.0.0.1"], directory)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return ours, ssl.create_default_context(cafile=str(directory / "ca.crt"))


def health_under_tls(waiting: socket.socket, theirs: ssl.SSLContext) -> bytes:
    waiting.settimeout(30)
    with theirs.wrap_socket(waiting, server_hostname="127.0.0.1") as sock:
        sock.sendall(HEALTH)
        return sock.makefile("rb").read()


@pytest.mark.parametrize("factory", LOOPS)
def test_silent_connections_under_tls_keep_no_other_waiting(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Many that waited to be accepted when the server began to leave say nothing, for as long as
    they may. An honest one behind them is served meanwhile."""
    ours, theirs = tls_contexts(tmp_path)

    async def main() -> None:
        _, server = await start(ours)
        address = ("127.0.0.1", server.port)
        silent = [socket.create_connection(address) for _ in range(SILENT)]
        honest = socket.create_connection(address)  # the loop has had no turn to accept any
        leaving = asyncio.ensure_future(server.leave(600))
        answer = await asyncio.to_thread(health_under_tls, honest, theirs)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert not leaving.done(), "the silent ones may begin yet"
        for sock in silent:
            sock.close()
        await asyncio.wait_for(leaving, 30)
        await server.close(5)

    run(factory, main)


@pytest.mark.parametrize("factory", LOOPS)
def test_silent_connections_under_tls_hold_a_leaving_server_no_longer_than_it_was_given(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """They are cut off then, with minutes left for their handshakes."""
    ours, _ = tls_contexts(tmp_path)

    async def main() -> None:
        _, server = await start(ours)
        address = ("127.0.0.1", server.port)
        silent = [socket.create_connection(address) for _ in range(SILENT)]
        async with asyncio.timeout(
            30
        ):  # in this task: another would give the loop a turn to accept
            await server.leave(0.1)
        for sock in silent:
            sock.settimeout(30)
            assert await asyncio.to_thread(is_cut_off, sock)
            sock.close()
        await server.close(5)

    run(factory, main)


def is_cut_off(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
