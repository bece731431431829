"""A group's frozen state on its way to another node: which chunks it becomes, and what is not sent.

Without pieces every pair is sent. With them the receiver tells what it holds of earlier transfers,
and what is the same bytes in this view is named and not sent: see snapshot_pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

import xxhash

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import LogIndex
from svc_cluster.base.memory import MemoryPart
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.prefixed import PREFIX_BYTES, PrefixedReader
from svc_cluster.replica.snapshot_chunk import TURN_PAIRS_MAX, Hasher, address, hash_pair
from svc_cluster.replica.snapshot_pieces import pairs_hasher, proof_hasher
from svc_cluster.replica.snapshot_reader import looked_at
from svc_cluster.replica.transfers import SnapshotPace

CHUNK_BYTES: Final = 1024 * 1024
CHUNK_PAIRS_MAX: Final = 1024

PIECE_BYTES: Final = 2 * CHUNK_BYTES
"""What a chunk takes at its sender, with its encoding; what exceeds CHUNK_BYTES in its last value
is little beside that."""


class SnapshotRefusedError(Exception):
    """The receiver does not want this snapshot (any more)."""


class Sent(NamedTuple):
    """A Sent says what became of a transfer. `pairs` are all of the state, `kept` those of them
    that the receiver had already."""

    log_index: LogIndex
    pairs: int
    kept: int


class ChunkReader:
    """It takes the pairs of a view one after the other, a chunk at a time."""

    def __init__(self, pairs: Iterator[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self._next = next(pairs, None)
        self._looked = 1
        """Pairs that were looked at so far."""
        self.size = 0
        """About the bytes of the last chunk."""

    @property
    def at_end(self) -> bool:
        """Everything was taken."""
        return self._next is None

    def has_passed(self, bound: bytes) -> bool:
        """Whether all pairs up to this key were taken."""
        return self._next is None or self._next[0] > bound

    async def read(self, hasher: Hasher, bound: bytes | None = None) -> pb.SnapshotChunk:
        """The next pairs, digested, up to the key `bound` where there is one. Others have a turn of
        the event loop behind TURN_PAIRS_MAX of them: what is read from is frozen."""
        chunk = pb.SnapshotChunk()
        self.size = 0
        while self._next is not None:
            key, value = self._next
            if bound is not None and key > bound:
                break
            hash_pair(hasher, key, value)
            chunk.keys.append(key)
            chunk.values.append(value)
            self.size += PREFIX_BYTES + len(key) + len(value)
            self._next = next(self._pairs, None)
            self._looked += 1
            if self.size >= CHUNK_BYTES or len(chunk.keys) >= CHUNK_PAIRS_MAX:
                break
            if self._looked % TURN_PAIRS_MAX == 0:
                await asyncio.sleep(0)
        return chunk


Deliver = Callable[[pb.SnapshotChunk], Awaitable[pb.SnapshotResult]]


async def send_snapshot(
    group: AnyGroup,
    services: GroupServices,
    transfer_id: int,
    call: Callable[[bytes], Awaitable[bytes]],
    pieces: MemoryPart,
    pace: SnapshotPace,
    *,
    recovery: int = 0,
    by_pieces: bool = False,
) -> Sent:
    """Send the group's applied state. It waits for room among the `pieces` of snapshots before it
    reads the next one, and keeps to the `pace`. `recovery` is the number under which a
    recovering replica asked. `by_pieces`: the receiver takes that. Every row is looked at before it
    leaves, as the scrub does, and the receiver has no complete snapshot before the last one was:
    raises SnapshotDamagedError for a gap or a row that is not what belongs there,
    SnapshotRefusedError, or what `call` raises when the connection is lost."""
    view = services.store.snapshot()
    log_index, term = group.machine.applied_index, group.machine.applied_term
    encoding, kinds = group.machine.known.encoding, group.machine.written(services.version.seen)
    sender_term = group.engine.term
    sequence = 0

    async def deliver(chunk: pb.SnapshotChunk) -> pb.SnapshotResult:
        nonlocal sequence
        if not group.engine.can_propose or group.engine.term != sender_term:
            raise SnapshotRefusedError("this node leads the group no more")
        chunk.recovery, chunk.sender_term = recovery, sender_term
        if not sequence:
            chunk.encoding = encoding
            chunk.kinds.extend(kinds)
        address(chunk, group.group_id, transfer_id, sequence, log_index, term)
        result = pb.SnapshotResult.FromString(await call(chunk.SerializeToString()))
        if not result.accepted:
            raise SnapshotRefusedError(result.reason)
        sequence += 1
        return result

    try:
        reader = ChunkReader(looked_at(group.group_id, PrefixedReader(view, group.generation)))
        stream = SnapshotStream(reader, deliver, pieces, pace)
        last = await (stream.difference() if by_pieces else stream.everything())
    finally:
        view.close()
    await deliver(last)
    return Sent(log_index, last.pairs, stream.kept_pairs)


class SnapshotStream:
    """One transfer. Each way to go through the view returns the last chunk, which is to follow."""

    def __init__(
        self, reader: ChunkReader, deliver: Deliver, pieces: MemoryPart, pace: SnapshotPace
    ) -> None:
        self._reader = reader
        self._deliver = deliver
        self._room = pieces
        self._pace = pace
        self._offered: deque[pb.SnapshotPiece] = deque()
        self._kept = 0
        """Pieces that the receiver is to be told to keep."""
        self._proof = proof_hasher()
        self._pairs = 0
        self.kept_pairs = 0

    async def everything(self) -> pb.SnapshotChunk:
        hasher = xxhash.xxh3_64()
        while not self._reader.at_end:
            await self._pace.wait()
            await self._room.wait(PIECE_BYTES)
            try:
                chunk = await self._reader.read(hasher)
                self._pace.took(self._reader.size)
                self._pairs += len(chunk.keys)
                await self._deliver(chunk)
                del chunk
            finally:
                self._room.give_back(PIECE_BYTES)
        return pb.SnapshotChunk(last=True, digest=hasher.intdigest(), pairs=self._pairs)

    async def difference(self) -> pb.SnapshotChunk:
        """Send what the receiver does not say that it holds."""
        self._offered.extend((await self._deliver(pb.SnapshotChunk(pieces=True))).pieces)
        while not self._reader.at_end:
            await self._pace.wait()
            await self._room.wait(PIECE_BYTES)
            try:
                await self._next_piece()
            finally:
                self._room.give_back(PIECE_BYTES)
        proof = self._proof.digest()
        return pb.SnapshotChunk(last=True, kept=self._kept, proof=proof, pairs=self._pairs)

    async def _next_piece(self) -> None:
        """Look at one piece that the receiver holds, or the next chunk behind the last of those."""
        held = self._offered.popleft() if self._offered else None
        hasher = pairs_hasher()
        chunk = await self._reader.read(hasher, None if held is None else held.last_key)
        self._pace.took(self._reader.size)
        digest = hasher.digest()
        self._proof.update(digest)
        self._pairs += len(chunk.keys)
        is_whole = held is not None and self._reader.has_passed(held.last_key)
        if held is not None and is_whole and digest == held.digest:
            self._kept += 1
            self.kept_pairs += len(chunk.keys)
            if self._offered:
                await asyncio.sleep(0)
                return
            chunk = pb.SnapshotChunk()  # there may be more of them
        else:
            chunk.until = held.last_key if held is not None and is_whole else chunk.keys[-1]
        chunk.kept, self._kept = self._kept, 0
        self._offered = deque((await self._deliver(chunk)).pieces)
