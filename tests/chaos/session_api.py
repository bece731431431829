"""What the shared workload does by sessions: appends that are pipelined, and reads that follow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.session_frame import SessionFrame
from tests.chaos.exchange import Exchange, LostError, Open, body_of, frames_of
from tests.linearizability.history import SeenRecord
from tests.simulation.json_client import acked_of, input_frame, raise_refusal
from tests.simulation.workload import (
    NoEffectError,
    OnBatch,
    PastTailSeenError,
    SessionBatch,
    SessionEvents,
    UnknownOutcomeError,
)


async def append_session(
    open_exchange: Open,
    url: str,
    basin: str,
    stream: str,
    batches: Sequence[SessionBatch],
    events: SessionEvents,
) -> None:
    """As `SimClient.append_session`."""
    headers = {"svc-basin": basin, "content-type": "svcs/proto"}
    try:
        exchange = await open_exchange(url, "POST", f"/v1/streams/{stream}/records", headers)
    except LostError as lost:
        raise NoEffectError("no batch was sent") from lost
    try:
        if exchange.status != 200:
            raise_refusal(exchange.status, await body_of(exchange))
        sending = asyncio.create_task(_send(exchange, batches, events))
        try:
            async for frame in frames_of(exchange):
                if frame.is_terminal:
                    _fail(frame)
                events.acked(acked_of(frame))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    except LostError as lost:
        raise UnknownOutcomeError(str(lost)) from lost
    finally:
        exchange.close()


async def _send(exchange: Exchange, batches: Sequence[SessionBatch], events: SessionEvents) -> None:
    for batch in batches:
        await asyncio.sleep(batch.pause_s)
        events.sent()
        await exchange.send(input_frame(batch))
    await exchange.end()


def _fail(frame: SessionFrame) -> None:
    """Raises what a terminal frame says."""
    status, body = frame.failure()
    raise_refusal(status, json.loads(body))


async def follow_session(
    open_exchange: Open, url: str, basin: str, stream: str, start: int, on_batch: OnBatch
) -> None:
    """Until the session fails. Raises PastTailSeenError, NoEffectError."""
    headers = {"svc-basin": basin, "content-type": "svcs/proto"}
    path = f"/v1/streams/{stream}/records?seq_num={start}"
    try:
        exchange = await open_exchange(url, "GET", path, headers)
    except LostError as lost:
        raise NoEffectError(str(lost)) from lost
    try:
        if exchange.status == 416:
            raise PastTailSeenError((await body_of(exchange))["tail"]["seq_num"])
        if exchange.status != 200:
            raise_refusal(exchange.status, await body_of(exchange))
        async for frame in frames_of(exchange):
            if frame.is_terminal:
                _fail(frame)
            found = pb.ReadBatch.FromString(frame.message())
            if found.records:
                on_batch(
                    tuple(
                        SeenRecord(r.seq_num, r.timestamp, r.body.decode("latin-1"))
                        for r in found.records
                    )
                )
    except LostError as lost:
        raise NoEffectError(str(lost)) from lost
    finally:
        exchange.close()
