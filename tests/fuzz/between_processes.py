"""Targets of what processes of a cluster send each other, and of what logs hold."""

from __future__ import annotations

import asyncio
import contextlib
import random
from types import SimpleNamespace
from typing import Any, Final, cast

import xxhash
from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2, log_entry_pb2, peer_pb2, replica_pb2
from svc_cluster._pb.cluster.v1.replica_pb2 import FormationReport
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.configuration import (
    ConfigurationFormatError,
    decode_configuration,
    encode_configuration,
    first_configuration,
    is_of_newer_format,
)
from svc_cluster.base.errors import MalformedError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.catalog.catalog_commands import RemoveBasin
from svc_cluster.codec.catalog_entry import (
    CatalogEntryFormatError,
    decode_catalog_entry,
    encode_catalog_entry,
)
from svc_cluster.codec.entry_version import UnknownEntryError
from svc_cluster.codec.formation_report import FormationFormatError, decode_report, encode_report
from svc_cluster.codec.log_entry import EntryFormatError
from svc_cluster.codec.peer_message import PeerMessageError, encode_envelope, encode_message
from svc_cluster.codec.rpc import (
    batch_from_pb,
    identity_from_pb,
    read_bounds_from_pb,
    requests_from_pb,
    session_sequence_from_pb,
)
from svc_cluster.link.frame import FrameError, FrameKind, FrameReader, encode_frame
from svc_cluster.link.greeting import (
    Speaker,
    check_claim,
    check_welcome,
    make_challenge,
    make_claim,
    make_refusal,
    make_welcome,
)
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.replica.memory_budget import MemoryBudget
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.replica.snapshot import SnapshotReceiver
from svc_cluster.replica.snapshot_chunk import address, hash_pair
from svc_cluster.replica.snapshot_pieces import pairs_hasher, proof_hasher
from tests.at_once import decode_entry, decode_envelope, encode_entry
from tests.fuzz.messages import any_message
from tests.fuzz.target import Check, Target, chance, expect
from tests.memory_store import MemoryStore
from tests.unit.codec.test_log_entry import GOLDEN as COMMANDS
from tests.unit.codec.test_peer_message import MESSAGES

SECRET: Final = b"s" * 64
NONCE: Final = bytes(32)
OTHER_NONCE: Final = bytes(range(32))
SPEAKER: Final = Speaker(Identity("cluster", "node", NodeId(1), "a" * 32))
CHUNK_BYTES_MAX: Final = 2**16


def check_link_frames() -> Check:
    """The same frames, or the same refusal, however the bytes are cut; never more is held than a
    header and a payload."""

    def check(data: bytes) -> None:
        rng = chance(data)
        pieces, rest = [], data
        while rest:
            size = rng.choice((1, 2, 7, 100, len(rest)))
            pieces.append(rest[:size])
            rest = rest[size:]
        whole = _frames([data])
        expect(_frames(pieces) == whole, "other frames where the bytes are cut elsewhere")
        again = b"".join(
            encode_frame(kind, payload, series=series, more=more)
            for kind, more, series, payload in whole[0]
        )
        expect(data.startswith(again), "frames that were not sent")

    return check


def _frames(pieces: list[bytes]) -> tuple[list[tuple[FrameKind, bool, int, bytes]], bool]:
    reader = FrameReader(1000)
    found: list[tuple[FrameKind, bool, int, bytes]] = []
    try:
        for piece in pieces:
            found.extend((f.kind, f.more, f.series, f.payload) for f in reader.feed(piece))
            expect(reader.held_bytes < 2000, "more is held than a frame")
    except FrameError:
        return found, True
    return found, False


def make_link_frames(rng: random.Random) -> bytes:
    return b"".join(
        encode_frame(
            rng.choice(list(FrameKind)),
            rng.randbytes(rng.choice((0, 1, 30, 1000))),
            series=rng.choice((0, 1, 7)),
            more=rng.random() < 0.3,
        )
        for _ in range(rng.randint(0, 4))
    )


def check_handshake() -> Check:
    """Whoever does not know the secret is nobody, whatever they say."""
    claim, _ = make_claim(SECRET, make_challenge(NONCE), SPEAKER, OTHER_NONCE)
    challenge = make_challenge(NONCE)
    welcome = make_welcome(SECRET, NONCE, OTHER_NONCE, 1, SPEAKER)

    def check(data: bytes) -> None:
        with contextlib.suppress(HandshakeError, FrameError):
            found, _, _ = check_claim(SECRET, "cluster", NONCE, data)
            expect(found.identity == SPEAKER.identity and len(data) >= len(claim), "a forged claim")
        with contextlib.suppress(HandshakeError, FrameError):
            make_claim(SECRET, data, SPEAKER, OTHER_NONCE)
        with contextlib.suppress(HandshakeError, FrameError):
            found = check_welcome(SECRET, "cluster", challenge, OTHER_NONCE, 1, data)
            expect(len(data) >= len(welcome), "a forged welcome")

    return check


def make_handshake(rng: random.Random) -> bytes:
    claim, _ = make_claim(SECRET, make_challenge(NONCE), SPEAKER, OTHER_NONCE)
    welcome = make_welcome(SECRET, NONCE, OTHER_NONCE, 1, SPEAKER)
    return rng.choice((claim, welcome, make_challenge(NONCE), make_refusal("why")))


def check_peer_messages() -> Check:
    """Taken: written again, they are read as the same."""

    def check(data: bytes) -> None:
        try:
            envelope = decode_envelope(data)
        except PeerMessageError:
            return
        members = [encode_message(group, message) for group, message in envelope.messages]
        again = decode_envelope(encode_envelope(b"", members, envelope.wall_ms))
        expect(again.messages == envelope.messages and not again.faults, "other messages")

    return check


def make_peer_messages(rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        batch = peer_pb2.PeerBatch(wall_ms=rng.randint(0, 2**40))
        for _ in range(rng.randint(1, 3)):
            batch.messages.append(any_message(rng, peer_pb2.GroupMessage).SerializeToString())
        return batch.SerializeToString()
    short = [each for each in MESSAGES if len(encode_message(GroupId(1), each)) < 2000]
    chosen = rng.choices(short, k=rng.choice((1, 1, 2, 3)))
    return encode_envelope(b"", [encode_message(GroupId(rng.randint(0, 9)), m) for m in chosen], 7)


def check_log_entries() -> Check:
    """Taken: written again, it is read as the same."""

    def check(data: bytes) -> None:
        with contextlib.suppress(UnknownEntryError, EntryFormatError):
            commands = decode_entry(data)
            expect(decode_entry(encode_entry(commands)) == commands, "another entry of a basin")
        with contextlib.suppress(UnknownEntryError, CatalogEntryFormatError):
            decode_catalog_entry(data)

    return check


def make_log_entry(rng: random.Random) -> bytes:
    draw = rng.random()
    if draw < 0.3:
        entry = catalog_entry_pb2.CatalogEntry()
        entry.commands.append(any_message(rng, catalog_entry_pb2.CatalogCommand))
        return encode_catalog_entry([RemoveBasin(GroupId(7))])[:2] + entry.SerializeToString()
    if draw < 0.6:
        basin = log_entry_pb2.LogEntry(commands=[any_message(rng, log_entry_pb2.Command)])
        return encode_entry([])[:2] + basin.SerializeToString()
    return encode_entry([command for command, _ in rng.choices(COMMANDS, k=rng.randint(1, 3))])


def check_requests() -> Check:
    """What gateways ask nodes: made of a message, or refused as a fault of the caller."""

    def check(data: bytes) -> None:
        with contextlib.suppress(DecodeError, MalformedError):
            append = replica_pb2.AppendRequest.FromString(data)
            session_sequence_from_pb(append)
            batch = batch_from_pb(append)
            expect(len(batch.commands) <= 1000, "more commands than a batch has")
            requests = requests_from_pb(append)
            expect(requests <= max(batch.record_count, 1), "more requests than records")
            if append.HasField("sealed_for"):
                identity_from_pb(append.sealed_for)
        with contextlib.suppress(DecodeError, MalformedError):
            read_bounds_from_pb(replica_pb2.ReadRequest.FromString(data))

    return check


def make_request(rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        kind = rng.choice((replica_pb2.AppendRequest, replica_pb2.ReadRequest))
        return any_message(rng, kind).SerializeToString()
    message = replica_pb2.AppendRequest(records=rng.randbytes(20), record_count=2)
    message.commands.add(offset=1, kind=rng.randint(0, 3), token="t")
    message.session.session_id = rng.randbytes(16)
    return message.SerializeToString()


def check_configuration() -> Check:
    """Of a group's members: what is read is written as the very bytes."""

    def check(data: bytes) -> None:
        with contextlib.suppress(ConfigurationFormatError):
            found = decode_configuration(data)
            expect(encode_configuration(found) == data, "another configuration")
            expect(not is_of_newer_format(data), "known and of a newer format")
        with contextlib.suppress(FormationFormatError):
            report = decode_report(data)
            expect(decode_report(encode_report(report)) == report, "another report")

    return check


def make_configuration(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return any_message(rng, FormationReport).SerializeToString()
    nodes = rng.sample(range(1, 9), rng.randint(1, 5))
    return encode_configuration(first_configuration([NodeId(node) for node in sorted(nodes)]))


def check_snapshots() -> Check:
    """Chunks of transfers, each behind its length: installed is only what was sent whole, with the
    digest of what is in the store."""
    return _Transfers()


class _Transfers:
    """A check with an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.close = self._loop.close

    def __call__(self, data: bytes) -> None:
        self._loop.run_until_complete(_receive(self._loop, data))


async def _receive(loop: asyncio.AbstractEventLoop, data: bytes) -> None:
    store = MemoryStore(loop, random.Random(1), flush_ms=(0, 0))
    clock = SystemClock()
    installed: list[Generation] = []
    generations = iter(range(1, 2**20))

    async def install(
        _group: GroupId, _index: LogIndex, _term: Term, generation: Generation, _of: NodeId
    ) -> None:
        installed.append(generation)

    receiver = SnapshotReceiver(
        services=cast(Any, SimpleNamespace(store=store, clock=clock, loop=loop)),
        leads=lambda *_: None,
        wants=lambda *_: None,
        cannot_read=lambda *_: None,
        new_generation=lambda: Generation(next(generations)),
        discard=lambda _: None,
        install=install,
        pieces=MemoryBudget(2**30, clock).pieces,
    )
    last, by_pieces = b"", dict[int, bool]()
    for chunk in _chunks(data):
        reply = replica_pb2.SnapshotResult.FromString(await receiver.chunk(NodeId(1), chunk))
        expect(reply.accepted or bool(reply.reason), "refused without a reason")
        if reply.accepted and not (begun := replica_pb2.SnapshotChunk.FromString(chunk)).sequence:
            by_pieces[begun.group_id] = begun.pieces
        if installed:
            last = chunk
            break
    if installed:
        prefix = generation_prefix(installed[0])
        hasher, pairs = xxhash.xxh3_64(), 0
        for key, value in store.scan(prefix, prefix + b"\xff" * 64):
            hash_pair(hasher, key.removeprefix(prefix), value)
            pairs += 1
        said = replica_pb2.SnapshotChunk.FromString(last)
        expect(pairs <= said.pairs, "more was installed than was sent")
        if by_pieces.get(said.group_id):
            expect(pairs == said.pairs, "rows of another transfer were installed")
        elif pairs == said.pairs:
            expect(hasher.intdigest() == said.digest or not _ascends(data), "another digest")


def _ascends(data: bytes) -> bool:
    """Whether keys came in the order in which they are read back."""
    keys: list[bytes] = []
    for chunk in _chunks(data):
        with contextlib.suppress(DecodeError):
            keys += replica_pb2.SnapshotChunk.FromString(chunk).keys
    return keys == sorted(set(keys))


def _chunks(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 2:
        size = int.from_bytes(data[:2], "big")
        found.append(data[2 : 2 + size])
        data = data[2 + size :]
    return found


def make_snapshot(rng: random.Random) -> bytes:
    return _make_pieces(rng) if rng.random() < 0.5 else _make_whole(rng)


def _make_pieces(rng: random.Random) -> bytes:
    """A transfer by pieces, or one that is broken off and another that goes on with it."""
    rows = [b"k%04d" % number for number in range(rng.randint(1, 6))]
    parts, held = [], list[bytes]()
    for transfer_id in range(rng.randint(1, 2)):
        proof = proof_hasher()
        for key in rows:
            hasher = pairs_hasher()
            hash_pair(hasher, key, b"value")
            proof.update(hasher.digest())
        kept, held = len(held), []
        said = [replica_pb2.SnapshotChunk(pieces=True)]
        for key in rows[kept:]:
            piece = replica_pb2.SnapshotChunk(keys=[key], values=[b"value"], until=key, kept=kept)
            said.append(piece)
            kept = 0
        end = replica_pb2.SnapshotChunk(last=True, kept=kept, pairs=len(rows), proof=proof.digest())
        if transfer_id or rng.random() < 0.5:
            said.append(end)
        else:
            said = said[: rng.randint(1, len(said))]
            held = rows[: len(said) - 1]
        for sequence, chunk in enumerate(said):
            address(chunk, GroupId(3), transfer_id, sequence, LogIndex(7), Term(2))
            chunk.sender_term = 2
            encoded = chunk.SerializeToString()
            parts.append(len(encoded).to_bytes(2, "big") + encoded)
    return b"".join(parts)


def _make_whole(rng: random.Random) -> bytes:
    hasher, pairs, parts = xxhash.xxh3_64(), 0, []
    chunks = rng.randint(1, 3)
    for sequence in range(chunks):
        chunk = replica_pb2.SnapshotChunk(
            group_id=3, transfer_id=9, sequence=sequence, log_index=7, term=2, sender_term=2
        )
        for _ in range(rng.randint(0, 3)):
            key, value = b"k%04d" % pairs, rng.randbytes(rng.choice((0, 3, 40)))
            hash_pair(hasher, key, value)
            chunk.keys.append(key)
            chunk.values.append(value)
            pairs += 1
        if sequence == chunks - 1:
            chunk.last, chunk.pairs, chunk.digest = True, pairs, hasher.intdigest()
        encoded = chunk.SerializeToString()
        parts.append(len(encoded).to_bytes(2, "big") + encoded)
    return b"".join(parts)


TARGETS: Final = (
    Target("link-frames", check_link_frames, make_link_frames),
    Target("handshake", check_handshake, make_handshake),
    Target("peer-messages", check_peer_messages, make_peer_messages),
    Target("log-entries", check_log_entries, make_log_entry),
    Target("requests", check_requests, make_request),
    Target("configuration", check_configuration, make_configuration),
    Target("snapshots", check_snapshots, make_snapshot),
)
