"""Both ends of a snapshot's transfer in one process: a view that is sent, a store that takes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.memory import MemoryPart
from svc_cluster.replica.prefixed import generation_end, generation_prefix
from svc_cluster.replica.snapshot import SnapshotReceiver
from svc_cluster.replica.snapshot_chunk import address
from svc_cluster.replica.snapshot_stream import ChunkReader, SnapshotStream
from svc_cluster.replica.transfers import SnapshotPace
from tests.memory_store import MemoryStore

GROUP = GroupId(7)
SENDER = NodeId(1)

View = Mapping[bytes, bytes]


class BrokenOffError(Exception):
    """The connection is lost."""


class Ends:
    """The receiver of one group. Every transfer is another sender's, of a view of its own."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.store = MemoryStore(loop, random.Random(1), flush_ms=(0, 0))
        self.discarded: list[Generation] = []
        self.installed: list[tuple[LogIndex, Generation]] = []
        self.refused_leader = False
        self.sent: list[pb.SnapshotChunk] = []
        """What reached the receiver in the last transfer."""

        self._generations = 0
        self._transfers = 0
        clock = SystemClock()
        self._pace = SnapshotPace(clock, lambda: False)
        self._room = MemoryPart(2**30)
        self.receiver = SnapshotReceiver(
            services=cast(Any, SimpleNamespace(store=self.store, clock=clock, loop=loop)),
            leads=lambda *_: "another node leads the group" if self.refused_leader else None,
            wants=lambda *_: None,
            cannot_read=lambda *_: None,
            new_generation=self._new_generation,
            discard=self.discarded.append,
            install=self._install,
            pieces=MemoryPart(2**30),
        )

    def _new_generation(self) -> Generation:
        self._generations += 1
        return Generation(self._generations)

    async def _install(
        self, _group: GroupId, log_index: LogIndex, _term: Term, generation: Generation, _of: NodeId
    ) -> None:
        self.installed.append((log_index, generation))

    def rows(self, generation: int) -> dict[bytes, bytes]:
        """What the store has of one generation."""
        prefix = generation_prefix(Generation(generation))
        found = self.store.scan(prefix, generation_end(Generation(generation)))
        return {key.removeprefix(prefix): value for key, value in found}

    async def give(
        self, chunk: pb.SnapshotChunk, sequence: int, index: int = 1
    ) -> pb.SnapshotResult:
        """Bring one chunk of the transfer under way."""
        address(chunk, GROUP, self._transfers, sequence, LogIndex(index), Term(1))
        reply = await self.receiver.chunk(SENDER, chunk.SerializeToString())
        return pb.SnapshotResult.FromString(reply)

    def begin(self) -> None:
        """Another transfer."""
        self._transfers += 1
        self.sent = []

    async def send(
        self, view: View, index: int, *, lost_at: int | None = None, by_pieces: bool = True
    ) -> bool:
        """A whole transfer, or until its chunk `lost_at` (from 0) is lost. Whether it was taken."""
        self.begin()

        async def deliver(chunk: pb.SnapshotChunk) -> pb.SnapshotResult:
            if len(self.sent) == lost_at:
                raise BrokenOffError("lost")
            result = await self.give(chunk, len(self.sent), index)
            self.sent.append(chunk)
            if not result.accepted:
                raise BrokenOffError(result.reason)
            return result

        reader = ChunkReader(iter(sorted(view.items())))
        stream = SnapshotStream(reader, deliver, self._room, self._pace)
        try:
            await deliver(await (stream.difference() if by_pieces else stream.everything()))
        except BrokenOffError:
            return False
        return True

    @property
    def sent_keys(self) -> list[bytes]:
        """The keys that were sent in the last transfer."""
        return [key for chunk in self.sent for key in chunk.keys]
