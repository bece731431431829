"""A client that speaks HTTP messages to a simulated gateway: everything but the socket is real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from svc_cluster.codec.session_frame import FrameDecoder, SessionFrame
from svc_cluster.http.message import BytesBody, Request, Response
from tests.simulation.api import (
    NoEffectError,
    OnBatch,
    PastTailSeenError,
    SessionBatch,
    SessionEvents,
    UnknownOutcomeError,
)
from tests.simulation.backend_client import GatewayProcess, SimGateway
from tests.simulation.json_client import (
    JsonClient,
    UnexpectedAnswerError,
    acked_of,
    check_effects,
    event_records,
    input_frame,
    raise_failure,
    raise_refusal,
)


class HttpClient(JsonClient):
    """Implements `api.ConfiguringClient` on `GatewayApp.handle`."""

    def __init__(self, gateway: SimGateway) -> None:
        self._gateway = gateway

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        """In one piece a batch; what a gateway answers in frames is taken as they come."""
        headers = [("svc-basin", basin), ("content-type", "svcs/proto")]
        request = Request(
            "POST", f"/v1/streams/{stream}/records", "", headers, _Batches(batches, events)
        )

        async def converse(process: GatewayProcess) -> Response:
            response = await process.app.handle(request)
            if not isinstance(response.body, bytes):
                frames = response.body
                try:
                    return await _take_acks(frames, events) or response
                finally:
                    await frames.aclose()  # type: ignore[attr-defined]
            return response

        response = await self._sent(converse)
        if isinstance(response.body, bytes):
            body = json.loads(response.body)
            raise_refusal(response.status, body)

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        """An event stream, taken up again with `last-event-id` where one was left."""
        headers = [
            ("svc-format", "base64"),
            ("svc-basin", basin),
            ("accept", "text/event-stream"),
        ]
        path, query = f"/v1/streams/{stream}/records", f"seq_num={start}"
        if start > 0 and start % 2:
            query = "seq_num=0"
            headers.append(("last-event-id", f"{start - 1},0,0"))
        request = Request("GET", path, query, headers, BytesBody(b""))

        async def consume(process: GatewayProcess) -> Response:
            response = await process.app.handle(request)
            if not isinstance(response.body, bytes):
                events = response.body
                try:
                    async with asyncio.timeout(seconds):
                        async for event in events:
                            _take_event(event, on_batch)
                except TimeoutError:
                    pass  # the client has enough
                finally:
                    await events.aclose()  # type: ignore[attr-defined]
            return response

        response = await self._sent(consume)
        if isinstance(response.body, bytes):
            body = json.loads(response.body)
            if response.status == 416:
                raise PastTailSeenError(body["tail"]["seq_num"])
            raise_failure(response.status, body)

    async def _sent(self, operation: Callable[[GatewayProcess], Awaitable[Response]]) -> Response:
        try:
            return await self._gateway.ask(operation)
        except ConnectionRefusedError as refusal:
            raise NoEffectError(repr(refusal)) from refusal
        except ConnectionError as lost:
            raise UnknownOutcomeError(repr(lost)) from lost

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
        headers = [("svc-format", "base64")]
        if request_token is not None:
            headers.append(("svc-request-token", request_token))
        data = b""
        if body is not None:
            data = json.dumps(body).encode()
            headers += [("content-type", "application/json"), ("content-length", f"{len(data)}")]
        if basin:
            headers.append(("svc-basin", basin))
        request = Request(method, path, query, headers, BytesBody(data))
        response = await self._sent(lambda process: process.app.handle(request))
        assert isinstance(response.body, bytes), "no stream was asked for"
        told: dict[str, Any] = json.loads(response.body or b"{}")
        if method != "GET":
            check_effects(response.status, dict(response.headers).get("svc-side-effects"), told)
        return response.status, told


class _Batches:
    """The body of an append session."""

    def __init__(self, batches: Sequence[SessionBatch], events: SessionEvents) -> None:
        self._batches = batches
        self._events = events

    async def read(self, limit_bytes: int) -> bytes:
        raise AssertionError("a session is not read as a whole")

    async def chunks(self, idle_seconds: float | None = None) -> AsyncIterator[bytes]:
        for batch in self._batches:
            if batch.pause_s:
                await asyncio.sleep(batch.pause_s)
            self._events.sent()
            yield input_frame(batch)


async def _take_acks(pieces: AsyncIterator[bytes], events: SessionEvents) -> Response | None:
    """The failure with which the session ended, as a plain answer."""
    decoder = FrameDecoder()
    async for piece in pieces:
        decoder.feed(piece)
        while (frame := decoder.next_frame()) is not None:
            if frame.is_terminal:
                return Response(*_failure(frame))
            events.acked(acked_of(frame))
    decoder.finish()
    return None


def _failure(frame: SessionFrame) -> tuple[int, list[tuple[str, str]], bytes]:
    status, body = frame.failure()
    return status, [], body


def _take_event(event: bytes, on_batch: OnBatch) -> None:
    """One event is one piece of the stream."""
    fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if line)
    match fields.get("event"):
        case "batch":
            records = event_records(fields["data"])
            if int(fields["id"].split(",")[0]) != records[-1].seq_num:
                raise UnexpectedAnswerError(f"the id of an event: {fields['id']}")
            on_batch(records)
        case "error":
            body = json.loads(fields["data"])
            if body.get("code") not in ("unavailable", "request_timeout", "hot_server"):
                raise UnexpectedAnswerError(f"an event stream ended with {body}")
        case _:
            pass  # a ping, or the end mark
