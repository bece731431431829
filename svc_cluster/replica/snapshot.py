"""Snapshots that reach a node: a group's whole state, where its log is too far behind.

Everything comes under a new generation, is verified by count and digest, and flushed; then one WAL
frame makes it the group's state; then the old copy is deleted. A crash at any step leaves either
the old copy or the new one. What a transfer brought that was broken off is kept for the next one,
which says what of it may stay: see snapshot_pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import xxhash
from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.memory import MemoryPart
from svc_cluster.base.write_set import WriteSet
from svc_cluster.replica.callbacks import settle
from svc_cluster.replica.group_replica import STALL_RETRY_SECONDS
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.prefixed import generation_end, generation_prefix
from svc_cluster.replica.snapshot_chunk import TURN_PAIRS_MAX, Hasher, hash_pair, result
from svc_cluster.replica.snapshot_pieces import ReceivedPieces, pairs_hasher
from svc_cluster.storage.state_store import StoreStalledError

INCOMING_MAX: Final = 4
"""Transfers that a node takes at one time; the senders try again."""

INCOMING_IDLE_SECONDS: Final = 60.0
"""Behind two calls' time a transfer that brings nothing has no claim to its place."""

KEPT_SECONDS: Final = 600.0
"""For so long what a transfer brought waits for the next one of its group, where nobody else needs
the place."""


@dataclass(slots=True)
class _Incoming:
    sender: NodeId
    transfer_id: int
    generation: Generation
    log_index: LogIndex
    term: Term
    recovery: int
    sender_term: Term
    heard_at: float
    pieces: ReceivedPieces | None
    """None: the sender does not go by pieces."""
    is_busy: bool = False
    """A chunk of it is being taken; another one meanwhile would be of a sender that does not wait
    for answers."""
    next_sequence: int = 0
    pairs: int = 0
    hasher: xxhash.xxh3_64 = field(default_factory=xxhash.xxh3_64)


class SnapshotReceiver:
    """Incoming transfers of a node: a few, at most one for each group, each from its leader."""

    def __init__(
        self,
        *,
        services: GroupServices,
        leads: Callable[[GroupId, NodeId, Term], str | None],
        wants: Callable[[GroupId, LogIndex, Term, int], str | None],
        cannot_read: Callable[[GroupId, int, Iterable[str]], str | None],
        new_generation: Callable[[], Generation],
        discard: Callable[[Generation], None],
        install: Callable[[GroupId, LogIndex, Term, Generation, NodeId], Awaitable[None]],
        pieces: MemoryPart,
    ) -> None:
        """`pieces`: room for what is being taken. `leads` is told the sender and the term that it
        leads, `wants` log index, term and recovery, `cannot_read` by what the state was made: its
        encoding and the kinds of commands; each gives a reason for a refusal, or None. `install`
        makes a flushed generation the group's state, told whose it was, and returns when that is
        durable; `discard` deletes a generation."""
        self._services = services
        self._leads = leads
        self._wants = wants
        self._cannot_read = cannot_read
        self._new_generation = new_generation
        self._discard = discard
        self._install = install
        self._pieces = pieces
        self._incoming: dict[GroupId, _Incoming] = {}

    @property
    def running(self) -> int:
        """Transfers that have begun to arrive."""
        return len(self._incoming)

    async def chunk(self, sender: NodeId, data: bytes) -> bytes:
        """Take one chunk; the reply says whether it was accepted."""
        size = 2 * len(data)  # and what it is decoded to
        try:
            self._pieces.take(size)
        except UnavailableError:
            return result("the node holds as many pieces of snapshots as it may")
        try:
            return await self._take(sender, data)
        finally:
            self._pieces.give_back(size)

    async def _take(self, sender: NodeId, data: bytes) -> bytes:
        try:
            chunk = pb.SnapshotChunk.FromString(data)
        except DecodeError:
            return result("not a snapshot chunk")
        group_id = GroupId(chunk.group_id)
        reason = self._leads(group_id, sender, Term(chunk.sender_term))
        if reason is not None:
            return result(reason)  # the leader's own transfer is none of its business
        reason = self._wants(group_id, LogIndex(chunk.log_index), Term(chunk.term), chunk.recovery)
        if reason is not None:
            self.drop(group_id)
            return result(reason)
        if chunk.sequence == 0:
            reason = self._cannot_read(group_id, chunk.encoding, chunk.kinds)
            if reason is not None:
                return result(reason)
            if not self._begin(sender, chunk):
                return result("too many snapshots are being taken")
        incoming = self._incoming.get(group_id)
        if (
            incoming is None
            or incoming.sender != sender
            or incoming.transfer_id != chunk.transfer_id
            or incoming.next_sequence != chunk.sequence
            or incoming.is_busy
            or len(chunk.keys) != len(chunk.values)
        ):
            return result("the chunk does not continue a transfer")
        incoming.next_sequence += 1
        incoming.heard_at = self._services.clock.monotonic()
        incoming.is_busy = True
        try:
            reason = await self._store(group_id, incoming, chunk)
            if reason is None and self._incoming.get(group_id) is not incoming:
                reason = "the transfer was given up"
            if reason is None and chunk.last:
                reason = await self._finish(group_id, incoming, chunk)
        finally:
            incoming.is_busy = False
        offered = () if incoming.pieces is None or reason else incoming.pieces.offered()
        return result(reason, ((piece.last_key, piece.digest) for piece in offered))

    def _begin(self, sender: NodeId, chunk: pb.SnapshotChunk) -> bool:
        """Whether there is room for it. It goes on with what is held, if both sides can."""
        group_id = GroupId(chunk.group_id)
        now = self._services.clock.monotonic()
        held = self._incoming.get(group_id)
        pieces = None if held is None or not chunk.pieces else held.pieces
        if held is not None and pieces is not None:
            generation = held.generation
            pieces.begin()
        else:
            self.drop(group_id)
            self._give_up(now - INCOMING_IDLE_SECONDS)
            if len(self._incoming) >= INCOMING_MAX:
                return False
            generation = self._new_generation()
            pieces = ReceivedPieces() if chunk.pieces else None
        self._incoming[group_id] = _Incoming(
            sender,
            chunk.transfer_id,
            generation,
            LogIndex(chunk.log_index),
            Term(chunk.term),
            chunk.recovery,
            Term(chunk.sender_term),
            now,
            pieces,
        )
        return True

    def sweep(self, now: float) -> None:
        """Give up the transfers that have brought nothing for so long that nobody goes on with
        them; called now and then. `now` is monotonic."""
        self._give_up(now - KEPT_SECONDS)

    def _give_up(self, heard_before: float) -> None:
        for group_id, incoming in list(self._incoming.items()):
            if incoming.heard_at < heard_before:
                self.drop(group_id)

    def drop(self, group_id: GroupId) -> None:
        """Give up the group's transfer, if there is one, and delete what it has brought."""
        old = self._incoming.pop(group_id, None)
        if old is not None:
            self._discard(old.generation)

    async def _store(
        self, group_id: GroupId, incoming: _Incoming, chunk: pb.SnapshotChunk
    ) -> str | None:
        """Take what the chunk brings. Why it is refused; None: it is not, unless the transfer was
        given up meanwhile."""
        pieces = incoming.pieces
        if pieces is None:
            if chunk.keys:
                await self._write(group_id, incoming, chunk, WriteSet(), incoming.hasher)
            return None
        if (chunk.last and (chunk.keys or chunk.until)) or (chunk.keys and not chunk.until):
            return "the chunk is no piece"
        kept = pieces.keep(chunk.kept)
        if kept is None:
            return "these pieces were not told of"
        incoming.pairs += kept
        if not (chunk.until or chunk.last):
            return None
        if chunk.until and not pieces.fits(chunk.keys, chunk.until):
            return "the keys are not those of a piece behind the last one"
        prefix, write_set = generation_prefix(incoming.generation), WriteSet()
        stale = pieces.replace(chunk.until or None)
        if stale is not None:
            start, end = stale
            behind = generation_end(incoming.generation) if end is None else prefix + end
            write_set.delete_range(prefix + start, behind)
        hasher = pairs_hasher()
        await self._write(group_id, incoming, chunk, write_set, hasher)
        if chunk.until and self._incoming.get(group_id) is incoming:
            pieces.written(chunk.until, hasher.digest(), len(chunk.keys))
        return None

    async def _write(
        self,
        group_id: GroupId,
        incoming: _Incoming,
        chunk: pb.SnapshotChunk,
        write_set: WriteSet,
        hasher: Hasher,
    ) -> None:
        """Others have a turn of the event loop behind TURN_PAIRS_MAX pairs. A pair counts once it
        was written, so that no digest is complete before the state is. The first portion joins
        what `write_set` has."""
        prefix = generation_prefix(incoming.generation)
        for first in range(0, max(len(chunk.keys), 1), TURN_PAIRS_MAX):
            if first:
                await asyncio.sleep(0)
                if self._incoming.get(group_id) is not incoming:
                    return  # its generation may be deleted already
            keys = chunk.keys[first : first + TURN_PAIRS_MAX]
            values = chunk.values[first : first + TURN_PAIRS_MAX]
            for key, value in zip(keys, values, strict=True):
                hash_pair(hasher, key, value)
                write_set.put(prefix + key, value)
            if len(write_set):
                await self._write_portion(group_id, incoming, write_set)
            incoming.pairs += len(keys)
            write_set = WriteSet()

    async def _write_portion(
        self, group_id: GroupId, incoming: _Incoming, write_set: WriteSet
    ) -> None:
        while True:
            try:
                self._services.store.write(write_set)
            except StoreStalledError:
                await asyncio.sleep(STALL_RETRY_SECONDS)
                if self._incoming.get(group_id) is not incoming:
                    return  # given up meanwhile: nothing may be written behind the deletion
            else:
                return

    async def _finish(
        self, group_id: GroupId, incoming: _Incoming, chunk: pb.SnapshotChunk
    ) -> str | None:
        """Why it is not installed; None: it is."""
        if incoming.pieces is not None:
            is_same = chunk.proof == incoming.pieces.proof
        else:
            is_same = chunk.digest == incoming.hasher.intdigest()
        if chunk.pairs != incoming.pairs or not is_same:
            self.drop(group_id)
            return "the snapshot is damaged"
        flushed: asyncio.Future[None] = self._services.loop.create_future()
        self._services.store.flush(partial(settle, flushed, None))
        await flushed
        if self._incoming.get(group_id) is not incoming:
            return "the transfer was given up"
        reason = self._leads(group_id, incoming.sender, incoming.sender_term)
        if reason is not None:
            return reason  # the next leader may go on with what is here
        reason = self._wants(group_id, incoming.log_index, incoming.term, incoming.recovery)
        if reason is not None:
            self.drop(group_id)
            return reason
        del self._incoming[group_id]
        await self._install(
            group_id, incoming.log_index, incoming.term, incoming.generation, incoming.sender
        )
        return None
