"""Handing out what a group holds, for a backup: bounded in a turn, in a second and in time.

Batches never change and are never moved, so what was appended before an applied index can be read
at any later moment, from any replica, but for what was trimmed since. So no view of the store is
held from one call to the next: a call has one of its own, as long as it lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.stream.export_walk import all_but_batches, batches_between

SLICE_BYTES: Final = 128 * 1024
SLICE_SECONDS: Final = 0.004
"""What is read in one turn of the event loop ends with the row that reaches either bound."""

ROW_BYTES_MIN: Final = 256
"""A row counts for at least this much of the rate: small ones take processor time."""

PORTION_BYTES: Final = 256 * 1024
"""Rows in one message; a longer row is cut."""

RANGES_MAX: Final = 64
CONFIRM_SECONDS: Final = 5.0
"""How long a quorum may take to confirm what is handed out."""

_END: Final = b"\xff\xff"

_Pieces = Iterator[pb.ExportPortion | bytes]
"""What goes out: something said, or one row in its frame."""


class ExportRefusedError(Exception):
    """Nothing is handed out; the text says why. `elsewhere`: another replica may do it."""

    def __init__(self, reason: str, *, elsewhere: bool = False) -> None:
        super().__init__(reason)
        self.elsewhere = elsewhere


@dataclass(slots=True)
class ExportRate:
    """So many bytes in a second, of all calls together; nothing is saved up."""

    clock: Clock
    bytes_per_second: float
    free_at: float = float("-inf")

    async def spent(self, size: int) -> None:
        """Return when the next ones may be read. The event loop has a turn in any case."""
        now = self.clock.monotonic()
        self.free_at = max(self.free_at, now) + size / self.bytes_per_second
        await asyncio.sleep(max(self.free_at - now, 0.0))


class Exporter:
    """What one node hands out. `bytes_per_second` is for all calls together."""

    def __init__(self, node: ReplicaNode, bytes_per_second: float) -> None:
        self._node = node
        self._rate = ExportRate(node.services.clock, bytes_per_second)

    async def export(self, request: pb.ExportRequest) -> AsyncIterator[pb.ExportPortion]:
        """Yield the whole answer. Raises ExportRefusedError before its first message."""
        if len(request.ranges) > RANGES_MAX:
            raise ExportRefusedError(f"{len(request.ranges)} ranges: at most {RANGES_MAX}")
        if any(wanted.first >= wanted.end for wanted in request.ranges):
            raise ExportRefusedError("a range ends before it begins")
        group_id = GroupId(request.group_id)
        group = self._group(group_id)
        if request.ranges:
            if group_id == CATALOG_GROUP:
                raise ExportRefusedError("the catalog has no records")
            if group.applied_index < request.applied_index:
                raise ExportRefusedError("the replica has not applied that yet", elsewhere=True)
        else:
            await self._confirmed(group)
            if self._group(group_id) is not group:
                raise ExportRefusedError("the replica was replaced", elsewhere=True)
        # no await from here to the view: it is of the index that the head names
        head = self._head(group)
        view = self._node.services.store.snapshot(fills_cache=False)
        try:
            reader = PrefixedReader(view, group.generation)
            pieces = (
                _batches(reader, list(request.ranges))
                if request.ranges
                else _all_but_batches(reader, has_batches=group_id != CATALOG_GROUP)
            )
            yield pb.ExportPortion(head=head)
            async for portion in self._portions(pieces):
                yield portion
            yield pb.ExportPortion(last=True)
        finally:
            view.close()

    def _group(self, group_id: GroupId) -> AnyGroup:
        replica = self._node.host.replica(group_id)
        if replica is None:
            raise ExportRefusedError("no replica of the group is here", elsewhere=True)
        group: AnyGroup = replica.group
        if group.is_given_up:
            raise ExportRefusedError("the replica here is not to be trusted", elsewhere=True)
        return group

    async def _confirmed(self, group: AnyGroup) -> None:
        """Return once the store holds everything that was acknowledged before this call."""
        confirmed: asyncio.Future[ServiceError | None] = self._node.services.loop.create_future()

        def done(error: ServiceError | None) -> None:
            if not confirmed.done():
                confirmed.set_result(error)

        group.linearize(done)
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                error = await confirmed
        except TimeoutError:
            raise ExportRefusedError(
                f"no quorum has confirmed within {CONFIRM_SECONDS:g} s", elsewhere=True
            ) from None
        if error is not None:
            raise ExportRefusedError(error.message, elsewhere=True)

    def _head(self, group: AnyGroup) -> pb.ExportHead:
        machine = group.machine
        return pb.ExportHead(
            cluster_id=self._node.config.cluster_id,
            group_id=group.group_id,
            applied_index=machine.applied_index,
            applied_term=machine.applied_term,
            taken_at_ms=self._node.services.clock.wall_ms(),
            encoding=machine.known.encoding,
            kinds=sorted(machine.kinds),
        )

    async def _portions(self, pieces: _Pieces) -> AsyncIterator[pb.ExportPortion]:
        clock = self._node.services.clock
        held = bytearray()
        spent, begun = 0, clock.monotonic()
        for piece in pieces:
            if isinstance(piece, pb.ExportPortion):
                if held:
                    yield pb.ExportPortion(rows=bytes(held))
                    held.clear()
                yield piece
                spent += ROW_BYTES_MIN
            else:
                held += piece
                spent += max(len(piece), ROW_BYTES_MIN)
            while len(held) >= PORTION_BYTES:
                yield pb.ExportPortion(rows=bytes(held[:PORTION_BYTES]))
                del held[:PORTION_BYTES]
            if spent >= SLICE_BYTES or clock.monotonic() - begun >= SLICE_SECONDS:
                await self._rate.spent(spent)
                spent, begun = 0, clock.monotonic()
        if held:
            yield pb.ExportPortion(rows=bytes(held))


def framed(key: bytes, value: bytes) -> bytes:
    """One row as it goes out."""
    return len(key).to_bytes(4, "big") + len(value).to_bytes(4, "big") + key + value


def _all_but_batches(reader: PrefixedReader, *, has_batches: bool) -> _Pieces:
    found = all_but_batches(reader, _END) if has_batches else reader.scan(b"", _END)
    return (framed(*row) for row in found)


def _batches(reader: PrefixedReader, ranges: list[pb.ExportRange]) -> _Pieces:
    for wanted in ranges:
        walk = batches_between(reader, wanted.stream_id, wanted.first, wanted.end)
        begins = pb.ExportedStream(stream_id=wanted.stream_id, trim_point=walk.trim_point or 0)
        begins.gone = walk.trim_point is None
        yield pb.ExportPortion(stream=begins)
        for row in walk.batches:
            yield framed(*row)
