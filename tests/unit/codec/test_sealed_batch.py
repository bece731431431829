"""Batches whose data records are sealed, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from svc_cluster.base.errors import DecryptionFailedError, InternalError
from svc_cluster.codec.batch_codec import ReadBudget, RecordIn, RecordOut, cut_steps
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX
from svc_cluster.codec.sealed_batch import STEP_RECORDS, seal_steps
from svc_cluster.model.cipher import AEGIS_256, StreamIdentity
from svc_cluster.model.record import (
    StoredBatch,
)
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.replica.append import COMMAND_BYTES
from tests.at_once import build_batch, cut, decode_proto_append, seal_batch
from tests.stored_batches import sequenced

IDENTITY: Final = StreamIdentity(3, 4, AEGIS_256)
TRIM: Final[RecordIn] = (None, [(b"", b"trim")], bytes(8))
FENCE: Final[RecordIn] = (5, [(b"", b"fence")], b"token")


def toy_seal(plain: bytes) -> bytes:
    return b"<" + bytes(byte ^ 0x55 for byte in plain) + b">"


def toy_open(sealed: bytes) -> bytes:
    if sealed[:1] + sealed[-1:] != b"<>":
        raise DecryptionFailedError("not sealed")
    return bytes(byte ^ 0x55 for byte in sealed[1:-1])


PLACED = partial(sequenced, arrival_ms=1000, uncapped=True)


def read(
    batch: StoredBatch,
    opening: Callable[[bytes], bytes] | None,
    budget: ReadBudget | None = None,
) -> list[RecordOut]:
    return cut([PLACED(batch, 10)], 0, budget or ReadBudget(), opening)


MIXED: Final[list[RecordIn]] = [
    (3, [(b"name", b"value"), (b"name", b"")], b"body"),
    FENCE,
    (None, [], b""),
    (0, [], b"x" * 300),
    TRIM,
    (2**64 - 1, [(b"n" * 200, b"v" * 20_000)], b""),
]


def test_what_was_sealed_is_read_back_as_it_was_given() -> None:
    """Headers, bodies, metered sizes and timestamps; nothing of the data stands in the clear, and
    the commands stand there as they did."""
    plain = build_batch(MIXED)
    sealed = seal_batch(plain, IDENTITY, toy_seal)
    assert read(sealed, toy_open) == read(plain, None)
    assert sealed.sealed_for == IDENTITY
    assert replace(sealed, records=plain.records, sealed_for=None) == plain
    for clear in (b"name", b"value", b"body", b"x" * 10, b"vv"):
        assert clear in plain.records
        assert clear not in sealed.records
    for command in (b"fence", b"token", b"trim"):
        assert command in sealed.records


def test_a_sealed_batch_is_an_append_input_like_any() -> None:
    """One decoder of stored bytes; a data record there has a timestamp and a body, no headers."""
    sealed = seal_batch(build_batch(MIXED), IDENTITY, toy_seal)
    again = decode_proto_append(sealed.records).batch
    assert again.records == sealed.records
    assert (again.commands, again.timestamps_given) == (sealed.commands, sealed.timestamps_given)
    stored = read(sealed, None)
    assert [bool(record.headers) for record in stored] == [False, True, False, False, True, False]


def test_commands_alone_are_sealed_for_a_stream_too() -> None:
    """They are stored as they are, but only there."""
    plain = build_batch([FENCE, TRIM])
    sealed = seal_batch(plain, IDENTITY, toy_seal)
    assert (sealed.records, sealed.sealed_for) == (plain.records, IDENTITY)


def test_sealing_gives_others_their_turn() -> None:
    """A batch of 1000 records is sealed, and cut, in steps; a small one in a single one."""
    batch = build_batch([(None, [], b"x")] * 1000)
    steps = list(seal_steps(batch, IDENTITY, toy_seal))
    assert len(steps) == 1 + 1000 // STEP_RECORDS
    assert [step is None for step in steps] == [True] * (len(steps) - 1) + [False]
    sealed = steps[-1]
    assert sealed is not None
    runs = [r for r in cut_steps([PLACED(sealed, 10)], 0, ReadBudget(), toy_open) if r is not None]
    assert len(runs) == len(steps)
    assert sum(map(len, runs)) == 1000
    large = build_batch([(None, [], b"x" * 500_000)] * 2)
    assert len(list(seal_steps(large, IDENTITY, toy_seal))) == 2
    assert len(list(seal_steps(build_batch(MIXED), IDENTITY, toy_seal))) == 1


def test_records_that_are_not_returned_are_not_opened() -> None:
    """Another key's record behind the last one wanted, or before the time asked for, does not
    matter."""
    good = seal_batch(build_batch([(1, [], b"a"), (2, [], b"b")]), IDENTITY, toy_seal)
    bad = replace(good, records=good.records.replace(b"<", b"!"))
    batches = [PLACED(good, 0), PLACED(bad, 2)]
    for budget in (
        ReadBudget(count=2),
        ReadBudget(metered_bytes=18),
        ReadBudget(until_ms=3),
    ):
        late = replace(bad, records=bad.records.replace(b"\x08\x01", b"\x08\x09"))
        found = cut([batches[0], PLACED(late, 2)], 0, budget, toy_open)
        assert [record.body for record in found] == [b"a", b"b"]
    found = cut([PLACED(bad, 0), PLACED(good, 2)], 2, ReadBudget(), toy_open)
    assert [record.seq_num for record in found] == [2, 3]
    with pytest.raises(DecryptionFailedError):
        cut(batches, 0, ReadBudget(count=3), toy_open)


def test_what_opens_to_no_record_is_a_fault_of_ours() -> None:
    """It was sealed by a program like this one."""
    sealed = seal_batch(build_batch([(None, [], b"x")]), IDENTITY, toy_seal)
    with pytest.raises(InternalError):
        read(sealed, lambda _: b"\xff")


@pytest.mark.parametrize("count", [1, 1000])
def test_the_longest_sealed_batch_fits_into_an_entry(count: int) -> None:
    """As many headers of two bytes as the metered limit allows, which take most on the wire, each
    record with the longest timestamp and 49 bytes of nonce, tag and suite."""
    headers = (METERED_BYTES_MAX - 8 * count) // 4 // count
    batch = build_batch([(2**64 - 1, [(b"n", b"v")] * headers, b"")] * count)
    assert METERED_BYTES_MAX - batch.metered_bytes < 4 * count
    sealed = seal_batch(batch, IDENTITY, lambda plain: bytes(49) + plain)
    assert len(sealed.records) + 2 * COMMAND_BYTES < ENTRY_BYTES_MAX
