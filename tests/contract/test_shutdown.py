"""Closing a listening gateway, on both event loops. These tests own their servers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.http.server import Server, serve
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    asyncio.new_event_loop,
    uvloop.new_event_loop,
]


async def start() -> tuple[GatewayApp, Server]:
    clock = SystemClock()
    backend = MemoryBackend(clock)
    await backend.create_basin("basin-0001", BasinConfig())
    await backend.create_stream("basin-0001", "s", NewStream())
    app = GatewayApp(backend, clock=clock, rng=random.Random(1), metrics=Metrics())
    return app, await serve(app, "127.0.0.1", 0)


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
        app, server = await start()
        port = server.port
        idle = await asyncio.open_connection("127.0.0.1", server.port)
        kept = await ask(server, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await kept[0].readuntil(b"\r\n\r\nOK")
        polling = await ask(server, READ % (b"?wait=1", b""))
        await asyncio.sleep(0.2)
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
