"""Sequencer, log entry codec, apply and scan against the simple model, over random histories.

Several entries are in flight at a time; leaders are lost with some of them; a follower gets every
entry as bytes, restarts, and has a cache of two streams.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import LogIndex, StreamId, Term, TimestampMs
from svc_cluster.codec.entry_version import BASIN_KINDS
from svc_cluster.codec.log_entry import comes_back
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch
from svc_cluster.model.record import CommandKind, CommandRecord, StoredBatch, TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    NewStream,
    PartialStreamConfig,
    Retention,
)
from svc_cluster.stream import provision_rules, scan, timestamping
from svc_cluster.stream.apply import Applied
from svc_cluster.stream.basin_content import BasinContent
from svc_cluster.stream.commands import BasinCommand
from svc_cluster.stream.effects import View
from svc_cluster.stream.sequencer import Sequencer
from tests.at_once import decode_entry, encode_entry, whole
from tests.property.stream.model import Command, Config, ModelBasin
from tests.unit.stream.support import BASIN, MemoryStore, Replica

NAMES = st.sampled_from(["a", "a/b", "z"])
TOKENS = st.sampled_from(["", "x", "y"])
TIMESTAMPS = st.lists(st.none() | st.integers(0, 120), min_size=1, max_size=5)
COMMANDS = st.lists(
    st.tuples(
        st.integers(0, 4), TOKENS | st.just("trim:"), st.integers(0, 30) | st.just(2**64 - 1)
    ),
    max_size=3,
)

KEPT: Config = {"retention": Retention(None)}
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "storage_class": st.sampled_from([None, "express", "standard"]),
        "retention": st.sampled_from([None, Retention(None), Retention(1)]),
        "timestamping_mode": st.none() | st.sampled_from(TimestampingMode),
        "timestamping_uncapped": st.sampled_from([None, True, False]),
        "delete_on_empty_min_age_seconds": st.sampled_from([None, 0, 1, 5]),
        "shared_caching": st.sampled_from([None, True, False]),
    },
)
"""Given in part, or what is to change: None is not given, or cleared."""

Change = Callable[[ModelBasin], object]


def _records(timestamps: list[int | None]) -> bytes:
    """Stands for the encoded records: the timestamps, one byte each."""
    return bytes(255 if value is None else value for value in timestamps)


def _read_all(store: MemoryStore, replica: Replica, name: str) -> list[tuple[int, int]]:
    """Sequence number and timestamp of every readable record, read in small steps."""
    stream = replica.state.stream_by_name(name)
    assert stream is not None
    first = ReadStart(StartKind.FIRST_RETAINED)
    start = scan.resolve_start(store, stream, first, refuse_at_tail=False)
    out: list[tuple[int, int]] = []
    while True:
        step = scan.read_batches(
            store, stream, start, ReadBounds(), now_ms=TimestampMs(0), max_bytes=3
        )
        for found in step.batches:
            client = [None if value == 255 else value for value in found.records]
            stamped = timestamping.stamp(found.placement, client)
            numbered = enumerate(stamped, found.placement.first_seq_num)
            out += [(seq_num, value) for seq_num, value in numbered if seq_num >= start]
        if not step.may_have_more:
            assert step.next_seq_num == stream.tail_seq_num
            return out
        start = step.next_seq_num


class BasinMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.leader = Replica()
        self.follower = Replica(cached_max=2)
        self.sequencer = Sequencer(self.leader.state)
        self.log: list[tuple[Term, bytes]] = []
        """Every committed entry."""
        self._scrubbed = 0
        self.applied = ModelBasin()
        self.speculative = ModelBasin()
        self.open: list[tuple[BasinCommand, Change, object]] = []
        self.in_flight: list[list[tuple[BasinCommand, Change, object]]] = []
        self.now = 50
        self.term = Term(1)

    @initialize()
    def bootstrap(self) -> None:
        command = self.sequencer.bootstrap(BASIN, BasinConfig(), TimestampMs(1))
        assert command is not None
        self.open.append((command, lambda model: None, None))
        for name in ("a", "z"):
            self.create(name, KEPT)
        self.propose()
        self.apply_next()

    def _ask(self, ask: Callable[[], Any], change: Change) -> None:
        """Do the same to the sequencer and to the model: same refusal, or a command."""
        expected = change(self.speculative)
        if isinstance(expected, type):
            with pytest.raises(ServiceError) as refusal:
                ask()
            assert refusal.type is expected
            return
        command = ask()
        assert (command is None) is (expected is False)
        if command is not None:
            self.open.append((command, change, expected))

    @rule(name=NAMES, timestamps=TIMESTAMPS, commands=COMMANDS, data=st.data())
    def append(
        self, name: str, timestamps: list[int | None], commands: list[Command], data: st.DataObject
    ) -> None:
        commands = [command for command in commands if command[0] < len(timestamps)]
        model = self.speculative.streams.get(name)
        tail = len(model.timestamps) if model is not None else 0
        match = data.draw(st.none() | st.sampled_from([tail, tail, tail + 1, 0]))
        token = data.draw(st.none() | TOKENS)
        given = [value for value in timestamps if value is not None]
        stored = StoredBatch(
            _records(timestamps),
            len(timestamps),
            9 * len(timestamps),
            max(given, default=None),
            len(given),
            timestamp_first_ms=timestamps[0],
        )
        self._append(name, stored, timestamps, commands, match, token)

    def _append(
        self,
        name: str,
        stored: StoredBatch,
        timestamps: list[int | None],
        commands: list[Command],
        match: int | None,
        token: str | None,
    ) -> None:
        stored = dataclasses.replace(
            stored,
            commands=tuple(
                CommandRecord(offset, CommandKind.TRIM, trim_point=point)
                if text == "trim:"
                else CommandRecord(offset, CommandKind.FENCE, token=text)
                for offset, text, point in commands
            ),
        )
        now = self.now
        self._ask(
            lambda: self.sequencer.append(name, stored, match, token, TimestampMs(now)),
            lambda model: model.append(name, timestamps, commands, match, token, now),
        )

    @rule(name=NAMES, config=CONFIGS)
    def create(self, name: str, config: Config) -> None:
        now = TimestampMs(self.now)
        own = PartialStreamConfig(**config)
        self._ask(
            lambda: self.sequencer.create_stream(name, own, now),
            lambda model: model.create(name, config, now),
        )

    def _decide(self, decision: Callable[[View], Any], change: Change) -> None:
        self._ask(lambda: self.sequencer.decide(decision), change)

    @rule(name=NAMES, config=CONFIGS)
    def ensure(self, name: str, config: Config) -> None:
        now = TimestampMs(self.now)
        new = NewStream(PartialStreamConfig(**config))
        self._decide(
            lambda view: provision_rules.ensure_stream(view, name, new, now),
            lambda model: model.ensure(name, config, now),
        )

    @rule(name=NAMES, kind=st.sampled_from(["append", "read"]))
    def auto_create(self, name: str, kind: str) -> None:
        now = TimestampMs(self.now)
        self._decide(
            lambda view: provision_rules.auto_create_stream(
                view, name, NewStream(), now, on_read=kind == "read"
            ),
            lambda model: model.auto_create(name, kind, now),
        )

    @rule(name=NAMES, change=CONFIGS)
    def patch(self, name: str, change: Config) -> None:
        patch = StreamPatch(**change)
        self._decide(
            lambda view: provision_rules.reconfigure_stream(view, name, patch, "standard"),
            lambda model: model.patch(name, change),
        )

    @rule(
        change=st.none() | CONFIGS,
        made_on=st.dictionaries(st.sampled_from(["append", "read"]), st.booleans()),
    )
    def patch_basin(self, change: Config | None, made_on: dict[str, bool]) -> None:
        patch = BasinPatch(
            None if change is None else StreamPatch(**change),
            create_stream_on_append=made_on.get("append"),
            create_stream_on_read=made_on.get("read"),
        )
        self._decide(
            lambda view: provision_rules.reconfigure_basin(view, patch),
            lambda model: model.patch_basin(change, made_on),
        )

    @rule(name=NAMES, later=st.sampled_from([0, 1_000, 5_000]))
    def delete_empty(self, name: str, later: int) -> None:
        stream_id = self._incarnation(name)
        now = TimestampMs(self.now + later)
        self._ask(
            lambda: self.sequencer.delete_empty(stream_id, now),
            lambda model: model.delete_empty(name, now),
        )

    @rule(name=NAMES, commands=COMMANDS, count=st.integers(1, 6))
    def append_several(self, name: str, commands: list[Command], count: int) -> None:
        """Long streams, one command record a batch, so that trims and fences meet each other."""
        for number in range(count):
            stored = StoredBatch(_records([None, 60]), 2, 18, 60, 1)
            taken = [(at % 2, kind, to) for at, kind, to in commands[number : number + 1]]
            self._append(name, stored, [None, 60], taken, None, None)

    @rule(name=NAMES, really=st.integers(0, 3))
    def delete(self, name: str, really: int) -> None:
        if really > 0:
            return
        self._ask(
            lambda: self.sequencer.delete_stream(name, TimestampMs(self.now)),
            lambda model: model.delete(name),
        )

    def _incarnation(self, name: str) -> StreamId:
        model = self.speculative.streams.get(name)
        return StreamId(10**6 if model is None else model.incarnation)

    @rule(name=NAMES)
    def create_anew(self, name: str) -> None:
        """Delete, purge and create in one go: the next incarnation of a name."""
        self.delete(name, 0)
        self.purge(name)
        self.create(name, KEPT)

    @rule(name=NAMES)
    def purge(self, name: str) -> None:
        stream_id = self._incarnation(name)
        self._ask(lambda: self.sequencer.purge(stream_id), lambda model: model.purge(name))

    @rule(name=NAMES, share=st.floats(0, 1))
    def expire(self, name: str, share: float) -> None:
        model = self.speculative.streams.get(name)
        trim_point = 0 if model is None else int(len(model.timestamps) * share)
        stream_id = self._incarnation(name)
        self._ask(
            lambda: self.sequencer.expire(stream_id, trim_point),
            lambda model: model.expire(name, trim_point),
        )

    @precondition(lambda self: len(self.log) > 12)
    @rule(really=st.integers(0, 9))
    def seal(self, really: int) -> None:
        def change(model: ModelBasin) -> bool:
            changed, model.sealed = not model.sealed, True
            return changed

        if really == 0:
            self._ask(lambda: self.sequencer.seal(TimestampMs(self.now)), change)

    @rule(step=st.integers(-20, 40))
    def clock_moves(self, step: int) -> None:
        self.now = max(0, self.now + step)

    @precondition(lambda self: self.open)
    @rule()
    def propose(self) -> None:
        self.in_flight.append(self.open)
        self.open = []
        self.sequencer.proposed(LogIndex(len(self.log) + len(self.in_flight)))

    @precondition(lambda self: self.in_flight)
    @rule()
    def apply_next(self) -> None:
        self._commit(self.in_flight.pop(0))
        self.sequencer.applied(self.leader.state.applied_index)
        if not self.in_flight and not self.open:
            assert not self.sequencer._touched_at

    def _commit(self, entry: list[tuple[BasinCommand, Change, object]]) -> None:
        payload = encode_entry([command for command, _, _ in entry])
        self.log.append((self.term, payload))
        commands = decode_entry(payload)
        for place, (command, _, _) in enumerate(entry):
            if comes_back(command, BASIN_KINDS):
                commands[place] = command  # the leader's own, which nobody has decoded
        planned = self.leader.apply(commands, self.term)
        assert len(planned.outcomes) == len(entry)
        for outcome, (_, change, expected) in zip(planned.outcomes, entry, strict=True):
            assert isinstance(outcome, Applied), "the sequencer promised what apply rejects"
            assert change(self.applied) == expected
            if isinstance(expected, tuple):
                ack = outcome.ack
                assert ack is not None
                start, end = ack.start, ack.end
                assert expected == (
                    start.seq_num, start.timestamp_ms, end.seq_num, end.timestamp_ms,
                )  # fmt: skip

    @rule(really=st.integers(0, 3), survive=st.integers(0, 3), regained=st.booleans())
    def lose_leadership(self, really: int, survive: int, regained: bool) -> None:
        """Some of the entries in flight are committed all the same; then a no-op of a new term."""
        if really > 0:
            return
        for entry in self.in_flight[:survive]:
            self._commit(entry)
        self.in_flight, self.open = [], []
        self.term = Term(self.term + 1)
        self.log.append((self.term, b""))
        self.leader.apply([], self.term)
        if not regained:
            self.leader.restart()
            self.sequencer = Sequencer(self.leader.state)
        self.sequencer.reset()
        self.speculative = copy.deepcopy(self.applied)

    @rule(entries=st.integers(1, 5))
    def follower_catches_up(self, entries: int) -> None:
        first = self.follower.state.applied_index
        for term, payload in self.log[first : first + entries]:
            self.follower.apply(decode_entry(payload) if payload else [], term)

    @rule()
    def follower_restarts(self) -> None:
        self.follower.restart()

    @invariant()
    def equal_applied_index_means_equal_everything(self) -> None:
        ours, theirs = self.leader, self.follower
        if ours.state.applied_index == theirs.state.applied_index:
            assert ours.state.digest == theirs.state.digest
            assert ours.store.values == theirs.store.values

    @invariant()
    def nothing_whole_is_taken_for_damaged(self) -> None:
        """Whatever was trimmed, expired, purged or made anew: no replica takes rows of its own for
        damaged, neither where it compares them nor where it reads them."""
        if len(self.log) == self._scrubbed:
            return
        self._scrubbed = len(self.log)
        for replica in (self.leader, self.follower):
            seen = whole(BasinContent(), replica.store)
            assert seen.flaw == ""
            for entry in replica.state.list_streams("", "", 100)[0]:
                _read_all(replica.store, replica, entry.name)

    def teardown(self) -> None:
        if self.open:
            self.propose()
        while self.in_flight:
            self.apply_next()
        self.follower_catches_up(len(self.log))
        self.equal_applied_index_means_equal_everything()
        listed, _ = self.follower.state.list_streams("", "", 100)
        assert [entry.name for entry in listed] == sorted(self.applied.streams)
        for name, model in self.applied.streams.items():
            stream = self.follower.state.stream_by_name(name)
            assert stream is not None
            assert (stream.stream_id, stream.trim_point, stream.fencing_token) == (
                model.incarnation, model.trim_point, model.token,
            )  # fmt: skip
            assert stream.tail_seq_num == len(model.timestamps)
            assert (stream.deleted_at_ms is not None) is model.deleted
            assert dataclasses.asdict(stream.config) == {
                **model.config,
                "retention": dataclasses.asdict(model.config["retention"]),
            }
            expected = list(enumerate(model.timestamps))[model.trim_point :]
            assert _read_all(self.follower.store, self.follower, name) == expected
            self._check_time_starts(name, model.timestamps, model.trim_point)

    def _check_time_starts(self, name: str, timestamps: list[int], trim_point: int) -> None:
        """The batch found holds the first record at or behind the time, or nothing does."""
        stream = self.follower.state.stream_by_name(name)
        assert stream is not None
        for wanted in {0, *timestamps}:
            start = scan.resolve_start(
                self.follower.store,
                stream,
                ReadStart(StartKind.TIMESTAMP, wanted),
                refuse_at_tail=False,
            )
            readable = range(trim_point, len(timestamps))
            exact = next((n for n in readable if timestamps[n] >= wanted), len(timestamps))
            assert trim_point <= start <= exact
            assert exact - start < 5, "not the batch before"


BasinMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

test_history_of_a_basin_is_that_of_the_model = BasinMachine.TestCase
