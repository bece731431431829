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

from svc_cluster.base.limits import MESSAGE_BYTES_MAX
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.batch import BatchError
from svc_cluster.link.session import LinkEvents, LinkLostError
from svc_cluster.link.tls import CertificateError, PeerTls, open_channel

log = get_logger("link")

QUEUE_BYTES_MAX: Final = 32 * 1024 * 1024
"""What waits for a link that is up; more is refused, and was not sent."""

BULK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Raft's entries are refused once this much waits: they are sent again, and whatever comes behind
them, heartbeats first of all, would wait as long as they take."""

REASON_CHARACTERS_MAX: Final = 200

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
        self._ends = Seldom()
        self._tasks = Tasks()
        self._tasks.spawn(self._run(), f"link {method} {address}")

    def send(self, data: bytes, *, is_bulk: bool = False) -> None:
        """Queue a message. Raises LinkLostError while the link is down, or too much is waiting for
        it: for `is_bulk` that is BULK_BYTES_MAX, otherwise QUEUE_BYTES_MAX."""
        most = BULK_BYTES_MAX if is_bulk else QUEUE_BYTES_MAX
        if not self._up or self._queued_bytes + len(data) > most:
            raise LinkLostError(sent=False)
        self._queue.append(data)
        self._queued_bytes += len(data)
        self._wake.set()

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    async def close(self) -> None:
        await self._tasks.cancel_all()

    async def _run(self) -> None:
        delay = RECONNECT_SECONDS_MIN
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                reason = await self._until_it_ends()
            except CertificateError as cause:
                log.error("certificate_unusable", address=self._address, reason=str(cause))
            except Exception as fault:  # a link is never given up
                log.error("link_failed", address=self._address, exc_info=fault)
            else:
                count = None if reason is None else self._ends.note(loop.time())
                if count is not None:
                    log.warning("link_ended", address=self._address, count=count, reason=reason)
            if loop.time() - started > RECONNECT_SECONDS_MAX:
                delay = RECONNECT_SECONDS_MIN
            await asyncio.sleep(delay * (0.5 + self._rng.random()))
            delay = min(delay * 2, RECONNECT_SECONDS_MAX)

    async def _until_it_ends(self) -> str | None:
        """Why the link ended; None for one that was not made."""
        reason = "the other side ended it"
        try:
            await self._converse()
        except grpc.aio.AioRpcError as cause:
            reason = f"{cause.code().name}: {cause.details()}"[:REASON_CHARACTERS_MAX]
        except BatchError as cause:
            reason = f"what came is {cause}"
        except (asyncio.InvalidStateError, EOFError) as cause:
            reason = f"{type(cause).__name__}: {cause}"[:REASON_CHARACTERS_MAX]
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            reason = "the call was cancelled"
        finally:
            was_up, self._up = self._up, False
            self._queue.clear()
            self._queued_bytes = 0
            if was_up:
                self._events.link_down()
        if not was_up:
            log.debug("link_not_made", address=self._address, reason=reason)
            return None
        return reason

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
            writers = Tasks(on_failure=lambda _: call.cancel())
            writers.spawn(self._write(call), "link writer")
            try:
                while True:
                    data = await call.read()
                    if data is grpc.aio.EOF:
                        return
                    self._events.message(data)
            finally:
                await writers.cancel_all()
                call.cancel()

    async def _write(self, call: Any) -> None:
        try:
            while True:
                while self._queue:
                    data = self._queue.popleft()
                    await call.write(data)
                    self._queued_bytes -= len(data)
                self._wake.clear()
                await self._wake.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # the call is over, which the reader hears of too
            return
