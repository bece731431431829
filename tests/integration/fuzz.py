"""`python -m tests.integration.fuzz --inputs N`: bytes for what listens to peers and gateways.

One real node of three, whose peers are us: messages go to whoever deals with proven callers of its
port, as `link_server` makes them: envelopes into its groups, requests to its service, chunks into
the `SnapshotReceiver`. Whatever is sent, nothing may raise but what ends a conversation, nothing is
unpickled, and the node lives.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.log import configure
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.formation_report import decode_report, encode_report
from svc_cluster.link.calls import Verb, decode, encode
from svc_cluster.link.credit import MESSAGE_BYTES_MAX, send_credits
from svc_cluster.link.frame import CLASSES, FrameError, FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.model.formation import FormationReport, Stage
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.link_server import PeerCaller, ServiceCaller, caller_of
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_parts import NodeConfig, Seams
from svc_cluster.replica.peers import RAFT
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.wal.wal_settings import WalSettings
from tests.hostile.peers.words import INTERESTING, U64_MAX, bombs, mutated, random_envelope
from tests.memory_store import MemoryStore

_DEADLINES_MS: Final = (0, 1, 5, 100)
_FIRST: Final = Stage.GATHERING
_SETTLE_SECONDS: Final = 0.02
_DESTRUCTIVE: Final = frozenset(
    {"delete_stream", "seal_basin", "freeze_basin", "delete_basin", "remove_basin"}
)
_SETTLE_EVERY: Final = 200


class Silence:
    """Peers that have formed a cluster with the node, and never hear anything else."""

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        told = decode_report(report)
        return encode_report(replace(told, node_id=peer, incarnation=f"{peer:032x}"))

    def part(self) -> None: ...

    held_bytes = 0

    def names(self, feature: str, peer: NodeId) -> bool:
        return False

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        return

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        raise ConnectionError("nobody is there")


class Line:
    """One conversation with the node, from its opening on; a new one when it was ended."""

    def __init__(self, target: Target, speaker: Speaker) -> None:
        self._target = target
        self._speaker = speaker
        self._credits = send_credits()
        self._caller = self._call()
        self.reads = True
        """Whether it deals with what it is told."""

    def _call(self) -> PeerCaller | ServiceCaller:
        self._credits = send_credits()
        return caller_of(self._target.node, self._speaker, self, self._target.tasks)

    def say(self, kind: FrameKind, payload: bytes) -> bool:
        """False when the node ended the conversation because of it."""
        try:
            self._caller.message(kind, payload[: MESSAGE_BYTES_MAX[kind]])
        except FrameError:
            self._caller.link_down()
            self._caller = self._call()
            return False
        return True

    # -- the node's way back

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        credit = self._credits[kind]
        if not credit.allows(len(payload)):
            raise NoCreditError
        assert len(payload) <= MESSAGE_BYTES_MAX[kind]
        credit.queued += len(payload)
        message = decode(payload)
        assert message.verb is Verb.ANSWER, message
        self._target.answered(message.number, message.body)
        if self.reads:
            credit.dealt_with += len(payload)
            asyncio.get_running_loop().call_soon(self._caller.room, kind, len(payload))

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        assert size > 0


class Target:
    """The node, and what went wrong in it."""

    def __init__(self, directory: Path, seed: int, size: int) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        self.faults: list[str] = []
        self.answers: Counter[str] = Counter()
        self.rng = random.Random(seed)
        self.disk = RealDisk(directory, loop)
        silence = Silence()
        seams = Seams(
            loop=loop,
            clock=SystemClock(),
            rng=random.Random(seed),
            disk=self.disk,
            store=MemoryStore(loop, random.Random(seed)),
            peers=silence,
            snapshots=silence,
            formation=silence,
        )
        nodes = tuple(NodeId(number) for number in range(1, size + 1))
        config = NodeConfig(
            cluster_id="f" * 32,
            node_id=nodes[0],
            addresses={node: f"127.0.0.1:{node}" for node in nodes},
            host=HostSettings(nodes, size),
            wal=WalSettings(segment_bytes=8 * 1024 * 1024, reserve_bytes=1024 * 1024),
        )
        self.node = ReplicaNode(config, seams, on_fatal=self._fatal)
        self.node.start()
        self.tasks = Tasks()
        self._forms: set[int] = set()
        self._chunks: dict[int, asyncio.Future[str]] = {}
        self._number = 0
        gateway = Identity(config.cluster_id, "gateway", NodeId(0), "fuzz")
        self.gateway = Line(self, Speaker(gateway))
        others = [Identity(config.cluster_id, "node", NodeId(n), f"{n:032x}") for n in (2, 3)]
        self.services = [Line(self, Speaker(one)) for one in others]
        self.peers = {one.node_id: Line(self, Speaker(one, (RAFT,))) for one in others}
        self.marker = directory / "executed"
        self.bombs = bombs(self.marker)

    def _fatal(self, fault: BaseException) -> None:
        self.faults.append(f"fatal: {fault!r}")

    def _unhandled(self, _: Any, context: dict[str, Any]) -> None:
        self.faults.append(f"unhandled: {context.get('exception')!r} {context.get('message')}")

    def answered(self, number: int, body: bytes) -> None:
        """The node answers a number of ours."""
        if number in self._forms:
            self._forms.discard(number)
            decode_report(body)
            self.answers["form answered"] += 1
            return
        chunk = self._chunks.pop(number, None)
        if chunk is not None:
            result = replica_pb2.SnapshotResult.FromString(body)
            chunk.set_result("chunk taken" if result.accepted else result.reason)
            return
        response = replica_pb2.Response.FromString(body)
        kind = response.WhichOneof("result") or "nothing"
        self.answers[response.refusal.code if kind == "refusal" else kind] += 1

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def settle_in(self) -> None:
        """Wait for the formation; a node that is alone leads itself then: give it a basin and a
        stream."""
        async with asyncio.timeout(20):
            while not self.node.former.formation.is_formed:
                await asyncio.sleep(0.01)
        if len(self.node.config.addresses) > 1:
            return
        async with asyncio.timeout(20):
            while not self.node.host.basins:
                self._ask(1, "create_basin", basin="fuzzed-basin")
                await asyncio.sleep(0.1)
            while not self.answers["stream"]:
                self._ask(max(self.node.host.basins), "create_stream", stream="a")
                await asyncio.sleep(0.1)

    def _ask(self, group_id: int, operation: str, **fields: str) -> None:
        request = replica_pb2.Request(group_id=group_id, deadline_ms=1000)
        inner = getattr(request, operation)
        inner.SetInParent()
        for name, value in fields.items():
            setattr(inner, name, value)
        said = encode(Verb.REQUEST, self._next(), request.SerializeToString())
        assert self.gateway.say(FrameKind.CALL, said)

    async def close(self) -> None:
        await self.tasks.cancel_all()
        await self.node.stop()
        await self.node.wal.close()
        self.disk.close()

    # -- one input each

    def envelope(self) -> None:
        rng = self.rng
        data = random_envelope(rng, self.node.host.probe(), term_max=2**31)
        line = self.peers[NodeId(rng.choice((2, 3)))]
        unread = self._unread()
        taken = line.say(FrameKind.BULK, encode(Verb.PEER, 0, self._spoil(data)))
        self.answers["envelope taken" if taken else "envelope refused"] += 1
        self.answers["messages refused"] += self._unread() - unread

    def _unread(self) -> int:
        return sum(seldom.total for seldom in self.node.unread.values())

    def request(self) -> None:
        """One, of a gateway or of a node; some are cancelled, some numbers come twice."""
        rng = self.rng
        if self.node.host.basins and rng.random() < 0.1:
            # one that gets as far as there is
            operation = rng.choice(("check_tail", "get_stream_config", "describe_stream", "read"))
            self._ask(max(self.node.host.basins), operation, stream="a")
            return
        request = replica_pb2.Request()
        self._fill(request, depth=0)
        if request.WhichOneof("operation") in _DESTRUCTIVE and rng.random() < 0.98:
            request.append.stream = "a"  # or nothing would be left to talk to
        request.deadline_ms = rng.choice(_DEADLINES_MS)
        if rng.random() < 0.9:
            request.request_key = rng.choice((b"", bytes(32), rng.randbytes(32)))
        if rng.random() < 0.9:
            request.group_id = rng.choice((1, *self.node.host.basins))
        line = self.gateway if rng.random() < 0.8 else rng.choice(self.services)
        line.reads = rng.random() < 0.9
        number = self._next() if rng.random() < 0.95 else rng.choice((0, 1, self._number, U64_MAX))
        data = encode(Verb.REQUEST, number, self._spoil(request.SerializeToString()))
        if not line.say(rng.choice(CLASSES), data):
            self.answers["number refused"] += 1
        if rng.random() < 0.1:
            line.say(FrameKind.URGENT, encode(Verb.CANCEL, rng.choice((number, number // 2))))

    def words(self) -> None:
        """Anything at all, of anybody: verbs that are another's, and what is none."""
        rng = self.rng
        number = self._next()
        body = self._spoil(encode_report(FormationReport(NodeId(2), f"{2:032x}", 0, _FIRST, ())))
        verb = rng.choice(tuple(Verb))
        data = encode(verb, number, body)
        if verb is Verb.FORM:
            self._forms.add(number)
        elif rng.random() < 0.3:
            data = self._spoil(bytes([rng.randrange(256)]) + data[1 : rng.randint(1, len(data))])
        line = rng.choice((self.gateway, *self.services, *self.peers.values()))
        taken = line.say(rng.choice(CLASSES), data or b"?")
        self._forms.discard(number)
        self.answers["words taken" if taken else "words refused"] += 1

    async def chunk(self) -> None:
        chunk = replica_pb2.SnapshotChunk()
        self._fill(chunk, depth=0)
        catalog = self.node.host.catalog
        assert catalog is not None, "the cluster is formed"
        engine = catalog.group.engine
        if self.rng.random() < 0.7:
            chunk.group_id = 1
            chunk.log_index = self.rng.randint(10**6, 10**9)
            chunk.term = self.rng.randint(1, 10)
            chunk.sequence = self.rng.randint(0, 2)
            chunk.transfer_id = self.rng.randint(0, 2)
            chunk.recovery = 0
            chunk.sender_term = engine.term  # only the leader's chunks count
            chunk.ClearField("encoding")
            del chunk.kinds[:]
            del chunk.values[len(chunk.keys) :]
            del chunk.keys[len(chunk.values) :]
        sender = engine.leader
        if sender not in self.peers:
            sender = NodeId(self.rng.choice((2, 3)))
        number = self._next()
        answer = self._chunks[number] = asyncio.get_running_loop().create_future()
        data = encode(Verb.SNAPSHOT, number, self._spoil(chunk.SerializeToString()))
        if self.peers[sender].say(FrameKind.TRANSFER, data):
            self.answers[await answer] += 1
        else:
            del self._chunks[number]
            self.answers["chunk refused"] += 1

    def _spoil(self, data: bytes) -> bytes:
        """Mostly as it is; else changed, a pickle, or noise."""
        draw = self.rng.random()
        if draw < 0.6:
            return data
        if draw < 0.9:
            return mutated(self.rng, data)
        if draw < 0.93:
            return self.rng.choice(self.bombs)
        return self.rng.randbytes(self.rng.randint(0, 60))

    def _fill(self, message: Any, depth: int) -> None:
        """Random values in random fields, by the message's own description."""
        rng = self.rng
        fields = list(message.DESCRIPTOR.fields)
        oneofs = {field.containing_oneof for field in fields if field.containing_oneof}
        chosen = {oneof.full_name: rng.choice(oneof.fields).name for oneof in oneofs}
        for field in fields:
            oneof = field.containing_oneof
            if oneof is not None and chosen[oneof.full_name] != field.name:
                continue
            if rng.random() < 0.2 and oneof is None:
                continue
            many = field.is_repeated
            if field.message_type is not None:
                if depth > 4:
                    continue
                for _ in range(rng.randint(0, 2) if many else 1):
                    inner = getattr(message, field.name)
                    inner = inner.add() if many else inner
                    inner.SetInParent()
                    self._fill(inner, depth + 1)
            elif many:
                values = [self._value(field) for _ in range(rng.randint(0, 3))]
                getattr(message, field.name).extend(values)
            else:
                setattr(message, field.name, self._value(field))

    def _value(self, field: Any) -> Any:
        rng = self.rng
        if field.type == field.TYPE_BOOL:
            return rng.random() < 0.5
        if field.type == field.TYPE_BYTES:
            return rng.choice((b"", rng.randbytes(rng.randint(1, 40)), rng.choice(self.bombs)))
        if field.type == field.TYPE_STRING:
            return rng.choice(
                ("", "a", "a", "a", "basin-name-8", "x" * 600, "\0", "ä/..", "\U0001f600")
            )
        if field.type == field.TYPE_ENUM:
            return self.rng.choice(field.enum_type.values).number
        if field.type == field.TYPE_UINT32:
            return rng.choice((0, 1, 2, 9, 1000, 2**31, 2**32 - 1))
        wide = rng.choice((0, 1, 2, 3, 1000, *INTERESTING)) % 2**64
        signed = field.type in (field.TYPE_SINT64, field.TYPE_INT64)
        return wide - 2**63 if signed else wide


async def fuzz(inputs: int, seed: int, directory: Path, *, size: int = 3) -> Target:
    """Send `inputs` inputs to one node of a cluster of `size`: alone it serves, among three it
    listens to peers. Look at `faults` afterwards."""
    target = Target(directory, seed, size)
    try:
        await target.settle_in()
        for number in range(inputs):
            # one that is alone has no peers: most is for its service
            kind = target.rng.randrange(2 if size == 1 else 0, 10)
            try:
                if kind < 3 and size > 1:
                    target.envelope()
                elif kind < 6 or (kind < 8 and size == 1):
                    target.request()
                elif kind < 9:
                    await target.chunk()
                else:
                    target.words()
            except Exception as fault:
                target.faults.append(f"input {number} of seed {seed}: {fault!r}"[:300])
            if number % _SETTLE_EVERY == 0:
                await asyncio.sleep(_SETTLE_SECONDS)
            if len(target.faults) > 10:
                break
        if target.marker.exists():
            target.faults.append("a pickle was loaded")
    finally:
        await target.close()
    return target


class NoUnpickling:
    """While entered, unpickling anything in this process raises, and is noted."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._armed = False
        sys.addaudithook(self._hook)  # hooks stay for ever: so they are told when to look away

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if self._armed and event == "pickle.find_class":
            self.seen.append(f"unpickled {args!r}")
            raise RuntimeError(f"unpickled {args!r}")

    def __enter__(self) -> NoUnpickling:
        self._armed = True
        return self

    def __exit__(self, *_: object) -> None:
        self._armed = False


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    configure("error", "text")
    guard = NoUnpickling()
    begin = time.monotonic()
    done = 0
    answers: Counter[str] = Counter()
    faults: list[str] = []
    seed = options.seed
    while done < options.inputs and not faults:
        part = min(20_000, options.inputs - done)
        with tempfile.TemporaryDirectory(prefix="svc-fuzz-") as scratch, guard:
            target = asyncio.run(fuzz(part, seed, Path(scratch), size=3 if seed % 2 else 1))
        answers += target.answers
        faults += target.faults + guard.seen
        done += part
        seed += 1
    print(f"{done} inputs in {time.monotonic() - begin:.1f} s, {len(faults)} faults")
    for answer, count in answers.most_common():
        print(f"  {count:>8} {answer}")
    for fault in faults:
        print(f"FAULT {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
