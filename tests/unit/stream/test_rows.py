"""Values: what is written is what is read, and the bytes stay as they are."""

from __future__ import annotations

import msgspec
import pytest

from svc_cluster.base.ids import LogIndex, SeqNum, StreamId, Term, TimestampMs
from svc_cluster.model.record import SequencedBatch, TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)
from svc_cluster.stream import batch_row, rows
from tests.at_once import decode_batch
from tests.unit.stream.support import placement

FULL_STREAM = rows.StreamState(
    stream_id=StreamId(4),
    name="s",
    config=StreamConfig("express", Retention(None), TimestampingMode.ARRIVAL, True, 60),
    created_at_ms=TimestampMs(1),
    cipher="aes-256-gcm",
    deleted_at_ms=TimestampMs(2),
    tail_seq_num=SeqNum(3),
    last_timestamp_ms=TimestampMs(2**64 - 1),
    trim_point=SeqNum(1),
    fencing_token="t",
    metered_bytes_appended=77,
    last_arrival_ms=TimestampMs(5),
    creation_hash=b"hash",
)


@pytest.mark.parametrize(
    "stream",
    [
        FULL_STREAM,
        rows.StreamState(StreamId(4), "n", StreamConfig(), TimestampMs(0)),
        rows.StreamState(StreamId(4), "n", StreamConfig(shared_caching=True), TimestampMs(0)),
    ],
)
def test_stream_state_comes_back(stream: rows.StreamState) -> None:
    """Every member survives, set or not."""
    assert rows.decode_stream(StreamId(4), rows.encode_stream(stream)) == stream


def test_stream_state_bytes_are_fixed() -> None:
    """A golden value: an older directory is read by a newer program."""
    assert rows.encode_stream(FULL_STREAM).hex() == (
        "dc0010a173a765787072657373c002c33c01ab6165732d3235362d67636d0203cfffffffffffffffff01a1744d05"
        "c40468617368"
    )


@pytest.mark.parametrize(
    "config",
    [
        BasinConfig(),
        BasinConfig(PartialStreamConfig()),
        BasinConfig(PartialStreamConfig(retention=Retention(None)), None, True, False),
        BasinConfig(
            PartialStreamConfig(
                "standard", Retention(9), TimestampingMode.CLIENT_REQUIRE, False, 0
            ),
            "aegis-256",
            False,
            True,
        ),
        BasinConfig(PartialStreamConfig(shared_caching=False)),
        BasinConfig(PartialStreamConfig(shared_caching=True)),
    ],
)
def test_basin_record_comes_back(config: BasinConfig) -> None:
    """Unset, zero and "kept for ever" stay three different things."""
    record = rows.BasinHead("b", config, TimestampMs(1), TimestampMs(2), StreamId(9))
    assert rows.decode_basin(rows.encode_basin(record)) == record


def test_only_what_says_something_of_shared_caching_has_a_wider_row() -> None:
    """All others are the bytes that releases without it write, and read."""
    plain, shared = StreamConfig(), StreamConfig(shared_caching=True)
    rows_of = [
        rows.encode_stream(rows.StreamState(StreamId(4), "n", config, TimestampMs(0)))
        for config in (plain, shared)
    ]
    assert [len(msgspec.msgpack.decode(row)) for row in rows_of] == [16, 17]
    defaults = [PartialStreamConfig("standard"), PartialStreamConfig(shared_caching=False)]
    heads = [
        rows.encode_basin(rows.BasinHead("b", BasinConfig(default), TimestampMs(1)))
        for default in defaults
    ]
    assert [len(msgspec.msgpack.decode(head)[4]) for head in heads] == [6, 7]


def test_entry_and_applied_row_come_back() -> None:
    """The small ones."""
    assert rows.decode_entry("s", rows.encode_entry(FULL_STREAM.entry)) == FULL_STREAM.entry
    applied = rows.AppliedRow(LogIndex(1), Term(2), 2**64 - 1)
    assert rows.decode_applied(rows.encode_applied(applied)) == applied


@pytest.mark.parametrize("expires_at", [None, 0, 2**63 - 1])
@pytest.mark.parametrize("uncapped", [False, True])
@pytest.mark.parametrize("mode", list(TimestampingMode))
def test_batch_comes_back(mode: TimestampingMode, uncapped: bool, expires_at: int | None) -> None:
    """Header and records, and the count of bytes before."""
    place = placement(
        7, 3, base=1, last=2**64 - 1, arrival=5, mode=mode, uncapped=uncapped, expires_at=expires_at
    )
    value = batch_row.encode_batch(place, 123, b"records")
    assert decode_batch(value) == SequencedBatch(place, b"records")
    assert batch_row.decode_placement(value) == place
    assert batch_row.metered_before(value) == 123
