"""The half of a client that knows the service's JSON, whatever carries the requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NoReturn

import pybase64

from svc_cluster._pb.s2.v1 import s2_pb2 as s2_pb
from svc_cluster.codec.session_frame import SessionFrame, encode_frame
from tests.linearizability.history import SeenRecord
from tests.simulation.api import (
    Acked,
    Config,
    GoneError,
    Item,
    NoEffectError,
    PastTailSeenError,
    Records,
    SessionBatch,
    TailMismatchError,
    TokenMismatchError,
    UnknownOutcomeError,
)

_READ_BYTES_SURELY_UNLIMITED: Final = 900_000
"""Below this an answer was not ended by its limit of 1 MiB (bodies are a few KiB at most)."""


FAULTS_TOLD: set[int] = set()
"""Statuses that are no failure of a run: 500 where exceptions are planted."""


class UnexpectedAnswerError(Exception):
    """The gateway answered something that no client should ever see."""


class JsonClient:
    """Implements what of `api.SimClient` is one request and one answer, on `ask`."""

    deletion_statuses: ClassVar[tuple[int, ...]] = (202,)
    may_be_gone: ClassVar[bool] = True
    """Streams and basins are deleted meanwhile."""

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
        """Status and JSON body. Raises NoEffectError, UnknownOutcomeError for a lost connection."""
        raise NotImplementedError

    def note(self, status: int, body: dict[str, Any]) -> None:
        """Take notice of an answer that is no refusal of a condition."""

    async def create_basin(self, basin: str) -> None:
        self._expect_creation(*await self.ask("POST", "/v1/basins", {"basin": basin}))

    async def create_stream(self, basin: str, stream: str) -> None:
        body = {"stream": stream}
        self._expect_creation(*await self.ask("POST", "/v1/streams", body, basin=basin))

    async def delete_stream(self, basin: str, stream: str) -> None:
        status, body = await self.ask("DELETE", f"/v1/streams/{stream}", basin=basin)
        self._expect(status, body, *self.deletion_statuses)

    async def delete_basin(self, basin: str) -> None:
        status, body = await self.ask("DELETE", f"/v1/basins/{basin}")
        self._expect(status, body, *self.deletion_statuses)

    async def reconfigure(self, basin: str, stream: str | None, change: Config) -> Config:
        wanted: dict[str, Any] = {}
        if "retention" in change:
            wanted["retention_policy"] = {"age": change["retention"]}
        if "min_age" in change:
            wanted["delete_on_empty"] = {"min_age_secs": change["min_age"]}
        if stream is None:
            body: dict[str, Any] = {"default_stream_config": wanted}
            status, told = await self.ask("PATCH", f"/v1/basins/{basin}", body)
        else:
            status, told = await self.ask("PATCH", f"/v1/streams/{stream}", wanted, basin=basin)
        self._expect(status, told, 200)
        return _config(told)

    async def config(self, basin: str, stream: str | None) -> Config:
        if stream is None:
            status, told = await self.ask("GET", f"/v1/basins/{basin}")
        else:
            status, told = await self.ask("GET", f"/v1/streams/{stream}", basin=basin)
        self._expect(status, told, 200)
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
        status, body = await self.ask(
            "POST", path, wanted, basin=basin, request_token=request_token
        )
        _raise_mismatch(status, body)
        self.note(status, body)
        self._expect(status, body, 200)
        return Acked(*(body[key]["seq_num"] for key in ("start", "end", "tail")))

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        query = f"seq_num={start}&count={count}&wait={wait_s}"
        path = f"/v1/streams/{stream}/records"
        status, body = await self.ask("GET", path, basin=basin, query=query)
        if status == 416:
            raise PastTailSeenError(body["tail"]["seq_num"])
        self.note(status, body)
        self._expect(status, body, 200)
        records = seen_records(body)
        size = sum(len(record.body) + 16 for record in records)
        limited = len(records) >= count or size > _READ_BYTES_SURELY_UNLIMITED
        return Records(records, body["tail"]["seq_num"], limited)

    async def check_tail(self, basin: str, stream: str) -> int:
        status, body = await self.ask("GET", f"/v1/streams/{stream}/records/tail", basin=basin)
        self.note(status, body)
        self._expect(status, body, 200)
        tail: int = body["tail"]["seq_num"]
        return tail

    def _expect_creation(self, status: int, body: dict[str, Any]) -> None:
        """Idempotent: what is there already is fine."""
        if body.get("code") != "resource_already_exists":
            self._expect(status, body, 201)

    def _expect(self, status: int, body: dict[str, Any], *good: int) -> None:
        """Raises NoEffectError or UnknownOutcomeError for an honest refusal."""
        if status not in good:
            raise_failure(status, body, may_be_gone=self.may_be_gone)


def raise_failure(status: int, body: dict[str, Any], *, may_be_gone: bool = True) -> NoReturn:
    gone = body.get("code", "").endswith(("_not_found", "_deletion_pending"))
    if may_be_gone and status in (404, 409) and gone:
        raise GoneError(f"{status} {body}")
    if status == 409 and body.get("code") == "transaction_conflict":
        raise NoEffectError(f"{status} {body}")
    if status not in (408, 502, 503, *FAULTS_TOLD):
        raise UnexpectedAnswerError(f"{status} {body}")
    if body.get("may_have_taken_effect"):
        raise UnknownOutcomeError(f"{status} {body}")
    raise NoEffectError(f"{status} {body}")


def raise_refusal(status: int, body: dict[str, Any]) -> NoReturn:
    """Raises what an append of this answer means; there must be no success."""
    _raise_mismatch(status, body)
    raise_failure(status, body)


def check_effects(status: int, told: str | None, body: dict[str, Any]) -> None:
    """A refusal of a write says the same about effects in its header (`told`) and its body."""
    if status >= 400 and told != ("possible" if body["may_have_taken_effect"] else "none"):
        raise UnexpectedAnswerError(f"{status} {told} {body}")


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


def acked_of(frame: SessionFrame) -> Acked:
    ack = s2_pb.AppendAck.FromString(frame.message())
    return Acked(ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num)


def seen_records(batch: dict[str, Any]) -> tuple[SeenRecord, ...]:
    return tuple(
        SeenRecord(
            record["seq_num"],
            record["timestamp"],
            pybase64.b64decode(record.get("body", ""), validate=True).decode("latin-1"),
        )
        for record in batch["records"]
    )


def event_records(data: str) -> tuple[SeenRecord, ...]:
    """Of the data of one event."""
    return seen_records(json.loads(data))


def _raise_mismatch(status: int, body: dict[str, Any]) -> None:
    if status == 412 and "seq_num_mismatch" in body:
        raise TailMismatchError(body["seq_num_mismatch"])
    if status == 412:
        raise TokenMismatchError(body["fencing_token_mismatch"])


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
    record: dict[str, Any] = {"body": pybase64.b64encode(item.data).decode()}
    if item.command is not None:
        record["headers"] = [["", pybase64.b64encode(item.command).decode()]]
    return record
