"""Appends that share a command, against the same ones with a command each.

Two whole leaders get the same requests in the same turns, at the same times; one of them joins what
may be joined. Their clients are told the same, and whoever reads finds the same.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import FencingTokenMismatchError, SeqNumMismatchError, ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.idempotency_table import REQUEST_KEY_BYTES
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.reconfigure import StreamPatch
from svc_cluster.model.record import (
    CommandKind,
    CommandRecord,
    SessionSequence,
    StoredBatch,
    TimestampingMode,
)
from svc_cluster.model.stream_config import Retention
from svc_cluster.stream import keys, provision_rules, scan, timestamping
from tests.unit.replica.leading import FAR, Rig

STREAMS = ("a", "b")
START_MS = 1_000
SEGMENT_BYTES = 1 << 18
EXAMPLES = int(os.environ.get("SHARED_COMMANDS_EXAMPLES", "25"))


@dataclass(slots=True)
class _Clock:
    now_ms: int = START_MS

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(self.now_ms)


@dataclass(frozen=True, slots=True)
class Request:
    """`far`: from the tail at the beginning of the turn, None: no condition."""

    stream: str
    given: tuple[int | None, ...]
    far: int | None
    token: str | None
    command: tuple[int, str] | None
    session: tuple[int, int] | None
    key: int | None
    op_units: int

    def batch(self) -> StoredBatch:
        stamps = [value for value in self.given if value is not None]
        commands: tuple[CommandRecord, ...] = ()
        if self.command is not None:
            point, token = self.command
            commands = (
                CommandRecord(0, CommandKind.FENCE, token=token)
                if token
                else CommandRecord(0, CommandKind.TRIM, trim_point=point),
            )
        return StoredBatch(
            bytes(255 if value is None else value - START_MS for value in self.given),
            len(self.given),
            9 * len(self.given),
            max(stamps, default=None),
            len(stamps),
            commands,
            self.given[0],
            op_units=self.op_units,
        )


_GIVEN = st.lists(st.none() | st.integers(START_MS, START_MS + 120), min_size=1, max_size=4).map(
    tuple
)
_SELDOM = st.sampled_from([None] * 7 + [1])
_REQUESTS = st.builds(
    Request,
    st.sampled_from(["a", "a", "a", "b", "gone"]),
    _GIVEN,
    _SELDOM.flatmap(lambda on: st.integers(-1, 4) if on else st.none()),
    _SELDOM.flatmap(lambda on: st.sampled_from(["", "x"]) if on else st.none()),
    _SELDOM.flatmap(
        lambda on: (
            st.tuples(st.integers(0, 12), st.sampled_from(["", "", "x"])) if on else st.none()
        )
    ),
    _SELDOM.flatmap(
        lambda on: st.tuples(st.integers(1, 2), st.integers(0, 3)) if on else st.none()
    ),
    _SELDOM.flatmap(lambda on: st.integers(1, 2) if on else st.none()),
    st.integers(0, 1),
)
_PATCHES = st.builds(
    StreamPatch,
    timestamping_mode=st.none() | st.sampled_from(TimestampingMode),
    timestamping_uncapped=st.sampled_from([None, True, False]),
    retention=st.sampled_from([None, Retention(None), Retention(1)]),
)
_TURNS = st.lists(
    st.tuples(st.integers(-30, 60), st.none() | _PATCHES, st.lists(_REQUESTS, max_size=8)),
    min_size=1,
    max_size=6,
)


async def _play(
    turns: list[tuple[int, StreamPatch | None, list[Request]]],
    stored_bytes_max: int | None,
    *,
    joins: bool,
) -> dict[str, object]:
    """What clients are told and readers find."""
    clock = _Clock()
    rig = await Rig(clock, SEGMENT_BYTES).serving(*STREAMS)
    if not joins:
        rig.replica.proposer._joiner = None
    rig.replica.sequencer.change_quotas(None, stored_bytes_max)
    told: list[list[object]] = []
    for step, patch, requests in turns:
        clock.now_ms += step
        if patch is not None:
            await rig.change(partial(_reconfigure, rig, patch))
        tails = {name: rig.replica.state.stream_by_name(name) for name in STREAMS}
        answers: list[list[object]] = [[] for _ in requests]
        for request, answer in zip(requests, answers, strict=True):
            stream = tails.get(request.stream)
            tail = 0 if stream is None else stream.tail_seq_num
            match = None if request.far is None else max(0, tail + request.far)
            _submit(rig, request, match, answer)
        for _ in range(3):
            await rig.settle()
            await rig.answer()
        told += answers
    assert rig.faults == []
    return {"told": told, **_found(rig)}


def _reconfigure(rig: Rig, patch: StreamPatch, now_ms: TimestampMs) -> object:
    return rig.replica.sequencer.decide(
        lambda view: provision_rules.reconfigure_stream(view, "a", patch, "standard")
    )


def _submit(rig: Rig, request: Request, match: int | None, answer: list[object]) -> None:
    appender, batch = rig.replica.appender, request.batch()
    if request.key is not None:
        key = bytes([request.key]) * REQUEST_KEY_BYTES
        appender.append_idempotent(
            key,
            request.stream,
            batch,
            match,
            request.token,
            FAR,
            lambda fill, error: answer.append(_filled(fill, error)),
        )
        return
    session = None
    if request.session is not None:
        session = SessionSequence(bytes([request.session[0]]), request.session[1])
    appender.append(
        request.stream,
        batch,
        match,
        request.token,
        FAR,
        lambda ack, error: answer.append(ack if error is None else _refusal(error)),
        session,
    )


def _filled(fill: object, error: ServiceError | None) -> object:
    if error is not None:
        return _refusal(error)
    response = pb.Response()
    assert callable(fill)
    fill(response)
    return response.SerializeToString(deterministic=True)


def _refusal(error: ServiceError) -> tuple[object, ...]:
    more: object = None
    if isinstance(error, SeqNumMismatchError):
        more = error.tail_seq_num
    elif isinstance(error, FencingTokenMismatchError):
        more = error.current_token
    return type(error).__name__, str(error), error.may_have_taken_effect, more


def _found(rig: Rig) -> dict[str, object]:
    replica = rig.replica
    found: dict[str, object] = {}
    for name in STREAMS:
        stream = replica.state.stream_by_name(name)
        assert stream is not None
        records = []
        step = scan.read_batches(
            replica.state.reader, stream, stream.trim_point, ReadBounds(), now_ms=TimestampMs(0)
        )
        for batch in step.batches:
            given = [None if value == 255 else value + START_MS for value in batch.records]
            rule = (batch.placement.arrival_ms, batch.placement.expires_at_ms)
            for seq_num, stamp, value in zip(
                range(batch.placement.first_seq_num, batch.placement.end_seq_num),
                timestamping.stamp(batch.placement, given),
                batch.records,
                strict=True,
            ):
                if seq_num >= stream.trim_point:
                    records.append((seq_num, stamp, value, rule))
        found[name] = (stream, records)
    counts = replica.counts()
    found["counts"] = (counts.appends, counts.appended_records, counts.appended_bytes)
    found["stored"] = replica.state.usage.reading
    found["usage"] = [
        (key, value)
        for key, value in replica.state.reader.scan(b"", b"\xff" * 9)
        if key[0] == keys.USAGE_MINUTES_KIND
    ]
    return found


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(_TURNS, st.sampled_from([None, None, 200]))
def test_sharing_a_command_changes_nothing_that_a_client_sees(
    turns: list[tuple[int, StreamPatch | None, list[Request]]], stored_bytes_max: int | None
) -> None:
    """Streams, conditions, tokens, fences, trims, sessions, repeated requests, changed settings and
    a quota, in any order and company: the same answers, records, timestamps, ends of life, states
    and counts."""
    is_trimmed = any(
        request.command is not None and not request.command[1]
        for _, _, requests in turns
        for request in requests
    )
    if is_trimmed:
        stored_bytes_max = None
    plain = asyncio.run(_play(turns, stored_bytes_max, joins=False))
    shared = asyncio.run(_play(turns, stored_bytes_max, joins=True))
    if is_trimmed:
        # what is stored is counted in whole batches: a trim into one that is shared keeps its rest
        plain["stored"] = shared["stored"] = None
    assert shared == plain
