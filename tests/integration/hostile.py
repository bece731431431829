"""A stranger at the nodes' port: with or without the cluster's secret, saying whatever it likes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.own_cluster import OwnCluster
from svc_cluster.link.handshake import Identity, make_metadata
from svc_cluster.replica.identity import FILE_NAME, SLOT_BYTES
from svc_cluster.replica.peers import FORM_METHOD, PEER_METHOD, SESSION_METHOD, SNAPSHOT_METHOD

Metadata = tuple[tuple[str, str], ...]

U64_MAX: Final = 2**64 - 1
OPTIONS: Final = (
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.use_local_subchannel_pool", 1),
)
BODIES: Final = (
    "append_request",
    "append_response",
    "vote_request",
    "vote_granted",
    "pre_vote_request",
    "pre_vote_response",
    "stale_term",
    "timeout_now",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What somebody knows who has read a node's disk."""

    cluster_id: str
    secret: bytes
    ports: dict[int, int]
    incarnations: dict[int, str]


def facts_of(cluster: OwnCluster) -> Facts:
    rows = cluster.file()["nodes"]
    return Facts(
        json.loads((cluster.directory / "local.json").read_text())["cluster_id"],
        (cluster.directory / "cluster.secret").read_bytes().strip(),
        {int(row["id"]): int(row["rpc_port"]) for row in rows},
        {int(row["id"]): _incarnation(Path(row["data_dir"])) for row in rows},
    )


def _incarnation(data_dir: Path) -> str:
    slot = (data_dir / "wal" / FILE_NAME).read_bytes()[:SLOT_BYTES]
    return str(json.loads(slot[slot.index(b"{") : slot.index(b"}") + 1])["incarnation"])


def proof(facts: Facts, node: int, **changes: Any) -> Metadata:
    """Metadata as node `node` would send it; `changes`: secret, cluster_id, role, node_id,
    incarnation."""
    identity = Identity(
        changes.get("cluster_id", facts.cluster_id),
        changes.get("role", "node"),
        NodeId(changes.get("node_id", node)),
        changes.get("incarnation", facts.incarnations[node]),
    )
    return make_metadata(changes.get("secret", facts.secret), identity, secrets.token_hex(16))


async def stream(port: int, method: str, metadata: Metadata, frames: list[bytes]) -> str:
    """Say all of it on one stream. `open` when the node still listens afterwards, else the status
    by which it ended the call."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        call = channel.stream_stream(method)(metadata=metadata)
        try:
            async with asyncio.timeout(10):
                await call.initial_metadata()
                for frame in frames:
                    await call.write(frame)
                async with asyncio.timeout(0.25):
                    await call.read()
                if not call.done():
                    return "open"
        except TimeoutError:
            call.cancel()
            return "open"
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        return str((await call.code()).name)


async def barrage(port: int, liars: list[Metadata], frames: list[bytes]) -> int:
    """Say all of it, on a new stream whenever the node ended the last one; `liars` are the proofs
    of each. Returns how many streams that took."""
    streams = 0
    left = deque(frames)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        while left:
            streams += 1
            call = channel.stream_stream(PEER_METHOD)(metadata=liars[streams - 1])
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await call.initial_metadata()
                while left and not call.done():
                    await call.write(left.popleft())
                    await asyncio.sleep(0.002)  # the refusal comes, or not, before the next
            call.cancel()
    return streams


async def snapshot_chunk(port: int, metadata: Metadata, chunk: bytes) -> str:
    """One chunk: the status, or for an answer `accepted` or the reason of the refusal."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        try:
            reply = await channel.unary_unary(SNAPSHOT_METHOD)(chunk, metadata=metadata, timeout=10)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        result = replica_pb2.SnapshotResult.FromString(reply)
        return "accepted" if result.accepted else result.reason


async def form(port: int, metadata: Metadata, report: bytes) -> str:
    """One report on the formation: the status, or `answered`."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        try:
            await channel.unary_unary(FORM_METHOD)(report, metadata=metadata, timeout=10)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "answered"


async def every_method(port: int, metadata: Metadata, frame: bytes) -> list[str]:
    return [
        await stream(port, PEER_METHOD, metadata, [frame]),
        await stream(port, SESSION_METHOD, metadata, [frame]),
        await snapshot_chunk(port, metadata, frame),
    ]


def bombs(marker: Path) -> list[bytes]:
    """Pickles that make a file when they are loaded: one of each protocol, written by hand."""
    path = str(marker).encode()
    call = b"cbuiltins\nopen\n(V%s\nVw\ntR." % path
    text = b"\x8c%c%s" % (len(path), path)
    modern = b"\x8c\x08builtins\x8c\x04open\x93" + text + b"\x8c\x01w\x86R."
    old = [call, call, b"\x80\x02" + call, b"\x80\x03" + call]
    return [*old, b"\x80\x04" + modern, b"\x80\x05" + modern]


INTERESTING: Final = (0, 1, 2, 3, 5, 2**31, 2**32, 2**53, 2**62 - 1, 2**62, 2**63, U64_MAX)


def random_number(rng: random.Random, near: int) -> int:
    """Numbers around what a group is at, and those at which arithmetic breaks."""
    if rng.random() < 0.6:
        return max(0, near + rng.randint(-5, 5))
    return rng.choice(INTERESTING)


def random_envelope(
    rng: random.Random, groups: list[dict[str, Any]], *, term_max: int = U64_MAX
) -> bytes:
    """Well-formed protobuf, badly formed sense."""
    envelope = peer_pb2.PeerEnvelope()
    for _ in range(rng.randint(1, 4)):
        group = rng.choice(groups)
        message = envelope.messages.add()
        message.group_id = (
            group["group_id"] if rng.random() < 0.9 else random_number(rng, group["group_id"])
        )
        message.sender_term = min(random_number(rng, group["term"]), term_max)
        name = rng.choice((*BODIES, ""))
        if not name:
            continue
        body = getattr(message, name)
        body.SetInParent()
        for field in body.DESCRIPTOR.fields:
            if field.name == "entries":
                _random_entries(rng, body, group, term_max)
            elif field.type == field.TYPE_BOOL:
                setattr(body, field.name, rng.random() < 0.5)
            elif field.type == field.TYPE_UINT64:
                near = group["term"] if "term" in field.name else group["last_index"]
                number = random_number(rng, near)
                if "term" in field.name:
                    number = min(number, term_max)
                setattr(body, field.name, number)
    return envelope.SerializeToString()


def _random_entries(rng: random.Random, body: Any, group: dict[str, Any], term_max: int) -> None:
    for _ in range(rng.randint(0, 3)):
        payload = rng.choice((b"", b"\x09\x01", b"\x01", b"\x80\x04N.", rng.randbytes(40)))
        term = min(random_number(rng, group["term"]), term_max)
        body.entries.add(term=term, payload=payload)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The same bytes with some of them changed, cut or repeated."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        kind = rng.randrange(4)
        at = rng.randrange(len(out) + 1)
        if kind == 0 and out:
            out[at % len(out)] = rng.randrange(256)
        elif kind == 1:
            del out[at : at + rng.randint(1, 8)]
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            out[at:at] = out[: rng.randint(0, 16)]
    return bytes(out)
