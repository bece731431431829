"""What a chunk of a snapshot says of its place, and how its pairs are digested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, LogIndex, Term

TURN_PAIRS_MAX: Final = 256
"""Pairs that are looked at, or written, in one turn of the event loop: a small one costs its sender
about 16 us. What a chunk holds bounds their bytes."""


class Hasher(Protocol):
    """Whatever takes bytes."""

    def update(self, data: bytes, /) -> None: ...


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


def hash_pair(hasher: Hasher, key: bytes, value: bytes) -> None:
    hasher.update(len(key).to_bytes(4, "little"))
    hasher.update(key)
    hasher.update(len(value).to_bytes(4, "little"))
    hasher.update(value)


def result(reason: str | None, pieces: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """The answer to a chunk. `reason`: why it is refused; None: it is not. `pieces`: last key and
    digest of each that is told of."""
    told = pb.SnapshotResult(accepted=reason is None, reason=reason or "")
    for last_key, digest in pieces:
        told.pieces.add(last_key=last_key, digest=digest)
    return told.SerializeToString()
