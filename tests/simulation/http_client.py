"""A client that speaks HTTP messages to a simulated gateway: everything but the socket is real."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from svc_cluster._pb.s2.v1 import s2_pb2 as s2_pb
from svc_cluster.codec.session_frame import Frame, FrameDecoder, encode_frame
from svc_cluster.gateway.http.message import BytesBody, Request, Response
from tests.linearizability.history import SeenRecord
from tests.simulation.backend_client import GatewayProcess, SimGateway
from tests.simulation.workload import (
    Acked,
    Config,
    GoneError,
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

_READ_BYTES_SURELY_UNLIMITED: Final = 900_000
"""Below this an answer was not ended by its limit of 1 MiB (bodies are a few KiB at most)."""


class UnexpectedAnswerError(Exception):
    """The gateway answered something that no client should ever see."""


class HttpClient:
    """Implements `workload.SimClient` on `GatewayApp.handle`."""

    def __init__(self, gateway: SimGateway) -> None:
        self._gateway = gateway

    async def create_basin(self, basin: str) -> None:
        status, body = await self._ask("POST", "/v1/basins", {"basin": basin})
        _expect_creation(status, body)

    async def create_stream(self, basin: str, stream: str) -> None:
        status, body = await self._ask("POST", "/v1/streams", {"stream": stream}, basin=basin)
        _expect_creation(status, body)

    async def delete_stream(self, basin: str, stream: str) -> None:
        status, body = await self._ask("DELETE", f"/v1/streams/{stream}", basin=basin)
        _expect(status, body, 202)

    async def delete_basin(self, basin: str) -> None:
        status, body = await self._ask("DELETE", f"/v1/basins/{basin}")
        _expect(status, body, 202)

    async def reconfigure(self, basin: str, stream: str | None, change: Config) -> Config:
        wanted: dict[str, Any] = {}
        if "retention" in change:
            wanted["retention_policy"] = {"age": change["retention"]}
        if "min_age" in change:
            wanted["delete_on_empty"] = {"min_age_secs": change["min_age"]}
        if stream is None:
            body: dict[str, Any] = {"default_stream_config": wanted}
            status, told = await self._ask("PATCH", f"/v1/basins/{basin}", body)
        else:
            path = f"/v1/streams/{stream}"
            status, told = await self._ask("PATCH", path, wanted, basin=basin)
        _expect(status, told, 200)
        return _config(told)

    async def config(self, basin: str, stream: str | None) -> Config:
        path, named = f"/v1/streams/{stream}", basin
        if stream is None:
            path, named = f"/v1/basins/{basin}", None
        status, told = await self._ask("GET", path, basin=named)
        _expect(status, told, 200)
        return _config(told)

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
        status, body = await self._ask(
            "POST", path, wanted, basin=basin, request_token=request_token
        )
        if status == 412 and "seq_num_mismatch" in body:
            raise TailMismatchError(body["seq_num_mismatch"])
        if status == 412:
            raise TokenMismatchError(body["fencing_token_mismatch"])
        _expect(status, body, 200)
        return Acked(*(body[key]["seq_num"] for key in ("start", "end", "tail")))

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

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        query = f"seq_num={start}&count={count}&wait={wait_s}"
        path = f"/v1/streams/{stream}/records"
        status, body = await self._ask("GET", path, basin=basin, query=query)
        if status == 416:
            raise PastTailSeenError(body["tail"]["seq_num"])
        _expect(status, body, 200)
        records = _records(body)
        size = sum(len(record.body) + 16 for record in records)
        limited = len(records) >= count or size > _READ_BYTES_SURELY_UNLIMITED
        return Records(records, body["tail"]["seq_num"], limited)

    async def check_tail(self, basin: str, stream: str) -> int:
        path = f"/v1/streams/{stream}/records/tail"
        status, body = await self._ask("GET", path, basin=basin)
        _expect(status, body, 200)
        tail: int = body["tail"]["seq_num"]
        return tail

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
            body = _parse(response, is_write=False)
            if response.status == 416:
                raise PastTailSeenError(body["tail"]["seq_num"])
            _expect(response.status, body)

    async def _sent(self, operation: Callable[[GatewayProcess], Awaitable[Response]]) -> Response:
        try:
            return await self._gateway.ask(operation)
        except ConnectionRefusedError as refusal:
            raise NoEffectError(repr(refusal)) from refusal
        except ConnectionError as lost:
            raise UnknownOutcomeError(repr(lost)) from lost

    async def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        basin: str | None = None,
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
        if basin is not None:
            headers.append(("svc-basin", basin))
        request = Request(method, path, query, headers, BytesBody(data))
        response = await self._sent(lambda process: process.app.handle(request))
        return response.status, _parse(response, is_write=method != "GET")


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


def input_frame(batch: SessionBatch) -> bytes:
    """What an append session sends of it."""
    message = s2_pb.AppendInput()
    for item in batch.items:
        record = message.records.add(body=item.data)
        if item.command is not None:
            record.headers.add(name=b"", value=item.command)
    if batch.match_seq_num is not None:
        message.match_seq_num = batch.match_seq_num
    if batch.fencing_token is not None:
        message.fencing_token = batch.fencing_token
    return encode_frame(message.SerializeToString())


def acked_of(frame: Frame) -> Acked:
    ack = s2_pb.AppendAck.FromString(frame.message())
    return Acked(ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num)


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


def _failure(frame: Frame) -> tuple[int, list[tuple[str, str]], bytes]:
    status, body = frame.failure()
    return status, [], body


def raise_refusal(status: int, body: dict[str, Any]) -> None:
    """Raises what an append of this answer means; there must be no success."""
    if status == 412 and "seq_num_mismatch" in body:
        raise TailMismatchError(body["seq_num_mismatch"])
    if status == 412:
        raise TokenMismatchError(body["fencing_token_mismatch"])
    _expect(status, body, 200)
    raise UnexpectedAnswerError(f"{status} {body}")


def _config(told: dict[str, Any]) -> Config:
    stream = told
    if "create_stream_on_read" in told:
        stream = told["default_stream_config"] or {}
    values = {
        "retention": (stream.get("retention_policy") or {}).get("age"),
        "min_age": (stream.get("delete_on_empty") or {}).get("min_age_secs"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _record(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = {"body": base64.b64encode(item.data).decode()}
    if item.command is not None:
        record["headers"] = [["", base64.b64encode(item.command).decode()]]
    return record


def _records(batch: dict[str, Any]) -> tuple[SeenRecord, ...]:
    return tuple(
        SeenRecord(
            record["seq_num"],
            record["timestamp"],
            base64.b64decode(record.get("body", ""), validate=True).decode("latin-1"),
        )
        for record in batch["records"]
    )


def _take_event(event: bytes, on_batch: OnBatch) -> None:
    """One event is one piece of the stream."""
    fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if line)
    match fields.get("event"):
        case "batch":
            records = _records(json.loads(fields["data"]))
            if int(fields["id"].split(",")[0]) != records[-1].seq_num:
                raise UnexpectedAnswerError(f"the id of an event: {fields['id']}")
            on_batch(records)
        case "error":
            body = json.loads(fields["data"])
            if body.get("code") not in ("unavailable", "request_timeout", "hot_server"):
                raise UnexpectedAnswerError(f"an event stream ended with {body}")
        case _:
            pass  # a ping, or the end mark


def _parse(response: Response, *, is_write: bool) -> dict[str, Any]:
    """The body; a refusal says the same about effects in its header and in its body."""
    assert isinstance(response.body, bytes), "no stream was asked for"
    body: dict[str, Any] = json.loads(response.body or b"{}")
    if response.status >= 400 and is_write:
        effects = dict(response.headers).get("svc-side-effects")
        if effects != ("possible" if body["may_have_taken_effect"] else "none"):
            raise UnexpectedAnswerError(f"{response.status} {effects} {body}")
    return body


def _expect_creation(status: int, body: dict[str, Any]) -> None:
    """Idempotent: what is there already is fine."""
    if body.get("code") != "resource_already_exists":
        _expect(status, body, 201)


def _expect(status: int, body: dict[str, Any], *good: int) -> None:
    """Raises NoEffectError or UnknownOutcomeError for an honest refusal."""
    if status in good:
        return
    code = body.get("code", "")
    if status in (404, 409) and code.endswith(("_not_found", "_deletion_pending")):
        raise GoneError(f"{status} {body}")
    if status not in (408, 502, 503):
        raise UnexpectedAnswerError(f"{status} {body}")
    if body.get("may_have_taken_effect"):
        raise UnknownOutcomeError(f"{status} {body}")
    raise NoEffectError(f"{status} {body}")
