"""What the product does in steps, between which others may work, is done at once here; and formats
are read whole of which the product reads a part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.steps import at_once
from svc_cluster.codec import json_body, proto_body
from svc_cluster.codec.batch_codec import (
    AppendInput,
    Open,
    ReadBudget,
    RecordIn,
    RecordOut,
    build_batch_steps,
    cut_steps,
)
from svc_cluster.codec.entry_version import BASIN_KINDS
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.log_entry import decode_steps, encode_command, join_commands
from svc_cluster.codec.peer_message import Envelope, decode_members, open_envelope
from svc_cluster.codec.sealed_batch import Seal, seal_steps
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.content import Chunk, ChunkBuilder, Content
from svc_cluster.model.record import SequencedBatch, StoredBatch
from svc_cluster.stream.batch_row import HEADER_BYTES, decode_placement
from svc_cluster.stream.commands import BasinCommand


def build_batch(records: Sequence[RecordIn]) -> StoredBatch:
    return at_once(build_batch_steps(records))


def seal_batch(batch: StoredBatch, identity: StreamIdentity, seal: Seal) -> StoredBatch:
    """`batch`, which is plain, with its data records sealed by `seal` for the stream."""
    *_, sealed = seal_steps(batch, identity, seal)
    assert sealed is not None, "the last step has the batch"
    return sealed


def cut(
    batches: Iterable[SequencedBatch],
    start_seq_num: int,
    budget: ReadBudget,
    open_record: Open | None = None,
) -> list[RecordOut]:
    """The records of all runs of `cut_steps`."""
    runs = cut_steps(batches, start_seq_num, budget, open_record)
    return [record for run in runs for record in run or ()]


def decode_json_append(
    body: bytes, data_format: DataFormat, *, strict: bool = False
) -> AppendInput:
    return at_once(json_body.decode_append_steps(body, data_format, strict=strict))


def decode_proto_append(body: bytes) -> AppendInput:
    return at_once(proto_body.decode_append_steps(body))


def encode_entry(commands: Sequence[BasinCommand]) -> bytes:
    return join_commands([encode_command(command) for command in commands])


def decode_entry(payload: bytes, known: frozenset[str] = BASIN_KINDS) -> list[BasinCommand]:
    return at_once(decode_steps(payload, known))


def decode_envelope(data: bytes) -> Envelope:
    """The messages in order, and the sender's clock."""
    opened = open_envelope(data)
    return decode_members(opened.members, opened.wall_ms)


def decode_batch(value: bytes) -> SequencedBatch:
    """The row of a batch, with its records."""
    return SequencedBatch(decode_placement(value), value[HEADER_BYTES:])


def whole(content: Content, view: KeyReader) -> Chunk:
    """All of the content as one chunk."""
    builder = ChunkBuilder(2**62)
    for visit in content.visits(view, b""):
        builder.add(visit)
    return builder.last()
