"""`python -m tests.benchmarks.usage_apply`: what counting usage adds to applying an entry.

Entries of appends are applied to a state in memory, with counting and without, in turn; told is the
quickest of the medians: other processes only ever make it slower. Prints one JSON object a line.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from typing import Final

from svc_cluster.base.ids import LogIndex, Term, TimestampMs
from svc_cluster.model.record import StoredBatch
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.stream import apply
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import BasinCommand
from svc_cluster.stream.sequencer import Sequencer
from tests.at_once import decode_entry, encode_entry
from tests.unit.stream.support import MemoryStore

ROUNDS: Final = 9
BEGUN_MS: Final = 1_700_000_000_000
BATCH: Final = StoredBatch(b"r" * 1000, 1, 1008)
SHAPES: Final = ((1, 1, 800), (1, 64, 80), (64, 64, 80), (1, 512, 20))
"""Streams, appends an entry, entries."""


class Replica:
    """Applies what its own sequencer hands out, and takes the time of it."""

    def __init__(self, *, counts_usage: bool, streams: int) -> None:
        self._store = MemoryStore()
        self._state = BasinState(self._store)
        self._sequencer = Sequencer(self._state)
        bootstrap = self._sequencer.bootstrap("basin-one", BasinConfig(), TimestampMs(BEGUN_MS))
        assert bootstrap is not None
        self.apply([dataclasses.replace(bootstrap, counts_usage=counts_usage)])
        for number in range(streams):
            create = self._sequencer.create_stream(f"s{number}", None, TimestampMs(BEGUN_MS))
            assert create is not None
            self.apply([create])

    def appends(self, streams: int, count: int, number: int) -> list[BasinCommand]:
        now_ms = TimestampMs(BEGUN_MS + 20 * number)
        return [
            self._sequencer.append(f"s{(number * count + n) % streams}", BATCH, None, None, now_ms)
            for n in range(count)
        ]

    def apply(self, commands: list[BasinCommand]) -> float:
        """Seconds of planning, of putting the replica's prefix on the keys, and of taking over;
        not those of the store's own write."""
        log_index = LogIndex(self._state.applied_index + 1)
        self._sequencer.proposed(log_index)
        decoded = decode_entry(encode_entry(commands))
        begun = time.perf_counter()
        planned = apply.plan(self._state, log_index, Term(1), decoded)
        planned.write_set.prefixed(bytes(8))
        seconds = time.perf_counter() - begun
        self._store.write(planned.write_set)
        begun = time.perf_counter()
        apply.commit(self._state, planned)
        seconds += time.perf_counter() - begun
        self._sequencer.applied(log_index)
        return seconds


def main() -> None:
    for streams, count, entries in SHAPES:
        medians: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(2 * ROUNDS):
            counts_usage = bool(turn % 2)
            replica = Replica(counts_usage=counts_usage, streams=streams)
            taken = [replica.apply(replica.appends(streams, count, n)) for n in range(entries)]
            medians[counts_usage].append(statistics.median(taken) * 1e6)
        without, counting = min(medians[False]), min(medians[True])
        told = {
            "streams": streams,
            "appends_an_entry": count,
            "us_an_entry_without": round(without, 1),
            "us_an_entry_counting": round(counting, 1),
            "us_more_an_append": round((counting - without) / count, 2),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
