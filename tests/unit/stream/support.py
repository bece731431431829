"""A store of one replica in memory, and a leader and its followers without a log between them."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import TypeVar

from svc_cluster.base.ids import LogIndex, SeqNum, StreamId, Term, TimestampMs
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.record import (
    AppendAck,
    BatchPlacement,
    CommandKind,
    CommandRecord,
    StoredBatch,
    TimestampingMode,
)
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig
from svc_cluster.stream import apply
from svc_cluster.stream.apply import Applied, Plan, Rejected
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.batch_finder import LIKELY_KEYS_MAX, PROBED_KEYS_MAX, Lookups
from svc_cluster.stream.commands import AppendCommand, BasinCommand
from svc_cluster.stream.effects import RejectionReason
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.sequencer import Sequencer

_T = TypeVar("_T")

BASIN = "basin-one"
NOW = TimestampMs(1_000_000)
TERM = Term(1)


class MemoryStore:
    """Sorted keys and a dict; the semantics of the state store, for one replica."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self.gets = 0
        self.scanned = 0

    def get(self, key: bytes) -> bytes | None:
        self.gets += 1
        return self.values.get(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        found = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        for key in reversed(found) if reverse else found:
            self.scanned += 1
            yield key, self.values[key]

    def write(self, write_set: WriteSet) -> None:
        for key, value, end in write_set.ops:
            if value is not None:
                if key not in self.values:
                    insort(self._keys, key)
                self.values[key] = value
            elif end is None:
                self._remove([key] if key in self.values else [])
            else:
                low, high = bisect_left(self._keys, key), bisect_left(self._keys, end)
                self._remove(self._keys[low:high])

    def _remove(self, keys: list[bytes]) -> None:
        for key in list(keys):
            del self.values[key]
            self._keys.remove(key)


def answered(leader: Leader, lookups: Lookups[_T], rng: random.Random | None = None) -> _T:
    """What the lookups come to; with an `rng`, each is answered for the first so many keys only."""
    try:
        wanted = next(lookups)
        while True:
            assert 1 <= len(wanted) <= max(LIKELY_KEYS_MAX + 1, PROBED_KEYS_MAX)
            assert sorted(set(wanted)) == wanted
            some = wanted if rng is None else wanted[: rng.choice((1, 2, 40, len(wanted)))]
            wanted = lookups.send([leader.store.get(key) for key in some])
    except StopIteration as end:
        result: _T = end.value
        return result


class Replica:
    """A store and the state over it."""

    def __init__(self, *, cached_max: int = 4096) -> None:
        self.store = MemoryStore()
        self.state = BasinState(self.store, cached_max=cached_max)
        self._cached_max = cached_max

    def apply(self, commands: list[BasinCommand] | None, term: Term = TERM) -> Plan:
        planned = apply.plan(self.state, LogIndex(self.state.applied_index + 1), term, commands)
        self.store.write(planned.write_set)
        apply.commit(self.state, planned)
        return planned

    def restart(self) -> None:
        self.state = BasinState(self.store, cached_max=self._cached_max)


class Leader(Replica):
    """A replica with a sequencer, bootstrapped; what it hands out is applied at once by `run`."""

    def __init__(self, config: BasinConfig | None = None, *, cached_max: int = 4096) -> None:
        super().__init__(cached_max=cached_max)
        self.sequencer = Sequencer(self.state)
        self.run(self.sequencer.bootstrap(BASIN, config or BasinConfig(), TimestampMs(1)))

    def run(self, *commands: BasinCommand | None) -> Plan:
        """One entry of these commands, proposed and applied."""
        entry = [command for command in commands if command is not None]
        assert len(entry) == len(commands), "a command was expected"
        log_index = LogIndex(self.state.applied_index + 1)
        self.sequencer.proposed(log_index)
        planned = self.apply(entry)
        self.sequencer.applied(log_index)
        assert not self.sequencer._touched_at
        return planned

    def create(self, name: str, config: PartialStreamConfig | None = None) -> StreamState:
        self.run(self.sequencer.create_stream(name, config, NOW))
        return self.stream(name)

    def append(
        self,
        name: str,
        given: StoredBatch | int = 1,
        *,
        match: int | None = None,
        token: str | None = None,
        now_ms: int = NOW,
    ) -> AppendAck:
        stored = batch(given) if isinstance(given, int) else given
        command = self.sequencer.append(name, stored, match, token, TimestampMs(now_ms))
        outcome = self.run(command).outcomes[0]
        assert isinstance(outcome, Applied)
        assert outcome.ack is not None
        return outcome.ack

    def stream(self, name: str) -> StreamState:
        found = self.state.stream_by_name(name)
        assert found is not None
        return found


def batch(
    count: int = 1,
    *,
    timestamps: Sequence[int | None] | None = None,
    commands: tuple[CommandRecord, ...] = (),
    metered_bytes: int | None = None,
    records: bytes | None = None,
) -> StoredBatch:
    """What a gateway would make of `count` records, one byte each, with these timestamps."""
    given = [value for value in timestamps or () if value is not None]
    return StoredBatch(
        records=records if records is not None else b"r" * count,
        record_count=count if timestamps is None else len(timestamps),
        metered_bytes=metered_bytes if metered_bytes is not None else 9 * count,
        timestamp_max_ms=max(given, default=None),
        timestamps_given=len(given),
        commands=commands,
        timestamp_first_ms=timestamps[0] if timestamps else None,
    )


def fence(token: str, offset: int = 0) -> CommandRecord:
    return CommandRecord(offset, CommandKind.FENCE, token=token)


def trim(trim_point: int, offset: int = 0) -> CommandRecord:
    return CommandRecord(offset, CommandKind.TRIM, trim_point=trim_point)


def placement(
    first: int = 0,
    count: int = 1,
    *,
    base: int = 0,
    last: int = 0,
    arrival: int = 0,
    mode: TimestampingMode = TimestampingMode.CLIENT_PREFER,
    uncapped: bool = False,
    expires_at: int | None = None,
    metered_bytes: int = 9,
) -> BatchPlacement:
    return BatchPlacement(
        SeqNum(first),
        count,
        metered_bytes,
        TimestampMs(base),
        TimestampMs(arrival),
        TimestampMs(last),
        mode,
        uncapped,
        None if expires_at is None else TimestampMs(expires_at),
    )


def append_command(
    stream_id: int = 1,
    place: BatchPlacement | None = None,
    *,
    commands: tuple[CommandRecord, ...] = (),
    match: int | None = None,
    token: str | None = None,
    start: int | None = None,
) -> AppendCommand:
    """An append as any entry might hold one, not asked of a sequencer."""
    place = place or placement()
    return AppendCommand(
        StreamId(stream_id),
        place,
        b"r" * min(place.record_count, 10),
        TimestampMs(place.last_timestamp_ms if start is None else start),
        commands,
        match,
        token,
    )


def reasons(planned: Plan) -> list[RejectionReason | None]:
    """None for a command that took effect."""
    return [
        outcome.reason if isinstance(outcome, Rejected) else None for outcome in planned.outcomes
    ]
