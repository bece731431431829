"""An application of a few paths that exercise what carries requests and responses, on a server of
its own in this process and on the event loop that production uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvloop

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ErrorCode, MalformedError, ServiceError
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.error_answers import error_response, refused
from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.message import (
    BodyBrokenError,
    BodyTimeoutError,
    Request,
    Response,
    text_response,
)
from svc_cluster.http.server import Server, serve

DEADLINE = 60.0
"""Far beyond what anything here takes on a loaded machine."""


class ScriptedApp:
    """`ended` says how each request ended, in order: by itself, or cancelled."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.requests: list[Request] = []
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.go = asyncio.Event()
        self.produced_bytes = 0

    def refuse(self, error: ServiceError) -> Response:
        return refused(error)

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            self.ended.put_nowait("cancelled")
            raise
        if isinstance(response.body, bytes):
            self.ended.put_nowait("done")
        return response

    async def _answer(self, request: Request) -> Response:
        match request.raw_path:
            case "/echo":
                return Response(200, [("x-kind", "echo")], self._told(self._echo(request)))
            case "/first":
                return Response(200, [], self._told(self._first(request)))
            case "/hold":
                return Response(200, [], self._told(self._hold()))
            case "/endless":
                return Response(200, [], self._told(self._endless()))
            case "/wait":
                await self.go.wait()
                return text_response(200, "waited")
            case "/stall":
                await self.go.wait()
                return await self._length(request)
            case "/length":
                return await self._length(request)
            case "/refuse":
                error = MalformedError(ErrorCode.BAD_HEADER, "refused unread")
                response = error_response(error, Dialect.UNMARKED, is_write=True)
                response.close = True
                return response
            case "/empty":
                return Response(204)
            case _:
                return text_response(200, f"{request.method} {request.raw_path}")

    async def _length(self, request: Request) -> Response:
        try:
            return text_response(200, str(sum([len(x) async for x in request.body.chunks()])))
        except (BodyBrokenError, BodyTimeoutError) as cause:
            error = MalformedError(ErrorCode.BAD_HEADER, type(cause).__name__)
            return error_response(error, Dialect.UNMARKED, is_write=True)

    async def _echo(self, request: Request) -> AsyncIterator[bytes]:
        async for piece in request.body.chunks(idle_seconds=None):
            yield piece
        yield b"end"

    async def _first(self, request: Request) -> AsyncIterator[bytes]:
        """Ends its answer at the first piece of a body that goes on."""
        async for piece in request.body.chunks():
            yield piece
            return

    async def _hold(self) -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await self.go.wait()

    async def _endless(self) -> AsyncIterator[bytes]:
        while True:
            self.produced_bytes += 100_000
            yield b"x" * 100_000

    async def _told(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        how = "closed"
        try:
            async for piece in pieces:
                yield piece
            how = "done"
        except asyncio.CancelledError:
            how = "cancelled"
            raise
        finally:
            self.ended.put_nowait(how)

    async def next_end(self) -> str:
        return await asyncio.wait_for(self.ended.get(), DEADLINE)


class _Errors(logging.Handler):
    """Nothing that a client does may make the server log an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def run_with_server(
    main: Callable[[ScriptedApp, Server], Awaitable[Any]],
    *,
    limits: TimeLimits | None = None,
    **options: Any,
) -> None:
    """Run `main` beside a server, which is closed after it and has logged no error."""

    async def body() -> None:
        app = ScriptedApp()
        server = await serve(app, "127.0.0.1", 0, limits=limits, **options)
        try:
            async with asyncio.timeout(2 * DEADLINE):
                await main(app, server)
        finally:
            app.go.set()
            await server.close(0.1)

    errors = _Errors()
    loggers = [logging.getLogger(name) for name in ("svc_cluster", "asyncio")]
    for logger in loggers:  # the second tells what callbacks of the event loop have raised
        logger.addHandler(errors)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(body())
    finally:
        for logger in loggers:
            logger.removeHandler(errors)
    assert errors.lines == []


class Peer:
    """What a blocking client, in a thread of its own, sees of the server beside it."""

    def __init__(self, app: ScriptedApp, server: Server) -> None:
        self.app = app
        self.server = server
        self.port = server.port
        self._loop = asyncio.get_running_loop()

    def next_end(self) -> str:
        """How the next request ended."""
        return asyncio.run_coroutine_threadsafe(self.app.next_end(), self._loop).result()

    def go(self) -> None:
        """Let `/wait` and `/stall` go on."""
        self._loop.call_soon_threadsafe(self.app.go.set)

    def stop(self) -> None:
        """Begin to close the server, with time for what is under way."""
        asyncio.run_coroutine_threadsafe(self.server.close(DEADLINE), self._loop)


def run_client(script: Callable[[Peer], None], **options: Any) -> None:
    """Run a blocking script beside a server."""

    async def main(app: ScriptedApp, server: Server) -> None:
        await asyncio.to_thread(script, Peer(app, server))

    run_with_server(main, **options)
