"""Server-sent events of a read: their bytes, and where a `last-event-id` resumes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.model.record import Position

DONE: Final = b"data: [DONE]\n\n"
_EVENT_ID: Final = re.compile(r"([0-9]{1,20})([,:])([0-9]{1,20})\2([0-9]{1,20})")
_U64_MAX: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class EventId:
    """An EventId has the last sequence number delivered, and what the read has delivered so far.
    That is counted in records and metered bytes, on this connection and on those that it resumes.
    """

    seq_num: int
    count: int
    metered_bytes: int

    def encode(self) -> bytes:
        return b"%d,%d,%d" % (self.seq_num, self.count, self.metered_bytes)

    def behind(self, seq_num: int, count: int, metered_bytes: int) -> EventId:
        """The id of an event that delivers so many records more, the last of them `seq_num`. The
        sums stop at 2^64 - 1, so that an id can be parsed whatever a client has sent."""
        return EventId(
            seq_num,
            min(self.count + count, _U64_MAX),
            min(self.metered_bytes + metered_bytes, _U64_MAX),
        )


NOTHING_DELIVERED: Final = EventId(0, 0, 0)
"""Where a read that resumes nothing begins to count."""


def parse_event_id(text: str) -> EventId:
    """`seq,count,bytes`, colons allowed as separators. Raises MalformedError (bad_header)."""
    found = _EVENT_ID.fullmatch(text.strip(" \t"))
    if found is not None:
        seq_num, count, metered_bytes = (int(found[group]) for group in (1, 3, 4))
        if max(seq_num, count, metered_bytes) <= _U64_MAX:
            return EventId(seq_num, count, metered_bytes)
    raise MalformedError(
        ErrorCode.BAD_HEADER, "last-event-id is <seq_num>,<count>,<bytes> as it was sent"
    )


def batch_event(event_id: EventId, read_batch_json: bytes) -> bytes:
    """JSON text has no line breaks of its own, so `data` is one line."""
    return b"event: batch\nid: %b\ndata: %b\n\n" % (event_id.encode(), read_batch_json)


def ping_event(now_ms: int, tail: Position) -> bytes:
    return b'event: ping\ndata: {"timestamp":%d,"tail":{"seq_num":%d,"timestamp":%d}}\n\n' % (
        now_ms,
        tail.seq_num,
        tail.timestamp_ms,
    )


def error_event(body_json: bytes) -> bytes:
    """Last event of a stream that failed; no end mark follows."""
    return b"event: error\ndata: %b\n\n" % body_json
