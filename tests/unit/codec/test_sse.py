"""Event ids and event bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import MalformedError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.sse import EventId, batch_event, parse_event_id, ping_event
from svc_cluster.model.record import Position

U64 = st.integers(0, 2**64 - 1)


@given(seq_num=U64, count=U64, metered_bytes=U64)
def test_an_event_id_is_parsed_back(seq_num: int, count: int, metered_bytes: int) -> None:
    """With commas as sent, and with the colons that some clients write."""
    event_id = EventId(seq_num, count, metered_bytes)
    text = event_id.encode().decode()
    assert parse_event_id(text) == event_id
    assert parse_event_id(text.replace(",", ":")) == event_id


@given(text=st.text(max_size=12))
def test_any_other_text_is_refused(text: str) -> None:
    """Only ASCII digits and one kind of separator make an id."""
    parts = text.strip(" \t").replace(":", ",").split(",")
    if len(parts) == 3 and all(p.isascii() and p.isdigit() for p in parts):
        return
    with pytest.raises(MalformedError):
        parse_event_id(text)


def test_events_have_the_exact_bytes_of_the_wire() -> None:
    """Field order and the blank line behind each event."""
    assert batch_event(EventId(2, 3, 30), b'{"records":[]}') == (
        b'event: batch\nid: 2,3,30\ndata: {"records":[]}\n\n'
    )
    assert ping_event(5, Position(SeqNum(1), TimestampMs(4))) == (
        b'event: ping\ndata: {"timestamp":5,"tail":{"seq_num":1,"timestamp":4}}\n\n'
    )
