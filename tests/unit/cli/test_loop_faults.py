"""What nobody waits for and fails: the loop goes on, and somebody hears of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.loop_faults import hear_loop_faults

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def _heard(new_loop: NewLoop, body: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """How many faults were counted while `body` ran to its end."""
    metrics = Metrics(process=True)

    async def main() -> None:
        hear_loop_faults(metrics)
        await body()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    counted = metrics.registry.get_sample_value("svc_loop_faults_total")
    assert counted is not None
    return counted


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def _fail() -> None:
    raise ZeroDivisionError("planted")


class _Breaks(asyncio.Protocol):
    """A protocol with a bug."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        _fail()


@LOOPS
def test_callbacks_that_fail_are_counted_and_told_once(
    new_loop: NewLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """Many of them are one line, with the first one's traceback; the loop runs on."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(50):
            loop.call_soon(_fail)
        reached = loop.create_future()
        loop.call_later(0.001, reached.set_result, None)
        await reached

    with caplog.at_level("INFO", logger="svc_cluster"):
        assert _heard(new_loop, body) == 50
    assert _lines(caplog) == [("ERROR", "callback_failed")]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@LOOPS
def test_a_bug_in_a_protocol_is_not_taken_for_the_networks(
    new_loop: NewLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop reports it with the connection, as it does a broken one."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Breaks, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x")
        assert await reader.read() == b"", "the loop has closed the connection"
        writer.close()
        server.close()

    with caplog.at_level("INFO", logger="svc_cluster"):
        assert _heard(new_loop, body) == 1
    assert _lines(caplog) == [("ERROR", "callback_failed")]


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionResetError(104, "reset"),
        ssl.SSLError(1, "application data after close notify"),
        EOFError(),
        BrokenPipeError(32, "broken pipe"),
    ],
)
def test_a_connection_that_broke_is_no_fault(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Not counted, and no person has to look; the same without a connection is a fault."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            loop.call_exception_handler(
                {"message": "Fatal error", "exception": fault, "transport": object()}
            )

    with caplog.at_level("INFO", logger="svc_cluster"):
        assert _heard(uvloop.new_event_loop, body) == 0
    assert _lines(caplog) == [("INFO", "connection_failed")]

    async def elsewhere() -> None:
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "a callback failed", "exception": fault})

    assert _heard(uvloop.new_event_loop, elsewhere) == 1
