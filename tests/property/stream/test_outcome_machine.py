"""Requests with keys against a model: asked, lost, repeated under other leaders, forgotten.

The model knows what was applied. However the machine goes on, each key has one effect as long as it
is remembered, every answer to it is the first one, and replicas agree on every byte.
"""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svc_cluster.base.errors import RateLimitedError, ServiceError, StreamNotFoundError
from svc_cluster.base.ids import LogIndex, TimestampMs
from svc_cluster.stream.commands import BasinCommand, ExpireIdempotencyKeys, IdempotentWrite, Write
from svc_cluster.stream.sequencer import Sequencer
from tests.unit.stream.support import NOW, Leader, batch, reasons

KEYS = st.integers(0, 7).map(lambda n: bytes([n]) * 32)
IDEMPOTENCY_KEYS_MAX = 6


class OutcomeMachine(RuleBasedStateMachine):
    """Two replicas; either may lead."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = [Leader(), Leader()]
        for replica in self.replicas:
            replica.create("s")
        self.asked = 0
        self.applied: dict[bytes, tuple[int, bytes]] = {}
        self.in_flight: dict[bytes, tuple[int, bytes]] = {}
        self.entry: list[BasinCommand] = []
        self.records = 0
        self.in_flight_records = 0
        self.now_ms = int(NOW)
        self.lead(0)

    def lead(self, number: int) -> None:
        """What was handed out is lost with the leader that did."""
        self.leader = self.replicas[number]
        self.leader.sequencer = Sequencer(
            self.leader.state, idempotency_keys_max=IDEMPOTENCY_KEYS_MAX
        )
        self.lose()

    @rule()
    def lose(self) -> None:
        """The leader is not sure of its place any more: nothing of the entry is proposed."""
        self.leader.sequencer.reset()
        self.entry.clear()
        self.in_flight.clear()
        self.in_flight_records = 0

    @rule(key=KEYS, count=st.integers(1, 3), match=st.none() | st.integers(0, 5))
    def append(self, key: bytes, count: int, match: int | None) -> None:
        """Of a key that is known, also with another batch: a key is a request."""
        sequencer = self.leader.sequencer
        self.ask(key, partial(sequencer.append, "s", batch(count), match, None))

    @rule(key=KEYS, name=st.sampled_from(("s", "t", "u")))
    def create(self, key: bytes, name: str) -> None:
        sequencer = self.leader.sequencer
        self.ask(key, partial(sequencer.create_stream, name, None))

    def ask(self, key: bytes, write: object) -> None:
        known = self.in_flight.get(key) or self.applied.get(key)
        self.asked += 1
        answer = f"answer {self.asked}".encode()
        sized: list[int] = []

        def tell(command: Write | None) -> bytes:
            sized.append(getattr(getattr(command, "placement", None), "record_count", 0))
            return answer

        def refuse(_: ServiceError) -> bytes:
            return answer

        if known is None and len(self.applied) + len(self.in_flight) >= IDEMPOTENCY_KEYS_MAX:
            with pytest.raises(RateLimitedError):
                self.leader.sequencer.sequence_idempotent(
                    key,
                    write,  # type: ignore[arg-type]
                    tell,
                    refuse,
                    TimestampMs(self.now_ms),
                )
            return
        answered = self.leader.sequencer.sequence_idempotent(
            key,
            write,  # type: ignore[arg-type]
            tell,
            refuse,
            TimestampMs(self.now_ms),
        )
        if known is not None:
            assert (answered.answer, answered.command) == (known[1], None)
            return
        assert answered.command is not None
        self.entry.append(answered.command)
        self.in_flight[key] = (self.now_ms, answer)
        self.in_flight_records += sum(sized)

    @rule()
    def append_without_a_key(self) -> None:
        self.entry.append(self.leader.sequencer.append("s", batch(), None, None, NOW))
        self.in_flight_records += 1

    @rule(key=KEYS)
    def ask_for_what_is_not_there(self, key: bytes) -> None:
        """No final refusal: nothing is kept."""
        if key in self.in_flight or key in self.applied:
            return
        if len(self.applied) + len(self.in_flight) >= IDEMPOTENCY_KEYS_MAX:
            return
        write = partial(self.leader.sequencer.append, "missing", batch(), None, None)
        with pytest.raises(StreamNotFoundError):
            self.leader.sequencer.sequence_idempotent(
                key, write, lambda _: b"", lambda _: b"", TimestampMs(self.now_ms)
            )

    @precondition(lambda self: self.entry)
    @rule()
    def commit(self) -> None:
        log_index = LogIndex(self.leader.state.applied_index + 1)
        self.leader.sequencer.proposed(log_index)
        for replica in self.replicas:
            assert set(reasons(replica.apply(list(self.entry)))) == {None}
        self.leader.sequencer.applied(log_index)
        self.applied |= self.in_flight
        self.records += self.in_flight_records
        self.in_flight.clear()
        self.entry.clear()
        self.in_flight_records = 0

    @rule(number=st.integers(0, 1))
    def elect(self, number: int) -> None:
        self.lead(number)

    @rule(number=st.integers(0, 1))
    def restart(self, number: int) -> None:
        self.replicas[number].restart()
        self.lead(number)

    @rule(later_ms=st.integers(1, 5))
    def wait(self, later_ms: int) -> None:
        self.now_ms += later_ms

    @precondition(lambda self: not self.entry)
    @rule(at_most=st.integers(1, 3), back_ms=st.integers(0, 5))
    def forget(self, at_most: int, back_ms: int) -> None:
        before_ms = self.now_ms - back_ms
        command = ExpireIdempotencyKeys(TimestampMs(before_ms), at_most)
        for replica in self.replicas:
            assert reasons(replica.apply([command])) == [None]
        due = sorted((at_ms, key) for key, (at_ms, _) in self.applied.items() if at_ms < before_ms)
        for _, key in due[:at_most]:
            del self.applied[key]

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def a_second_entry_with_a_key_is_rejected(self, data: st.DataObject) -> None:
        """Whatever another leader believed."""
        key = data.draw(st.sampled_from(sorted(self.applied)))
        for replica in self.replicas:
            assert None not in reasons(replica.apply([IdempotentWrite(key, NOW, b"other")]))
        self.lose()

    @invariant()
    def what_is_kept_is_what_was_applied(self) -> None:
        for replica in self.replicas:
            assert replica.state.idempotency.count == len(self.applied)
            assert replica.stream("s").tail_seq_num == self.records
            for number in range(8):
                key = bytes([number]) * 32
                found = replica.state.idempotency_row(key)
                kept = None if found is None else (found.decided_at_ms, found.answer)
                assert kept == self.applied.get(key)
        assert self.replicas[0].state.digest == self.replicas[1].state.digest
        assert self.replicas[0].store.values == self.replicas[1].store.values


OutcomeMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOutcomes = OutcomeMachine.TestCase
