"""Links over grpc.aio: one long-lived stream per direction of talk, bytes in, bytes out.

Thin on purpose: it connects, reconnects with back-off, and reports; nothing is decided here.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from svc_cluster.base.log import get_logger
from svc_cluster.link.session import LinkEvents, LinkLostError
from svc_cluster.link.tls import CertificateError, PeerTls, open_channel

log = get_logger("link")

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 1.0

CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.max_pings_without_data", 0),
    # the server's side of the same bargain: its default policy ends links that ping this often
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
)


class GrpcLink:
    """A two-way stream of byte messages to one address, kept up until closed."""

    def __init__(
        self,
        *,
        address: str,
        method: str,
        metadata: Callable[[], tuple[tuple[str, str], ...]],
        events: LinkEvents,
        rng: random.Random,
        tls: PeerTls | None,
        server_name: str,
    ) -> None:
        """`server_name` is what the certificate of the other side has to carry, under `tls`."""
        self._address = address
        self._tls = tls
        self._server_name = server_name
        self._method = method
        self._metadata = metadata
        self._events = events
        self._rng = rng
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._up = False
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"link {method} {address}"
        )

    def send(self, data: bytes) -> None:
        if not self._up or self._queued_bytes + len(data) > QUEUE_BYTES_MAX:
            raise LinkLostError(sent=False)
        self._queue.append(data)
        self._queued_bytes += len(data)
        self._wake.set()

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        delay = RECONNECT_SECONDS_MIN
        while True:
            started = asyncio.get_running_loop().time()
            try:
                await self._converse()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, EOFError) as cause:
                log.debug("link_ended", address=self._address, cause=str(cause)[:200])
            except CertificateError as cause:
                log.error("certificate_unusable", address=self._address, reason=str(cause))
            finally:
                if self._up:
                    self._up = False
                    self._events.link_down()
                self._queue.clear()
                self._queued_bytes = 0
            if asyncio.get_running_loop().time() - started > RECONNECT_SECONDS_MAX:
                delay = RECONNECT_SECONDS_MIN
            await asyncio.sleep(delay * (0.5 + self._rng.random()))
            delay = min(delay * 2, RECONNECT_SECONDS_MAX)

    async def _converse(self) -> None:
        async with open_channel(
            self._address, CHANNEL_OPTIONS, self._tls, self._server_name
        ) as channel:
            await channel.channel_ready()
            call = channel.stream_stream(self._method)(metadata=self._metadata())
            # the server sends its headers at once, or refuses the handshake
            await call.initial_metadata()
            if call.done():
                raise EOFError
            self._up = True
            self._events.link_up()
            writer = asyncio.get_running_loop().create_task(self._write(call), name="link writer")
            try:
                while True:
                    data = await call.read()
                    if data is grpc.aio.EOF:
                        return
                    self._events.message(data)
            finally:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)
                call.cancel()

    async def _write(self, call: Any) -> None:
        while True:
            while self._queue:
                data = self._queue.popleft()
                self._queued_bytes -= len(data)
                await call.write(data)
            self._wake.clear()
            await self._wake.wait()
