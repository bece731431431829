"""A client of a real gateway as the shared workload wants it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Final

from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse
from tests.chaos.exchange import LostError, NotConnectedError, Open, open_http1, open_http2
from tests.chaos.session_api import append_session, follow_session
from tests.linearizability.history import SeenRecord
from tests.simulation.api import (
    NoEffectError,
    OnBatch,
    SessionBatch,
    SessionEvents,
    UnknownOutcomeError,
)
from tests.simulation.json_client import JsonClient, check_effects, event_records

TIMEOUT_S: Final = 5.0
"""What clients' libraries wait; the gateway answers within 4 s."""

LOST_PAUSE_S: Final = 0.05
"""A client does not run against a dead gateway without a pause."""


class ChaosApi(JsonClient):
    """Implements `api.SimClient`: a connection for each call in flight, kept for the next."""

    deletion_statuses = (202, 404)
    may_be_gone = False

    open: Open = staticmethod(open_http1)

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._credentials = {} if token is None else {"authorization": f"Bearer {token}"}
        self._idle: list[HttpClient] = []
        self.refusals: dict[str, int] = {}

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        await append_session(self.open, self.url, basin, stream, batches, events)

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        """By server-sent events, on a connection of its own; ends it after `seconds`."""
        headers = {"svc-basin": basin, "svc-format": "base64", "accept": "text/event-stream"}
        headers |= self._credentials
        path = f"/v1/streams/{stream}/records?seq_num={start}"
        http = HttpClient(self.url)
        pieces = http.stream(path, headers, idle_s=TIMEOUT_S)
        buffer = b""
        try:
            async with asyncio.timeout(seconds):
                async for piece in pieces:
                    buffer += piece
                    while b"\n\n" in buffer:
                        event, _, buffer = buffer.partition(b"\n\n")
                        records = _batch_of(event)
                        if records is not None:
                            on_batch(records)
        except TimeoutError:
            return
        except ConnectionLostError as lost:
            raise NoEffectError(str(lost)) from lost
        finally:
            await pieces.aclose()
            http.close()

    def note(self, status: int, body: dict[str, Any]) -> None:
        if status != 200:
            effects = "possible" if body.get("may_have_taken_effect") else "none"
            name = f"{status} {effects}"
            self.refusals[name] = self.refusals.get(name, 0) + 1

    async def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        basin: str = "",
        query: str = "",
        request_token: str | None = None,
    ) -> tuple[int, dict[str, Any]]:
        headers = {"svc-format": "base64", "content-type": "application/json"}
        if request_token is not None:
            headers["svc-request-token"] = request_token
        headers |= self._credentials
        if basin:
            headers["svc-basin"] = basin
        data = b"" if body is None else json.dumps(body).encode()
        try:
            target = f"{path}?{query}" if query else path
            answer = await self._request(method, target, headers, data)
        except ConnectionLostError as lost:
            await asyncio.sleep(LOST_PAUSE_S)
            name = "lost" if lost.sent else "not connected"
            self.refusals[name] = self.refusals.get(name, 0) + 1
            if lost.sent:
                raise UnknownOutcomeError(str(lost)) from lost
            raise NoEffectError(str(lost)) from lost
        found: dict[str, Any] = answer.json() if answer.body else {}
        if method != "GET" and "may_have_taken_effect" in found:
            check_effects(answer.status, answer.headers.get("svc-side-effects"), found)
        return answer.status, found

    async def _request(
        self, method: str, path: str, headers: dict[str, str], data: bytes
    ) -> HttpResponse:
        """Raises ConnectionLostError."""
        client = self._idle.pop() if self._idle else HttpClient(self.url)
        try:
            answer = await client.request(method, path, headers, data, timeout_s=TIMEOUT_S)
        except ConnectionLostError:
            client.close()
            raise
        self._idle.append(client)
        return answer

    def close(self) -> None:
        for client in self._idle:
            client.close()
        self._idle.clear()


class Http2Api(ChaosApi):
    """The same over HTTP/2, a connection for each call; follows by read sessions."""

    open: Open = staticmethod(open_http2)

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await follow_session(self.open, self.url, basin, stream, start, on_batch)

    async def _request(
        self, method: str, path: str, headers: dict[str, str], data: bytes
    ) -> HttpResponse:
        try:
            exchange = await self.open(self.url, method, path, headers, data)
            try:
                parts = []
                while part := await exchange.receive():
                    parts.append(part)
                return HttpResponse(exchange.status, exchange.headers, b"".join(parts))
            finally:
                exchange.close()
        except LostError as lost:
            was_sent = not isinstance(lost, NotConnectedError)
            raise ConnectionLostError(str(lost), sent=was_sent) from lost


def _batch_of(event: bytes) -> tuple[SeenRecord, ...] | None:
    lines = event.split(b"\n")
    if lines[0] != b"event: batch":
        return None
    data = next(line for line in lines if line.startswith(b"data: "))
    return event_records(data.removeprefix(b"data: ").decode())
