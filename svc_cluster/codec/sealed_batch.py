"""Stored batches whose data records are sealed.

Sealed is a record's headers and body together, in their wire form; what comes out is the body of
a record without headers that keeps the client's timestamp. Command records stay as they are.
`batch_codec.cut_steps` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from svc_cluster.codec.varint import read_varint, varint
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.record import StoredBatch

Seal = Callable[[bytes], bytes]

STEP_RECORDS: Final = 256
"""Sealing so many takes about 2 ms."""
STEP_BYTES: Final = 512 * 1024

# A field's number times 8, plus its wire type.
_RECORDS: Final = 1 << 3 | 2
_TIMESTAMP: Final = 1 << 3
_BODY: Final = bytes((3 << 3 | 2,))


def seal_steps(
    batch: StoredBatch, identity: StreamIdentity, seal: Seal
) -> Iterator[StoredBatch | None]:
    """Seal the data records of `batch`, which is plain, for the stream. Others may work between the
    steps, of which the last one yields the batch."""
    assert batch.sealed_for is None, "sealed once"
    commands = {command.offset for command in batch.commands}
    data = batch.records
    parts: list[bytes] = []
    position = 0
    step_records = step_bytes = 0
    for offset in range(batch.record_count):
        begin = position
        assert data[begin] == _RECORDS, "a stored batch is nothing but records"
        length, position = read_varint(data, begin + 1)
        end = position + length
        if offset in commands:
            parts.append(data[begin:end])
        else:
            parts += _sealed_record(data[position:end], seal)
            step_records += 1
            step_bytes += length
            if step_records == STEP_RECORDS or step_bytes >= STEP_BYTES:
                step_records = step_bytes = 0
                yield None
        position = end
    assert position == len(data), "as many records as were counted"
    yield replace(batch, records=b"".join(parts), sealed_for=identity)


def _sealed_record(record: bytes, seal: Seal) -> tuple[bytes, ...]:
    """The wire form of one record, with its field's tag and length."""
    plain_at = 0
    if record and record[0] == _TIMESTAMP:
        # The library writes fields in the order of their numbers.
        _, plain_at = read_varint(record, 1)
    sealed = seal(record[plain_at:])
    sealed_length = varint(len(sealed))
    length = plain_at + len(_BODY) + len(sealed_length) + len(sealed)
    return (
        bytes((_RECORDS,)),
        varint(length),
        record[:plain_at],
        _BODY,
        sealed_length,
        sealed,
    )
