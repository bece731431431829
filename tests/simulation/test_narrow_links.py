"""A link carries only so much: what is urgent goes past entries and snapshots, which go on.

The conversations are the product's, with their frames, credit and order; the simulated link under
them is narrow, and its socket takes no more than a real one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.link.calls import Verb, decode, encode
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.wire import Wire
from svc_cluster.raft.messages import AppendRequest
from svc_cluster.replica.peers import RAFT, LinkPeers
from svc_cluster.replica.transfers import TRANSFERS_MAX
from tests.at_once import decode_envelope
from tests.simulation.adapters import SimAcceptor, SimCaller
from tests.simulation.loop import SimLoop, run
from tests.simulation.network import NetworkProfile, SimNetwork
from tests.simulation.snapshot_scenario import OPTIONS
from tests.simulation.test_transfers import play

MIB = 1024 * 1024
RATE = 4 * MIB
"""Bytes a second of the narrow link."""

SECONDS = 8.0
HEARTBEAT_S = 0.1
ENTRY_BYTES = 200_000
QUIET, BUSY, BUSIER = GroupId(1), GroupId(2), GroupId(3)
PEER = NodeId(2)
URGENT_WAIT_S = MIB / RATE + 0.02
"""Half a MiB is with the socket, a slice goes over it, and there is the delay."""


def _terms(node: int, *features: str) -> Callable[[], Terms]:
    speaker = Speaker(Identity("c1", "node", NodeId(node), f"i{node}"), features)
    return lambda: Terms(b"secret", speaker, lambda _: None)


class _Taker:
    """The peer: notes when what arrives, and answers chunks of snapshots."""

    def __init__(self, loop: SimLoop, wire: Wire) -> None:
        self._loop = loop
        self._wire = wire
        self.heartbeats: list[tuple[int, float]] = []
        self.entry_bytes = 0
        self.chunk_bytes = 0

    def message(self, kind: FrameKind, payload: bytes) -> None:
        verb, number, body = decode(payload)
        if verb is Verb.SNAPSHOT:
            self.chunk_bytes += len(body)
            self._wire.send(FrameKind.CALL, 0, encode(Verb.ANSWER, number, b"taken"))
        elif verb is Verb.PEER:
            for group_id, message in decode_envelope(body).messages:
                assert isinstance(message, AppendRequest)
                self.entry_bytes += sum(len(entry.payload) for entry in message.entries)
                if group_id == QUIET:
                    self.heartbeats.append((message.read_sequence, self._loop.time()))
        self._wire.dealt_with(kind, len(payload))

    def room(self, kind: FrameKind, size: int) -> None:
        """Nothing is sent here but answers."""

    def link_down(self) -> None:
        raise AssertionError("the link is narrow, not broken")


class _Sender:
    """One node's links to the peer, everything that it may send being sent at once."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.takers: list[_Taker] = []
        self.sent: dict[int, float] = {}
        self.waits = asyncio.Event()
        self.network = SimNetwork(loop, random.Random(1), NetworkProfile())
        SimAcceptor(loop, self.network, "peer", _terms(2), self._welcome)
        caller = SimCaller(loop, self.network, "sender")
        self.network.limit("sender", "peer", bytes_per_s=RATE)
        terms = _terms(1, RAFT)
        self.peers = LinkPeers(
            loop=loop,
            peers=(PEER,),
            clock=lambda: None,
            open_link=lambda _peer, _raft, events: caller.link("peer", terms, events),
        )
        self.peers.connect(lambda _: None, lambda _: None, lambda _: self.waits.set())

    def _welcome(self, _speaker: Speaker, wire: Wire) -> _Taker:
        self.takers.append(_Taker(self.loop, wire))
        return self.takers[-1]

    async def snapshots(self) -> None:
        while True:
            assert await self.peers.call(PEER, bytes(MIB)) == b"taken"

    async def entries(self, group_id: GroupId) -> None:
        """As leaders do: for as long as there is room."""
        index = 1
        while True:
            while self.peers.has_room(PEER):
                entry = LogEntry(LogIndex(index), Term(1), bytes(ENTRY_BYTES))
                self.peers.send(PEER, group_id, _request(index - 1, (entry,), 0))
                index += 1
                await asyncio.sleep(0)
            self.waits.clear()
            await self.waits.wait()

    async def heartbeats(self) -> None:
        number = 0
        while True:
            number += 1
            self.sent[number] = self.loop.time()
            self.peers.send(PEER, QUIET, _request(0, (), number))
            await asyncio.sleep(HEARTBEAT_S)


def _request(previous: int, entries: tuple[LogEntry, ...], number: int) -> AppendRequest:
    return AppendRequest(Term(1), LogIndex(previous), Term(1), LogIndex(0), entries, number)


def test_heartbeats_go_past_entries_and_snapshots_on_a_narrow_link() -> None:
    """Two snapshots and two groups' entries fill it for seconds: each heartbeat arrives no later
    than what the socket holds takes, and neither entries nor snapshots stand still."""

    async def main(loop: SimLoop) -> None:
        sender = _Sender(loop)
        await asyncio.sleep(1.0)
        running = [loop.create_task(sender.snapshots()) for _ in range(TRANSFERS_MAX)]
        running += [loop.create_task(sender.entries(group)) for group in (BUSY, BUSIER)]
        running.append(loop.create_task(sender.heartbeats()))
        await asyncio.sleep(SECONDS)
        (taker,) = sender.takers
        assert len(taker.heartbeats) >= SECONDS / HEARTBEAT_S - URGENT_WAIT_S / HEARTBEAT_S - 1
        waits = [arrived - sender.sent[number] for number, arrived in taker.heartbeats]
        assert max(waits) <= URGENT_WAIT_S, sorted(waits)[-5:]
        carried = taker.entry_bytes + taker.chunk_bytes
        assert carried > 0.8 * RATE * SECONDS, "the link was full"
        assert taker.chunk_bytes > carried / 8 and taker.entry_bytes > carried / 2
        for task in running:
            assert not task.done()
            task.cancel()

    run(main)


def test_a_snapshot_over_narrow_links_of_a_cluster_changes_no_leader() -> None:
    """Half a mebibyte a second and 30 ms each way, for every link of the nodes: a replica that was
    away becomes whole, and nobody stands for election meanwhile."""
    play("over_narrow_links", replace(OPTIONS, constants=()))
