"""Who is sent a snapshot next, and how far the log may be trimmed meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.ids import GroupId, LogIndex, NodeId, TimestampMs
from svc_cluster.base.tasks import start_task
from svc_cluster.replica import transfers
from svc_cluster.replica.snapshot_chunk import TURN_PAIRS_MAX
from svc_cluster.replica.snapshot_stream import ChunkReader
from svc_cluster.replica.transfers import (
    BUSY_BYTES_PER_SECOND,
    BUSY_SECONDS,
    HOLD_SECONDS,
    TRANSFERS_MAX,
    LogHolds,
    SnapshotPace,
    TransferQueue,
)

GROUP = GroupId(7)
PEER, OTHER = NodeId(2), NodeId(3)


class Log:
    """A log of `entries` entries of one byte each, and how far the peers have it."""

    def __init__(self, entries: int = 1_000) -> None:
        self.entries = entries
        self.matches: dict[NodeId, int] = {}

    def match_index(self, peer: NodeId) -> LogIndex:
        return LogIndex(self.matches.get(peer, 0))

    def index_keeping_bytes(self, size: int) -> LogIndex:
        return LogIndex(max(self.entries - size, 0))


def limit(holds: LogHolds, log: Log, wanted: int, now: float = 0.0) -> int:
    return holds.limit(GROUP, log, LogIndex(wanted), now)


@given(asked=st.lists(st.tuples(st.integers(1, 9), st.integers(2, 4)), max_size=30))
def test_few_run_at_a_time_and_all_in_the_order_in_which_they_were_asked_for(
    asked: list[tuple[int, int]],
) -> None:
    """Asked for again and again they keep their place; each runs once."""
    queue, ran, running = TransferQueue(), [], []
    for group, peer in asked * 2:
        queue.ask((GroupId(group), NodeId(peer)))
        while (transfer := queue.begin()) is not None:
            running.append(transfer)
            ran.append(transfer)
        assert queue.running == len(running) <= TRANSFERS_MAX
    while running:
        queue.ended(running.pop(0))
        while (transfer := queue.begin()) is not None:
            running.append(transfer)
            ran.append(transfer)
        assert queue.running == len(running) <= TRANSFERS_MAX
    assert ran == list(dict.fromkeys(asked))


def test_one_that_has_ended_is_not_taken_again_before_it_is_forgotten() -> None:
    """A refused transfer waits its second, in which others have its place."""
    queue = TransferQueue()
    queue.ask((GROUP, PEER))
    transfer = queue.begin()
    assert transfer is not None
    queue.ended(transfer)
    queue.ask(transfer)
    assert queue.begin() is None
    queue.forget(transfer)
    queue.ask(transfer)
    assert queue.begin() == transfer


def test_the_log_behind_a_snapshot_is_kept_until_its_receiver_has_it() -> None:
    """From the snapshot's place while it is under way, then from where the receiver is."""
    holds, log = LogHolds(), Log()
    assert limit(holds, log, 900) == 900
    holds.begin(GROUP, PEER, LogIndex(100), 0.0)
    assert limit(holds, log, 50) == 50
    assert limit(holds, log, 900) == 100
    holds.sent(GROUP, PEER)
    assert limit(holds, log, 900) == 100
    log.matches[PEER] = 400
    assert limit(holds, log, 900) == 400
    log.matches[PEER] = 900
    assert limit(holds, log, 900) == 900
    log.matches[PEER] = 0
    assert limit(holds, log, 900) == 900, "it is over"


def test_a_transfer_that_came_to_nothing_keeps_nothing() -> None:
    """Nor does one of a leadership that is over."""
    holds, log = LogHolds(), Log()
    ends: list[Callable[[], None]] = [
        lambda: holds.release(GROUP, PEER),
        lambda: holds.release_all(GROUP),
    ]
    for end in ends:
        holds.begin(GROUP, PEER, LogIndex(100), 0.0)
        end()
        assert limit(holds, log, 900) == 900


def test_a_second_snapshot_that_is_refused_does_not_give_up_the_first() -> None:
    """A receiver that has just installed one refuses the next: it is catching up."""
    holds, log = LogHolds(), Log()
    holds.begin(GROUP, PEER, LogIndex(100), 0.0)
    holds.sent(GROUP, PEER)
    holds.begin(GROUP, PEER, LogIndex(300), 1.0)
    holds.release(GROUP, PEER)
    assert limit(holds, log, 900, 2.0) == 100


def test_the_slowest_of_several_receivers_counts() -> None:
    holds, log = LogHolds(), Log()
    holds.begin(GROUP, PEER, LogIndex(300), 0.0)
    holds.begin(GROUP, OTHER, LogIndex(200), 0.0)
    assert limit(holds, log, 900) == 200
    holds.release(GROUP, OTHER)
    assert limit(holds, log, 900) == 300


def test_time_and_bytes_bound_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind either the log is trimmed as if there were no transfer; never further than that."""
    holds, log = LogHolds(), Log()
    holds.begin(GROUP, PEER, LogIndex(100), 0.0)
    assert limit(holds, log, 900, HOLD_SECONDS) == 100
    assert limit(holds, log, 900, HOLD_SECONDS + 1) == 900
    monkeypatch.setattr(transfers, "HOLD_BYTES", 250)
    holds.begin(GROUP, PEER, LogIndex(100), 0.0)
    assert limit(holds, log, 900) == 750
    assert limit(holds, log, 700) == 700


def test_others_have_their_turns_while_a_chunk_is_read() -> None:
    """Of a thousand pairs TURN_PAIRS_MAX at most are looked at in a turn of the loop, and all of
    them are sent."""
    looked: Counter[int] = Counter()
    turns = 0

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        for number in range(1000):
            looked[turns] += 1
            yield b"key %d" % number, b"value"

    async def main() -> int:
        nonlocal turns
        chunk = start_task(ChunkReader(pairs()).read(xxhash.xxh3_64()), "read")
        while not chunk.done():
            await asyncio.sleep(0)
            turns += 1
        return len(chunk.result().keys)

    assert asyncio.run(main()) == sum(looked.values()) == 1000
    assert max(looked.values()) <= TURN_PAIRS_MAX


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(0)


def test_transfers_keep_to_their_rate_while_appends_wait() -> None:
    """Two transfers share it; nobody waits for what was read while nobody appended."""
    clock, appends = Clock(), [False]
    pace = SnapshotPace(clock, lambda: appends[0])
    for _ in range(10):
        assert pace.delay() == 0.0
        pace.took(BUSY_BYTES_PER_SECOND)
    assert pace.delay() == 0.0
    appends[0] = True
    pace.took(BUSY_BYTES_PER_SECOND // 4)
    pace.took(BUSY_BYTES_PER_SECOND // 4)
    assert pace.delay() == 0.5
    clock.now += 0.25
    appends[0] = False
    assert pace.delay() == 0.25, "appends come and go faster than anybody looks"
    clock.now += 0.25
    assert pace.delay() == 0.0
    pace.took(10 * BUSY_BYTES_PER_SECOND)
    clock.now += BUSY_SECONDS
    assert pace.delay() == 0.0
