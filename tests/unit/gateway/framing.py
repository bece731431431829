"""Sessions without a transport: frames in by a queue, frames out decoded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.session_frame import Compression, FrameDecoder, SessionFrame, encode_frame
from svc_cluster.http.message import Request, Response
from tests.unit.gateway.scripted import BASIN

RECORDS = "/v1/streams/s/records"


@dataclass
class PipeBody:
    """A request's body whose pieces a test puts in one by one; None ends it, an exception breaks
    it. `taken` counts the pieces that the session has asked for."""

    pieces: asyncio.Queue[bytes | Exception | None] = field(default_factory=asyncio.Queue)
    taken: int = 0

    async def read(self, limit_bytes: int) -> bytes:
        raise AssertionError("a session is not read as a whole")

    async def chunks(self, idle_seconds: float | None = None) -> AsyncIterator[bytes]:
        assert idle_seconds is None, "a session may be silent"
        while (piece := await self.pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            self.taken += 1
            yield piece

    def put(self, *pieces: bytes | Exception | None) -> None:
        for piece in pieces:
            self.pieces.put_nowait(piece)


def append_session(body: PipeBody, *headers: tuple[str, str], kind: str = "svcs/proto") -> Request:
    named = [] if kind == "svcs/proto" else [("s2-basin", BASIN[1])]
    basin = [BASIN] if kind == "svcs/proto" else named
    return Request("POST", RECORDS, "", [*basin, ("content-type", kind), *headers], body)


def input_frame(
    *bodies: bytes, compression: Compression = Compression.NONE, **conditions: Any
) -> bytes:
    message = pb.AppendInput(**conditions)
    for body in bodies:
        message.records.add(body=body)
    return encode_frame(message.SerializeToString(), compression)


@dataclass
class Frames:
    """The frames of an answer, one by one."""

    response: Response
    decoder: FrameDecoder = field(default_factory=FrameDecoder)

    def __post_init__(self) -> None:
        assert self.response.status == 200, self.response
        assert not isinstance(self.response.body, bytes)
        self.pieces = self.response.body

    async def next(self) -> SessionFrame | None:
        """None at the end of the answer."""
        while (frame := self.decoder.next_frame()) is None:
            piece = await anext(self.pieces, None)
            if piece is None:
                self.decoder.finish()
                return None
            self.decoder.feed(piece)
        return frame

    async def rest(self) -> list[SessionFrame]:
        found = []
        while (frame := await self.next()) is not None:
            found.append(frame)
        return found

    async def close(self) -> None:
        await self.pieces.aclose()  # type: ignore[attr-defined]


def ack_of(frame: SessionFrame | None) -> tuple[int, int]:
    """First sequence number and the one behind the last."""
    assert frame is not None, "the session ended"
    assert not frame.is_terminal, frame
    ack = pb.AppendAck.FromString(frame.message())
    assert ack.tail.seq_num >= ack.end.seq_num
    return ack.start.seq_num, ack.end.seq_num


def batch_of(frame: SessionFrame | None) -> tuple[list[int], int | None]:
    """Sequence numbers of a ReadBatch, and its tail's where it has one."""
    assert frame is not None, "the session ended"
    assert not frame.is_terminal, frame
    batch = pb.ReadBatch.FromString(frame.message())
    tail = batch.tail.seq_num if batch.HasField("tail") else None
    return [record.seq_num for record in batch.records], tail
