"""What a chunk of a snapshot says of its place, and how its pairs are digested."""

from __future__ import annotations

import xxhash

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, LogIndex, Term


def address(
    chunk: pb.SnapshotChunk,
    group_id: GroupId,
    transfer_id: int,
    sequence: int,
    log_index: LogIndex,
    term: Term,
) -> None:
    chunk.group_id = group_id
    chunk.transfer_id = transfer_id
    chunk.sequence = sequence
    chunk.log_index = log_index
    chunk.term = term


def hash_pair(hasher: xxhash.xxh3_64, key: bytes, value: bytes) -> None:
    hasher.update(len(key).to_bytes(4, "little"))
    hasher.update(key)
    hasher.update(len(value).to_bytes(4, "little"))
    hasher.update(value)
