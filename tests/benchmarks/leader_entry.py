"""`python -m tests.benchmarks.leader_entry [--stages]`: what an entry costs its leader.

A whole replica of a basin leads three; its clock, disk, network and event loop are the benchmark's,
so that nothing but its own code takes time. An entry goes its usual way: appends come in, an entry
is made of them, the own disk has it, one follower's answer commits it, then the other one's comes.
Told are microseconds of processor time an entry and an append, and as `of_reference` how many times
the duration of a fixed loop that takes turns with it, which is what may be compared between two
versions on a machine with other work. `--stages` tells where the time goes: each stage without
those inside of it, with the cost of looking (so that they add up to more), and how often it is
entered. Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.base.log_ops import CreateReplica, RecoveredLog
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.record import AppendAck, StoredBatch
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.core import Core
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Message, PeerUp, Role, Tick
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    PeerMessage,
    PreVoteResponse,
    VoteGranted,
)
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica import append as append_module
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.group_replica import GroupReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.proposer import Proposer
from svc_cluster.storage.disk import DiskFile
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from svc_cluster.stream.sequencer import Sequencer
from tests.memory_store import MemoryStore
from tests.unit.storage.fakes import FakeDisk

ROUNDS: Final = 80
SHAPES: Final = ((1, 1, 40), (1, 64, 4), (64, 64, 4))
"""Streams, appends an entry, entries a round. Rounds are short, so that some are not disturbed."""
STAGE_ROUNDS: Final = 5
BATCH: Final = StoredBatch(b"\x0a\x80\x08" + b"r" * 1024, 1, 1032)
ME: Final = NodeId(1)
OTHERS: Final = (NodeId(2), NodeId(3))
GROUP: Final = GroupId(7)
FAR: Final = 1e12
REFERENCE_STEPS: Final = 8000
"""Of the fixed loop; about a millisecond."""

Stages: Final[dict[str, tuple[tuple[type, str], ...]]] = {
    "sequence": ((Sequencer, "append"),),
    "encode": ((Proposer, "_encoded"),),
    "propose": ((EngineGroup, "propose"),),
    "tick": ((Core, "tick"),),
    "step": ((EngineGroup, "step"),),
    "ready": ((EngineGroup, "ready"),),
    "frame": ((Wal, "append"),),
    "drain": ((GroupReplica, "_drain"),),
    "apply": ((GroupReplica, "_apply"),),
}


class _Clock:
    """Stands still but where it is moved."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(1_700_000_000_000 + int(self.now * 1000))


class _Loop:
    """What is asked for is done when the benchmark says so, and timers never end."""

    def __init__(self) -> None:
        self._due: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        self._due.append((call, arguments))

    def call_later(self, _: float, call: Callable[..., object], *arguments: object) -> _Timer:
        return _Timer()

    def run(self) -> None:
        while self._due:
            call, arguments = self._due.popleft()
            call(*arguments)


class _Timer:
    def cancel(self) -> None:
        return


class _Disk(FakeDisk):
    """Has everything on the platter without looking at it."""

    def _sync(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        self.sync_count += 1


class _Store(MemoryStore):
    """Keeps no second copy for what a crash would leave."""

    def write(self, write_set: WriteSet) -> None:
        self._pairs.apply(write_set)


@dataclass(slots=True)
class _Peers:
    sent: dict[NodeId, int] = field(default_factory=dict)
    """The number of the last message to each."""
    held_bytes: int = 0

    def names(self, feature: str, peer: NodeId) -> bool:
        return False

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        if isinstance(message, AppendRequest):
            self.sent[peer] = message.read_sequence


class Leader:
    """Node 1 of three; the others answer when they are asked to."""

    def __init__(self, streams: int) -> None:
        self._loop = _Loop()
        loop = cast(asyncio.AbstractEventLoop, self._loop)
        self._clock = _Clock()
        self._disk = _Disk()
        self._peers = _Peers()
        wal = Wal.open(self._disk, 1, WalSettings(segment_bytes=1 << 26))
        wal.append(GROUP, [CreateReplica(Generation(1))], None)
        self.acks = 0
        self._replica = BasinReplica(
            make_engine=self._engine,
            generation=Generation(1),
            services=GroupServices(
                node_id=ME,
                loop=loop,
                clock=self._clock,
                wal=wal,
                store=_Store(loop, random.Random(1)),
                peers=self._peers,
                log=get_logger("bench"),
            ),
            record=lambda: None,
            on_sealed=lambda record: None,
            on_snapshot_wanted=lambda peer: None,
            on_fault=_raise,
        )
        self._group = self._replica.group
        self._elect()
        sequencer = self._replica.sequencer
        self._change(lambda now_ms: sequencer.bootstrap("basin-one", BasinConfig(), now_ms))
        self._streams = [f"s{number}" for number in range(streams)]
        for name in self._streams:
            self._change(partial(sequencer.create_stream, name, None))

    def _engine(self, applied_index: LogIndex) -> EngineGroup:
        return EngineGroup(
            group_id=GROUP,
            node_id=ME,
            members=[ME, *OTHERS],
            recovered=RecoveredLog(GROUP, Generation(1)),
            applied_index=applied_index,
            rng=random.Random(1),
            settings=RaftSettings(),
        )

    def _elect(self) -> None:
        group = self._group
        for peer in OTHERS:
            group.step(PeerUp(peer))
        group.step(Tick(self._clock.now))
        self._clock.now += RaftSettings().election_max + 0.05
        group.step(Tick(self._clock.now))
        self._settle()
        voter = OTHERS[1]
        term = group.engine.term
        group.step(Message(voter, PreVoteResponse(term, type(term)(term + 1), granted=True)))
        self._settle()
        group.step(Message(voter, VoteGranted(group.engine.term)))
        self._settle()
        self._commit()
        assert group.engine.role is Role.LEADER, "the vote was enough"

    def _change(self, sequence: Callable[[TimestampMs], Any]) -> None:
        self._replica.appender.change(sequence, FAR, _nothing)
        self._commit()

    def _settle(self) -> None:
        self._loop.run()
        self._disk.run()
        self._loop.run()

    def _commit(self) -> None:
        self._settle()
        for peer in OTHERS:
            self._answer(peer)

    def _answer(self, peer: NodeId) -> None:
        engine = self._group.engine
        upto = LogIndex(engine.last_index + 1)
        response = AppendResponse(engine.term, upto, True, False, self._peers.sent.get(peer, 0))
        self._group.step(Message(peer, response))
        self._loop.run()

    def entry(self, appends: int) -> None:
        """One entry from its appends to their answers."""
        self._clock.now += 0.001
        for number in range(appends):
            name = self._streams[number % len(self._streams)]
            self._replica.appender.append(name, BATCH, None, None, FAR, self._acked)
        self._commit()

    def _acked(self, ack: AppendAck | None, error: ServiceError | None) -> None:
        assert ack is not None, f"refused: {error}"
        self.acks += 1


class StageClock:
    """Takes the time of each stage, without those inside of it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*Stages, "answer"), 0.0)
        self.calls = dict.fromkeys((*Stages, "answer"), 0)
        self._inside: list[float] = []
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> StageClock:
        for stage, places in Stages.items():
            for owner, name in places:
                self._wrap(owner, name, stage)
        self._wrap(append_module, "_acked", "answer")
        return self

    def __exit__(self, *_: object) -> None:
        for undo in self._undo:
            undo()

    def _wrap(self, owner: Any, name: str, stage: str) -> None:
        inner = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._inside.append(0.0)
            begun = time.thread_time()
            try:
                return inner(*arguments, **named)
            finally:
                took = time.thread_time() - begun
                self.seconds[stage] += took - self._inside.pop()
                self.calls[stage] += 1
                if self._inside:
                    self._inside[-1] += took

        setattr(owner, name, timed)
        self._undo.append(lambda: setattr(owner, name, inner))


def _raise(fault: BaseException) -> None:
    raise fault


def _nothing(outcome: object, error: ServiceError | None) -> None:
    assert error is None, f"refused: {error}"


def reference() -> float:
    """Seconds of processor time of a loop like the code's: calls, objects, dicts, bytes."""
    begun = time.thread_time()
    table: dict[int, tuple[int, bytes]] = {}
    for number in range(REFERENCE_STEPS):
        table[number % 64] = (number, b"".join((b"key", number.to_bytes(8, "big"))))
    return time.thread_time() - begun


def _round(leader: Leader, appends: int, entries: int) -> float:
    before = leader.acks
    begun = time.thread_time()
    for _ in range(entries):
        leader.entry(appends)
    took = time.thread_time() - begun
    assert leader.acks == before + entries * appends, "each append was answered"
    return took / entries


def measure(streams: int, appends: int, rounds: int, entries: int) -> dict[str, object]:
    """The quickest of the rounds, because other processes only ever make them slower; the median
    of their ratios to the reference before and behind each, which they make slower as well."""
    leader = Leader(streams)
    _round(leader, appends, entries)
    took, ratios = [], []
    before = reference()
    for _ in range(rounds):
        took.append(_round(leader, appends, entries))
        after = reference()
        ratios.append(2 * took[-1] / (before + after))
        before = after
    best = min(took)
    return {
        "streams": streams,
        "appends_an_entry": appends,
        "us_an_entry": round(best * 1e6, 1),
        "us_an_append": round(best * 1e6 / appends, 2),
        "of_reference": round(statistics.median(ratios), 3),
    }


def stages(streams: int, appends: int, entries: int) -> dict[str, object]:
    leader = Leader(streams)
    _round(leader, appends, entries)
    with StageClock() as clock:
        # what was bound before is what a leader made now does not use
        leader = Leader(streams)
        _round(leader, appends, entries)
        before, calls = dict(clock.seconds), dict(clock.calls)
        _round(leader, appends, entries)
    return {
        "streams": streams,
        "appends_an_entry": appends,
        "us": {
            name: round((clock.seconds[name] - before[name]) * 1e6 / entries, 1) for name in before
        },
        "calls": {name: round((clock.calls[name] - calls[name]) / entries, 2) for name in calls},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--stages", action="store_true")
    options = parser.parse_args()
    gc.disable()  # it comes when it comes, and not to every version alike
    for streams, appends, entries in SHAPES:
        print(json.dumps(measure(streams, appends, options.rounds, entries)), flush=True)
        if options.stages:
            print(json.dumps(stages(streams, appends, STAGE_ROUNDS * entries)), flush=True)


if __name__ == "__main__":
    main()
