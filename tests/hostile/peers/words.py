"""A stranger at the nodes' port: with or without the cluster's secret, saying whatever it likes."""

from __future__ import annotations

import json
import random
import secrets
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.base.ids import NodeId
from svc_cluster.codec.formation_report import encode_report
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.credit import MESSAGE_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.model.formation import FormationReport, Stage
from svc_cluster.replica.identity import FILE_NAME, SLOT_BYTES
from svc_cluster.replica.peers import RAFT
from tests.hostile.peers.stranger import OPEN, Claim, Stranger

U64_MAX: Final = 2**64 - 1
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
    begin = slot.index(b'{"')  # behind a checksum, in which there may be anything
    return str(json.loads(slot[begin : slot.index(b"}", begin) + 1])["incarnation"])


def proof(facts: Facts, node: int, **changes: Any) -> Claim:
    """What node `node` says of itself; `changes`: secret, cluster_id, role, node_id,
    incarnation."""
    identity = Identity(
        changes.get("cluster_id", facts.cluster_id),
        changes.get("role", "node"),
        NodeId(changes.get("node_id", node)),
        changes.get("incarnation", facts.incarnations[node]),
    )
    return Claim(changes.get("secret", facts.secret), Speaker(identity))


def gateway(facts: Facts) -> Claim:
    """A gateway, as whoever has the secret can say to be."""
    return proof(facts, 1, role="gateway", node_id=0, incarnation=secrets.token_hex(16))


def report(node: int, incarnation: str) -> bytes:
    """What a node says that knows nobody yet."""
    told = FormationReport(NodeId(node), incarnation, 0, Stage.GATHERING, ())
    return encode_report(told)


def raft(facts: Facts, node: int) -> Claim:
    """Node `node` with its messages of Raft."""
    return proof(facts, node).naming(RAFT)


def peer_message(envelope: bytes) -> tuple[FrameKind, bytes]:
    """In the class in which a node would send so much."""
    data = encode(Verb.PEER, 0, envelope)
    return FrameKind.URGENT if len(data) <= MESSAGE_BYTES_MAX[
        FrameKind.URGENT
    ] else FrameKind.BULK, data


async def talk(port: int, claim: Claim, *messages: tuple[FrameKind, bytes]) -> str:
    """Say all of it in one conversation: OPEN when the node goes on listening, else the reason for
    which it ended it."""
    async with await Stranger.call(port) as stranger:
        answer = await stranger.prove(claim)
        if answer != OPEN:
            return answer
        for message in messages:
            stranger.message(*message)
        return await stranger.listens()


async def barrage(port: int, liars: list[Claim], envelopes: list[bytes]) -> int:
    """Say all of it, in a new conversation whenever the node ended the last one; `liars` are the
    callers of each. Returns how many conversations that took."""
    conversations = 0
    left = deque(envelopes)
    while left:
        async with await Stranger.call(port) as stranger:
            answer = await stranger.prove(liars[conversations])
            conversations += 1
            while left and answer == OPEN:
                stranger.message(*peer_message(left.popleft()))
                answer = await stranger.listens()
    return conversations


async def _called(port: int, claim: Claim, kind: FrameKind, verb: Verb, body: bytes) -> bytes | str:
    """The body of the answer, or the reason why there is none."""
    async with await Stranger.call(port) as stranger:
        answer = await stranger.prove(claim)
        if answer != OPEN:
            return answer
        stranger.message(kind, encode(verb, 1, body))
        return await stranger.answer(1) or str(stranger.end)


async def snapshot_chunk(port: int, claim: Claim, chunk: bytes) -> str:
    """One chunk: `accepted`, or the reason of the refusal."""
    answer = await _called(port, claim, FrameKind.TRANSFER, Verb.SNAPSHOT, chunk)
    if isinstance(answer, str):
        return answer
    result = replica_pb2.SnapshotResult.FromString(answer)
    return "accepted" if result.accepted else result.reason


async def form(port: int, claim: Claim, report: bytes) -> str:
    """One report on the formation: `answered`, or the reason for which the node ended the
    conversation."""
    answer = await _called(port, claim, FrameKind.CALL, Verb.FORM, report)
    return answer if isinstance(answer, str) else "answered"


async def ask(
    port: int, claim: Claim, request: replica_pb2.Request, kind: FrameKind = FrameKind.CALL
) -> replica_pb2.Response | str:
    """The answer to a request, or the reason for which the node ended the conversation."""
    answer = await _called(port, claim, kind, Verb.REQUEST, request.SerializeToString())
    return answer if isinstance(answer, str) else replica_pb2.Response.FromString(answer)


def chunk_message(chunk: bytes) -> tuple[FrameKind, bytes]:
    return FrameKind.TRANSFER, encode(Verb.SNAPSHOT, 1, chunk)


def request_message(request: bytes) -> tuple[FrameKind, bytes]:
    return FrameKind.CALL, encode(Verb.REQUEST, 1, request)


async def every_way(port: int, claim: Claim, frame: bytes) -> list[str]:
    """The same bytes as messages of Raft, as a chunk and as a request; the first two of a caller
    that says to talk Raft."""
    return [
        await talk(port, claim.naming(RAFT), peer_message(frame)),
        await talk(port, claim.naming(RAFT), chunk_message(frame)),
        await talk(port, claim, request_message(frame)),
    ]


def memory_bytes(pid: int, field: str = "VmHWM") -> int:
    """Of a process: its peak (VmHWM) or what it has now (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def forget_peak(pid: int) -> int:
    """The peak counts from now on; returns what the process has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory_bytes(pid, "VmRSS")


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
