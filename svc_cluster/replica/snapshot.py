"""Moving a group's whole state to a replica whose log is too far behind.

Sender: a frozen view of the store at one applied index, in chunks. Receiver: everything under a
new generation, verified by count and digest, flushed; then one WAL frame makes it the group's
state; then the old copy is deleted. A crash at any step leaves either the old copy or the new one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import xxhash
from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.memory import MemoryPart
from svc_cluster.base.tasks import Tasks
from svc_cluster.base.write_set import WriteSet
from svc_cluster.raft.group import PeerInstalled
from svc_cluster.replica.callbacks import settle
from svc_cluster.replica.group_replica import STALL_RETRY_SECONDS, AnyGroup
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.prefixed import PREFIX_BYTES, PrefixedReader, generation_prefix
from svc_cluster.replica.snapshot_chunk import address, hash_pair
from svc_cluster.replica.snapshot_reader import SnapshotDamagedError, looked_at
from svc_cluster.replica.transfers import LogHolds, TransferQueue
from svc_cluster.storage.state_store import StoreStalledError

CHUNK_BYTES: Final = 1024 * 1024
CHUNK_PAIRS_MAX: Final = 1024

TURN_PAIRS_MAX: Final = 256
"""Pairs that are looked at, or written, in one turn of the event loop: a small one costs its sender
about 16 us. What a chunk holds bounds their bytes."""

PIECE_BYTES: Final = 2 * CHUNK_BYTES
"""What a chunk takes at its sender, with its encoding; what exceeds CHUNK_BYTES in its last value
is little beside that."""

SNAPSHOT_RETRY_SECONDS: Final = 1.0

INCOMING_MAX: Final = 4
"""Transfers that a node takes at one time; the senders try again."""

INCOMING_IDLE_SECONDS: Final = 60.0
"""Behind two calls' time a transfer that brings nothing has no claim to its place."""


class SnapshotRefusedError(Exception):
    """The receiver does not want this snapshot (any more)."""


class SnapshotTransport(Protocol):
    """How snapshot chunks reach another node."""

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        """Deliver one chunk and return the reply. Raises ConnectionError."""
        ...


class SnapshotSender:
    """Transfers from this node: few at a time, at most one for each group and peer."""

    def __init__(
        self,
        services: GroupServices,
        transport: SnapshotTransport,
        group: Callable[[GroupId], AnyGroup | None],
        rng: random.Random,
        tasks: Tasks,
        pieces: MemoryPart,
    ) -> None:
        """`pieces`: room for what is on its way."""
        self._pieces = pieces
        self._services = services
        self._transport = transport
        self._group = group
        self._rng = rng
        self._tasks = tasks
        self._queue = TransferQueue()
        self.holds = LogHolds()
        self.sent = 0
        self.not_sent = 0
        """Transfers that came to nothing."""

    @property
    def running(self) -> int:
        """Transfers under way."""
        return self._queue.running

    def wanted(self, group_id: GroupId, peer: NodeId) -> None:
        """A group led here has a peer that only a snapshot can help; may be repeated."""
        self._queue.ask((group_id, peer))
        self._begin_next()

    def _begin_next(self) -> None:
        while (transfer := self._queue.begin()) is not None:
            self._tasks.spawn(self._run(*transfer), "send snapshot")

    async def _run(self, group_id: GroupId, peer: NodeId) -> None:
        try:
            is_refused = await self._send(group_id, peer)
        finally:
            self._queue.ended((group_id, peer))
        self._begin_next()
        if is_refused:
            await asyncio.sleep(SNAPSHOT_RETRY_SECONDS)
        self._queue.forget((group_id, peer))

    async def _send(self, group_id: GroupId, peer: NodeId) -> bool:
        """Whether the transfer was broken off: the next attempt is then not made at once."""
        log = self._services.log_of(group_id)
        is_sent = False
        group = self._group(group_id)
        try:
            # a leader that serves nothing yet may need this very peer for its quorum; what it has
            # applied is committed all the same
            if group is None or group.stopped or not group.engine.can_propose:
                return False
            repair = group.engine.repair_of(peer)
            if repair is not None and (
                not repair.confirmed or group.applied_index < repair.least_index
            ):
                return False  # the peer goes on asking
            now = self._services.clock.monotonic()
            self.holds.begin(group_id, peer, group.applied_index, now)
            log_index, pairs = await send_snapshot(
                group,
                self._services,
                self._rng.getrandbits(63),
                partial(self._transport.call, peer),
                self._pieces,
                recovery=0 if repair is None else repair.recovery,
            )
            log.info("snapshot_sent", peer=peer, log_index=log_index, pairs=pairs)
            is_sent = True
            self.sent += 1
            self._services.figures.on_snapshot_sent(self._services.clock.monotonic() - now)
            if peer in group.engine.members:
                group.step(PeerInstalled(peer, log_index))
        except SnapshotDamagedError as damage:
            self.not_sent += 1
            log.info("snapshot_not_sent", peer=peer, cause=str(damage))
            assert group is not None, "its state was looked at"
            group.on_diverged(str(damage))
            return True
        except (SnapshotRefusedError, ConnectionError) as cause:
            self.not_sent += 1
            log.info("snapshot_not_sent", peer=peer, cause=str(cause))
            return True
        finally:
            if is_sent:
                self.holds.sent(group_id, peer)
            else:
                self.holds.release(group_id, peer)
        return False


async def send_snapshot(
    group: AnyGroup,
    services: GroupServices,
    transfer_id: int,
    call: Callable[[bytes], Awaitable[bytes]],
    pieces: MemoryPart,
    *,
    recovery: int = 0,
) -> tuple[LogIndex, int]:
    """Send the group's applied state; returns its log index and the number of pairs. It waits for
    room among the `pieces` of snapshots before it reads the next one. `recovery` is the number
    under which a recovering replica asked. Every row is looked at before it leaves, as the scrub
    does, and the receiver has no complete snapshot before the last one was: raises
    SnapshotDamagedError for a gap or a row that is not what belongs there, SnapshotRefusedError, or
    what `call` raises when the connection is lost."""
    view = services.store.snapshot()
    log_index, term = group.machine.applied_index, group.machine.applied_term
    encoding, kinds = group.machine.known.encoding, group.machine.written(services.version.seen)
    sender_term = group.engine.term

    async def deliver(chunk: pb.SnapshotChunk) -> None:
        if not group.engine.can_propose or group.engine.term != sender_term:
            raise SnapshotRefusedError("this node leads the group no more")
        chunk.recovery, chunk.sender_term = recovery, sender_term
        if not sequence:
            chunk.encoding = encoding
            chunk.kinds.extend(kinds)
        address(chunk, group.group_id, transfer_id, sequence, log_index, term)
        _check(await call(chunk.SerializeToString()))

    hasher = xxhash.xxh3_64()
    total = 0
    sequence = 0
    try:
        pairs = looked_at(group.group_id, PrefixedReader(view, group.generation))
        while True:
            await pieces.wait(PIECE_BYTES)
            try:
                chunk = await _read_chunk(pairs, hasher)
                if not chunk.keys:
                    break
                total += len(chunk.keys)
                await deliver(chunk)
                del chunk
            finally:
                pieces.give_back(PIECE_BYTES)
            sequence += 1
    finally:
        view.close()
    await deliver(pb.SnapshotChunk(last=True, digest=hasher.intdigest(), pairs=total))
    return log_index, total


async def _read_chunk(
    pairs: Iterator[tuple[bytes, bytes]], hasher: xxhash.xxh3_64
) -> pb.SnapshotChunk:
    """The next pairs, digested; none at the end. Others have a turn of the event loop behind
    TURN_PAIRS_MAX of them: what is read from is frozen."""
    chunk = pb.SnapshotChunk()
    size = 0
    for key, value in pairs:
        hash_pair(hasher, key, value)
        chunk.keys.append(key)
        chunk.values.append(value)
        size += PREFIX_BYTES + len(key) + len(value)
        if size >= CHUNK_BYTES or len(chunk.keys) >= CHUNK_PAIRS_MAX:
            break
        if len(chunk.keys) % TURN_PAIRS_MAX == 0:
            await asyncio.sleep(0)
    return chunk


def _check(reply: bytes) -> None:
    result = pb.SnapshotResult.FromString(reply)
    if not result.accepted:
        raise SnapshotRefusedError(result.reason)


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
            return _reply("the node holds as many pieces of snapshots as it may")
        try:
            return await self._take(sender, data)
        finally:
            self._pieces.give_back(size)

    async def _take(self, sender: NodeId, data: bytes) -> bytes:
        try:
            chunk = pb.SnapshotChunk.FromString(data)
        except DecodeError:
            return _reply("not a snapshot chunk")
        group_id = GroupId(chunk.group_id)
        reason = self._leads(group_id, sender, Term(chunk.sender_term))
        if reason is not None:
            return _reply(reason)  # the leader's own transfer is none of its business
        reason = self._wants(group_id, LogIndex(chunk.log_index), Term(chunk.term), chunk.recovery)
        if reason is not None:
            self.drop(group_id)
            return _reply(reason)
        if chunk.sequence == 0:
            reason = self._cannot_read(group_id, chunk.encoding, chunk.kinds)
            if reason is not None:
                return _reply(reason)
            if not self._begin(sender, chunk):
                return _reply("too many snapshots are being taken")
        incoming = self._incoming.get(group_id)
        if (
            incoming is None
            or incoming.sender != sender
            or incoming.transfer_id != chunk.transfer_id
            or incoming.next_sequence != chunk.sequence
            or len(chunk.keys) != len(chunk.values)
        ):
            return _reply("the chunk does not continue a transfer")
        incoming.next_sequence += 1
        incoming.heard_at = self._services.clock.monotonic()
        if chunk.keys:
            await self._write(group_id, incoming, chunk)
        if self._incoming.get(group_id) is not incoming:
            return _reply("the transfer was given up")
        if chunk.last:
            return await self._finish(group_id, incoming, chunk)
        return _reply(None)

    def _begin(self, sender: NodeId, chunk: pb.SnapshotChunk) -> bool:
        """Whether there is room for it."""
        group_id = GroupId(chunk.group_id)
        self.drop(group_id)
        now = self._services.clock.monotonic()
        self.sweep(now)
        if len(self._incoming) >= INCOMING_MAX:
            return False
        self._incoming[group_id] = _Incoming(
            sender,
            chunk.transfer_id,
            self._new_generation(),
            LogIndex(chunk.log_index),
            Term(chunk.term),
            chunk.recovery,
            Term(chunk.sender_term),
            now,
        )
        return True

    def sweep(self, now: float) -> None:
        """Give up the transfers that have brought nothing for so long that nobody goes on with
        them; called now and then. `now` is monotonic."""
        for group_id, incoming in list(self._incoming.items()):
            if now - incoming.heard_at > INCOMING_IDLE_SECONDS:
                self.drop(group_id)

    def drop(self, group_id: GroupId) -> None:
        """Give up the group's transfer, if there is one, and delete what it has brought."""
        old = self._incoming.pop(group_id, None)
        if old is not None:
            self._discard(old.generation)

    async def _write(self, group_id: GroupId, incoming: _Incoming, chunk: pb.SnapshotChunk) -> None:
        """Others have a turn of the event loop behind TURN_PAIRS_MAX pairs. A pair counts once it
        was written, so that no digest is complete before the state is."""
        prefix = generation_prefix(incoming.generation)
        for first in range(0, len(chunk.keys), TURN_PAIRS_MAX):
            if first:
                await asyncio.sleep(0)
                if self._incoming.get(group_id) is not incoming:
                    return  # its generation may be deleted already
            keys = chunk.keys[first : first + TURN_PAIRS_MAX]
            values = chunk.values[first : first + TURN_PAIRS_MAX]
            write_set = WriteSet()
            for key, value in zip(keys, values, strict=True):
                hash_pair(incoming.hasher, key, value)
                write_set.put(prefix + key, value)
            await self._write_portion(group_id, incoming, write_set)
            incoming.pairs += len(keys)

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
    ) -> bytes:
        if chunk.pairs != incoming.pairs or chunk.digest != incoming.hasher.intdigest():
            self.drop(group_id)
            return _reply("the snapshot is damaged")
        flushed: asyncio.Future[None] = self._services.loop.create_future()
        self._services.store.flush(partial(settle, flushed, None))
        await flushed
        reason = self._leads(group_id, incoming.sender, incoming.sender_term) or self._wants(
            group_id, incoming.log_index, incoming.term, incoming.recovery
        )
        if self._incoming.get(group_id) is not incoming:
            return _reply("the transfer was given up")
        if reason is not None:
            self.drop(group_id)
            return _reply(reason)
        del self._incoming[group_id]
        await self._install(
            group_id, incoming.log_index, incoming.term, incoming.generation, incoming.sender
        )
        return _reply(None)


def _reply(reason: str | None) -> bytes:
    result = pb.SnapshotResult(accepted=reason is None, reason=reason or "")
    return result.SerializeToString()
