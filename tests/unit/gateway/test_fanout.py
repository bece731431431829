"""The shared tail of a stream: one upstream read for all, nobody missed, nobody held back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc_cluster.base.errors import StreamNotFoundError, UnavailableError
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.records import fanout
from svc_cluster.gateway.records.fanout import SharedTails
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, run

NAMES = ("basin-name", "stream")


class Counting(MemoryBackend):
    """Counts the reads under way, and refuses them on demand."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.waiting = self.waiting_max = self.calls = 0
        self.confirmed = 0
        """Calls for which what is committed was not enough."""
        self.refuse = False

    async def read(self, *args: Any, wait_ms: int, **kwargs: Any) -> ReadResult:
        self.calls += 1
        self.confirmed += not kwargs.get("committed")
        if self.refuse:
            raise UnavailableError("no leader")
        self.waiting += wait_ms > 0
        self.waiting_max = max(self.waiting_max, self.waiting)
        try:
            await asyncio.sleep(0.001)
            return await super().read(*args, wait_ms=wait_ms, **kwargs)
        finally:
            self.waiting -= wait_ms > 0

    async def put(self, *bodies: bytes) -> None:
        batch = build_batch([(None, (), body) for body in bodies])
        await self.append(*NAMES, batch, None, None)


def scene(main: Callable[[Counting, SharedTails], Awaitable[None]]) -> None:
    """`main` with an empty stream and its shared tails, in virtual time."""

    async def inside(loop: SimLoop) -> None:
        clock = SimClock(loop, drift=0.0, offset_s=0.0, wall_offset_ms=0)
        backend = Counting(clock)
        await backend.create_basin(NAMES[0], BasinConfig())
        await backend.create_stream(*NAMES, NewStream())
        tails = SharedTails(backend, clock)
        await main(backend, tails)
        await tails.close()

    run(inside)


async def follow(tails: SharedTails, at: int, until: int, pause: float = 0.0) -> list[int]:
    """The sequence numbers that a follower gets from `at` on, up to and without `until`."""
    seen: list[int] = []
    while at < until:
        result = await tails.read(*NAMES, at, 60_000)
        for batch in result.batches:
            first, end = batch.placement.first_seq_num, batch.placement.end_seq_num
            seen.extend(range(max(first, at), end))
            at = end
        await asyncio.sleep(pause)
    return seen


def test_many_followers_cost_one_waiting_read() -> None:
    """Fifty followers get every record once and in order over one upstream read at a time."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        followers = [asyncio.ensure_future(follow(tails, 0, 40)) for _ in range(50)]
        for number in range(20):
            await backend.put(b"one %d" % number, b"two")
            await asyncio.sleep(0.01)
        for seen in await asyncio.gather(*followers):
            assert seen == list(range(40))
        assert backend.waiting_max == 1
        assert backend.calls < 50
        assert backend.confirmed == 0, "records that are committed are confirmed by nobody"

    scene(main)


def test_who_is_woken_together_is_given_the_same_and_nothing_is_held_for_it() -> None:
    """One result for all who stand at one place; it goes with what it was made of."""

    async def main(backend: Counting, _: SharedTails) -> None:
        tails = SharedTails(backend, backend.clock, bytes_max=10_000)
        waiting = [asyncio.ensure_future(tails.read(*NAMES, 0, 60_000)) for _ in range(3)]
        await asyncio.sleep(0.1)
        await backend.put(bytes(3000))
        results = await asyncio.gather(*waiting)
        assert all(one is results[0] for one in results)
        assert tails.held_bytes > 3000
        following = asyncio.ensure_future(tails.read(*NAMES, 1, 60_000))
        await backend.put(bytes(3500))
        assert (await following).batches[0].placement.first_seq_num == 1
        # there is room for one of them alone
        assert tails.at_hand(*NAMES, results[0].incarnation, 0) is None
        (tail,) = tails._streams.values()
        assert tail._collected is not None and tail._collected[0] == 1
        await tails.close()

    scene(main)


def test_a_wait_that_is_over_or_given_up_leaves_nothing_behind() -> None:
    """Thousands wait at one place and go: neither what wakes them nor its timer is kept."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        waiting = [asyncio.ensure_future(tails.read(*NAMES, 0, 60_000)) for _ in range(50)]
        short = [asyncio.ensure_future(tails.read(*NAMES, 0, 100)) for _ in range(50)]
        await asyncio.sleep(0.05)
        (tail,) = tails._streams.values()
        assert len(tail._waiting) == 100
        for one in waiting[:20]:
            one.cancel()
        await asyncio.gather(*short)
        assert len(tail._waiting) == 30
        await backend.put(b"record")
        for result in await asyncio.gather(*waiting[20:]):
            assert result.tail.seq_num == 1
        assert not tail._waiting

    scene(main)


def test_a_slow_follower_reads_by_itself_and_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When more has come than is kept, the slow one is served from the store, the quick one is not
    slowed."""
    monkeypatch.setattr(fanout, "KEPT_BYTES_MAX", 2_000)
    monkeypatch.setattr(fanout, "RESULT_BYTES_MAX", 500)

    async def main(backend: Counting, tails: SharedTails) -> None:
        quick = asyncio.ensure_future(follow(tails, 0, 100))
        slow = asyncio.ensure_future(follow(tails, 0, 100, pause=1.0))
        for _ in range(100):
            await backend.put(bytes(200))
            await asyncio.sleep(0.005)
        async with asyncio.timeout(0.5):
            assert await quick == list(range(100))
        assert await slow == list(range(100))

    scene(main)


def test_all_tails_together_keep_within_the_bound() -> None:
    """Forty streams with 4 kB each are followed, and 30 kB may be kept: what has been quiet longest
    gives way, nobody misses anything, and once nobody follows nothing is held."""

    async def main(backend: Counting, _: SharedTails) -> None:
        tails = SharedTails(backend, backend.clock, bytes_max=75_000)
        names = [f"many-{number}" for number in range(40)]
        for name in names:
            await backend.create_stream(NAMES[0], name, NewStream())

        async def follow_one(name: str) -> list[int]:
            seen: list[int] = []
            while len(seen) < 4:
                result = await tails.read(NAMES[0], name, len(seen), 60_000)
                seen += [batch.placement.first_seq_num for batch in result.batches]
            return seen

        following = [asyncio.ensure_future(follow_one(name)) for name in names]
        await asyncio.sleep(0.1)
        batch = build_batch([(None, (), bytes(1000))])
        most = 0
        for _round in range(4):
            for name in names:
                await backend.append(NAMES[0], name, batch, None, None)
                await asyncio.sleep(0.01)
                most = max(most, tails.held_bytes)
        assert await asyncio.gather(*following) == [[0, 1, 2, 3]] * 40
        assert 25_000 < most <= 30_000
        assert tails.at_hand(NAMES[0], names[0], None, 0) is None, "the quiet gave way"
        late = await tails.read(NAMES[0], names[0], 0, 1000)
        assert late.batches[0].placement.first_seq_num == 0, "and is read from where it is"
        while len(tails):
            await asyncio.sleep(1)
        assert tails.held_bytes == 0
        await tails.close()

    scene(main)


def test_a_wait_without_records_ends_with_a_confirmed_tail() -> None:
    """After the wait the tail named is one read after the call began; who asks at the same time
    shares the confirmation."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        results = await asyncio.gather(*(tails.read(*NAMES, 0, 1_000) for _ in range(20)))
        assert [(result.batches, result.tail.seq_num) for result in results] == [((), 0)] * 20
        # the shared read and two confirmations at most
        assert backend.calls <= 3

    scene(main)


def test_a_failure_reaches_every_follower_and_the_next_call_begins_anew() -> None:
    """Without a leader all that wait are refused; later the same calls work again."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        backend.refuse = True
        refused = await asyncio.gather(
            *(tails.read(*NAMES, 0, 60_000) for _ in range(5)), return_exceptions=True
        )
        assert [type(one) for one in refused] == [UnavailableError] * 5
        backend.refuse = False
        await backend.put(b"later")
        assert (await tails.read(*NAMES, 0, 1_000)).tail.seq_num == 1

    scene(main)


def test_a_deleted_stream_ends_its_followers() -> None:
    """Whoever waits at the tail of a stream that is deleted is told so."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        waiting = asyncio.ensure_future(tails.read(*NAMES, 0, 60_000))
        await asyncio.sleep(0.1)
        await backend.delete_stream(*NAMES)
        with pytest.raises(StreamNotFoundError):
            await waiting

    scene(main)


def test_records_behind_a_trim_are_stepped_over() -> None:
    """A stream trimmed beyond a follower's place goes on at its first record."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        await backend.put(b"gone", b"gone")
        assert (await tails.read(*NAMES, 0, 1_000)).batches
        target = backend._stream(*NAMES)
        await backend.put(b"gone too")
        target.trim_point = 3
        await backend.put(b"kept")
        result = await tails.read(*NAMES, 2, 1_000)
        while not result.batches:
            result = await tails.read(*NAMES, result.start_seq_num, 1_000)
        assert result.batches[-1].placement.end_seq_num == 4

    scene(main)


def test_nobody_left_ends_the_upstream_read() -> None:
    """Some seconds after the last follower the stream is no longer read."""

    async def main(backend: Counting, tails: SharedTails) -> None:
        await backend.put(b"one")
        await tails.read(*NAMES, 0, 1_000)
        assert len(tails) == 1
        await asyncio.sleep(fanout.IDLE_SECONDS + 6.0)
        assert len(tails) == 0
        calls = backend.calls
        await asyncio.sleep(60.0)
        assert backend.calls == calls

    scene(main)
