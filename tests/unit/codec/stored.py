"""What a stored batch has, read by the protobuf library."""

from __future__ import annotations

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.batch_codec import RecordIn
from svc_cluster.model.record import StoredBatch


def records_of(batch: StoredBatch) -> list[RecordIn]:
    """As they were given to whoever built it."""
    return [
        (
            record.timestamp if record.HasField("timestamp") else None,
            [(header.name, header.value) for header in record.headers],
            record.body,
        )
        for record in pb.AppendInput.FromString(batch.records).records
    ]
