"""A client of a real gateway as the shared workload wants it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Final

import pybase64

from svc_cluster.cli.http_client import ConnectionLostError, HttpClient, HttpResponse
from tests.chaos.exchange import LostError, NotConnectedError, Open, open_http1, open_http2
from tests.chaos.session_api import append_session, follow_session
from tests.linearizability.history import SeenRecord
from tests.simulation.workload import (
    Acked,
    Item,
    NoEffectError,
    OnBatch,
    PastTailSeenError,
    Records,
    SessionBatch,
    SessionEvents,
    TailMismatchError,
    TokenMismatchError,
    UnknownOutcomeError,
)

TIMEOUT_S: Final = 5.0
"""What clients' libraries wait; the gateway answers within 4 s."""

LOST_PAUSE_S: Final = 0.05
"""A client does not run against a dead gateway without a pause."""

_READ_BYTES_SURELY_UNLIMITED: Final = 900_000


class UnexpectedAnswerError(Exception):
    """The gateway answered something that no client should ever see."""


class ChaosApi:
    """Implements `workload.SimClient`: a connection for each call in flight, kept for the next."""

    open: Open = staticmethod(open_http1)

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._credentials = {} if token is None else {"authorization": f"Bearer {token}"}
        self._idle: list[HttpClient] = []
        self.refusals: dict[str, int] = {}

    async def create_basin(self, basin: str) -> None:
        status, body = await self.ask("POST", "/v1/basins", {"basin": basin})
        _expect(status, body, 201, 409)

    async def create_stream(self, basin: str, stream: str) -> None:
        status, body = await self.ask("POST", "/v1/streams", {"stream": stream}, basin=basin)
        _expect(status, body, 201, 409)

    async def append(
        self,
        basin: str,
        stream: str,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        request_token: str | None = None,
    ) -> Acked:
        wanted: dict[str, Any] = {"records": [_record(item) for item in items]}
        if match_seq_num is not None:
            wanted["match_seq_num"] = match_seq_num
        if fencing_token is not None:
            wanted["fencing_token"] = fencing_token
        path = f"/v1/streams/{stream}/records"
        status, body = await self.ask(
            "POST", path, wanted, basin=basin, request_token=request_token
        )
        if status == 412 and "seq_num_mismatch" in body:
            raise TailMismatchError(body["seq_num_mismatch"])
        if status == 412:
            raise TokenMismatchError(body["fencing_token_mismatch"])
        self._note(status, body)
        _expect(status, body, 200)
        return Acked(*(body[key]["seq_num"] for key in ("start", "end", "tail")))

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        await append_session(self.open, self.url, basin, stream, batches, events)

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        path = f"/v1/streams/{stream}/records?seq_num={start}&count={count}&wait={wait_s}"
        status, body = await self.ask("GET", path, basin=basin)
        if status == 416:
            raise PastTailSeenError(body["tail"]["seq_num"])
        self._note(status, body)
        _expect(status, body, 200)
        records = seen_records(body)
        size = sum(len(record.body) + 16 for record in records)
        limited = len(records) >= count or size > _READ_BYTES_SURELY_UNLIMITED
        return Records(records, body["tail"]["seq_num"], limited)

    async def check_tail(self, basin: str, stream: str) -> int:
        status, body = await self.ask("GET", f"/v1/streams/{stream}/records/tail", basin=basin)
        self._note(status, body)
        _expect(status, body, 200)
        tail: int = body["tail"]["seq_num"]
        return tail

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

    async def delete_stream(self, basin: str, stream: str) -> None:
        status, body = await self.ask("DELETE", f"/v1/streams/{stream}", basin=basin)
        _expect(status, body, 202, 404)

    async def delete_basin(self, basin: str) -> None:
        status, body = await self.ask("DELETE", f"/v1/basins/{basin}")
        _expect(status, body, 202, 404)

    def _note(self, status: int, body: dict[str, Any]) -> None:
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
        request_token: str | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON body. Raises NoEffectError, UnknownOutcomeError for a lost connection."""
        headers = {"svc-format": "base64", "content-type": "application/json"}
        if request_token is not None:
            headers["svc-request-token"] = request_token
        headers |= self._credentials
        if basin:
            headers["svc-basin"] = basin
        data = b"" if body is None else json.dumps(body).encode()
        try:
            answer = await self._request(method, path, headers, data)
        except ConnectionLostError as lost:
            await asyncio.sleep(LOST_PAUSE_S)
            name = "lost" if lost.sent else "not connected"
            self.refusals[name] = self.refusals.get(name, 0) + 1
            if lost.sent:
                raise UnknownOutcomeError(str(lost)) from lost
            raise NoEffectError(str(lost)) from lost
        found: dict[str, Any] = answer.json() if answer.body else {}
        if answer.status >= 400 and method != "GET" and "may_have_taken_effect" in found:
            effects = "possible" if found["may_have_taken_effect"] else "none"
            if answer.headers.get("svc-side-effects") != effects:
                raise UnexpectedAnswerError(f"{answer.status} {answer.headers} {found}")
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
    return seen_records(json.loads(data.removeprefix(b"data: ")))


def seen_records(body: dict[str, Any]) -> tuple[SeenRecord, ...]:
    return tuple(
        SeenRecord(
            record["seq_num"],
            record["timestamp"],
            pybase64.b64decode(record.get("body", "")).decode("latin-1"),
        )
        for record in body["records"]
    )


def _record(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = {"body": pybase64.b64encode(item.data).decode()}
    if item.command is not None:
        record["headers"] = [["", pybase64.b64encode(item.command).decode()]]
    return record


def _expect(status: int, body: dict[str, Any], *good: int) -> None:
    """Raises NoEffectError or UnknownOutcomeError for an honest refusal."""
    if status in good:
        return
    if status not in (408, 502, 503):
        raise UnexpectedAnswerError(f"{status} {body}")
    if body.get("may_have_taken_effect"):
        raise UnknownOutcomeError(f"{status} {body}")
    raise NoEffectError(f"{status} {body}")
