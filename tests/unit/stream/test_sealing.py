"""Batches and the streams they were sealed for, as the leader sees them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from svc_cluster.base.errors import (
    FencingTokenMismatchError,
    InvalidError,
    KeyRequiredError,
    SealMismatchError,
    SeqNumMismatchError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
)
from svc_cluster.base.ids import SeqNum, StreamId, TimestampMs
from svc_cluster.model.cipher import AEGIS_256, AES_256_GCM, StreamIdentity, seq_num_max
from svc_cluster.model.record import StoredBatch
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.stream import keys, rows
from svc_cluster.stream.effects import RejectionReason
from tests.unit.stream.support import NOW, Leader, batch, reasons

GROUP = 5


def sealed(stream_id: int, cipher: str | None, count: int = 1) -> StoredBatch:
    return replace(batch(count), sealed_for=StreamIdentity(GROUP, stream_id, cipher))


def encrypted(cipher: str = AEGIS_256) -> Leader:
    leader = Leader(BasinConfig(stream_cipher=cipher))
    leader.create("s")
    return leader


def refusal(leader: Leader, given: StoredBatch, name: str = "s") -> type[ServiceError]:
    with pytest.raises(ServiceError) as refused:
        leader.sequencer.append(name, given, None, None, NOW)
    assert not refused.value.may_have_taken_effect
    assert not leader.sequencer._touched_at
    return refused.type


def test_nothing_plain_gets_into_an_encrypted_stream() -> None:
    """Refused without effect, naming the cipher; what was sealed for the stream gets in."""
    leader = encrypted()
    stream = leader.stream("s")
    assert stream.cipher == AEGIS_256
    assert refusal(leader, batch()) is KeyRequiredError
    with pytest.raises(KeyRequiredError, match="aegis-256"):
        leader.sequencer.append("s", batch(), None, None, NOW)
    leader.append("s", sealed(stream.stream_id, AEGIS_256))
    assert leader.stream("s").tail_seq_num == 1


def test_nothing_sealed_gets_where_it_was_not_sealed_for() -> None:
    """Not into a plain stream, not into the successor of a name, not under another cipher."""
    leader = encrypted()
    first = leader.stream("s").stream_id
    assert refusal(leader, sealed(first, AES_256_GCM)) is SealMismatchError
    assert refusal(leader, sealed(first, None)) is SealMismatchError
    assert refusal(leader, sealed(first + 1, AEGIS_256)) is SealMismatchError
    leader.run(leader.sequencer.delete_stream("s", NOW))
    leader.run(leader.sequencer.purge(StreamId(first)))
    assert refusal(leader, sealed(first, AEGIS_256)) is StreamNotFoundError
    leader.create("s")
    assert leader.stream("s").stream_id != first
    assert refusal(leader, sealed(first, AEGIS_256)) is SealMismatchError
    plain = Leader()
    plain.create("s")
    assert refusal(plain, sealed(plain.stream("s").stream_id, AEGIS_256)) is SealMismatchError


def test_the_key_comes_in_its_place_among_the_refusals() -> None:
    """Behind the stream's existence, before its deletion, its token and its tail (contract 3.3)."""
    leader = encrypted()
    sequencer = leader.sequencer
    stream_id = leader.stream("s").stream_id
    with pytest.raises(StreamNotFoundError):
        sequencer.append("t", batch(), 9, "old", NOW)
    with pytest.raises(KeyRequiredError):
        sequencer.append("s", batch(), 9, "old", NOW)
    with pytest.raises(FencingTokenMismatchError):
        sequencer.append("s", sealed(stream_id, AEGIS_256), 9, "old", NOW)
    with pytest.raises(SeqNumMismatchError):
        sequencer.append("s", sealed(stream_id, AEGIS_256), 9, None, NOW)
    leader.run(sequencer.delete_stream("s", NOW))
    with pytest.raises(KeyRequiredError):
        sequencer.append("s", batch(), 9, "old", NOW)
    with pytest.raises(StreamDeletionPendingError):
        sequencer.append("s", sealed(stream_id, AEGIS_256), 9, "old", NOW)


def at(leader: Leader, tail: int) -> None:
    """Put the stream's tail there, as if nothing had a timestamp yet."""
    stream = msgspec.structs.replace(
        leader.stream("s"), tail_seq_num=SeqNum(tail), last_timestamp_ms=TimestampMs(0)
    )
    leader.store.values[keys.stream_key(stream.stream_id)] = rows.encode_stream(stream)
    leader.restart()
    leader.sequencer = type(leader.sequencer)(leader.state)


@pytest.mark.parametrize("count", [1, 3])
def test_aes_gcm_reaches_to_the_last_number_of_32_bits(count: int) -> None:
    """The record with sequence number 2^32-1 gets in, none behind it; apply would not take it
    either. The match comes before, the timestamps behind."""
    leader = encrypted(AES_256_GCM)
    stream_id = leader.stream("s").stream_id
    assert seq_num_max(AES_256_GCM) == 2**32 - 1
    at(leader, 2**32 - count)
    command = leader.sequencer.append("s", sealed(stream_id, AES_256_GCM, count), None, None, NOW)
    leader.run(command)
    assert leader.stream("s").tail_seq_num == 2**32
    with pytest.raises(SeqNumMismatchError):
        leader.sequencer.append("s", sealed(stream_id, AES_256_GCM), 9, None, NOW)
    assert refusal(leader, sealed(stream_id, AES_256_GCM)) is InvalidError
    at(leader, 2**32 - count)
    assert refusal(leader, sealed(stream_id, AES_256_GCM, count + 1)) is InvalidError
    beyond = replace(
        command,
        placement=replace(command.placement, record_count=count + 1),
    )
    assert reasons(leader.apply([beyond])) == [RejectionReason.CIPHER_EXHAUSTED]


def test_aegis_and_plain_streams_go_on() -> None:
    """Beyond 2^32 records."""
    for cipher in (AEGIS_256, None):
        leader = Leader(BasinConfig(stream_cipher=cipher))
        leader.create("s")
        stream_id = leader.stream("s").stream_id
        at(leader, 2**32)
        given = batch() if cipher is None else sealed(stream_id, cipher)
        leader.run(leader.sequencer.append("s", given, None, None, NOW))
        assert leader.stream("s").tail_seq_num == 2**32 + 1
