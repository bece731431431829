"""Appends of several clients to one stream leave as one request, and each hears what is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from svc_cluster.base.errors import (
    DeadlineError,
    DrainingError,
    ErrorCode,
    HotServerError,
    InternalError,
    InvalidError,
    MalformedError,
    QuotaError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.gateway.cluster import append_coalescer
from svc_cluster.gateway.cluster.append_coalescer import (
    BYTES_MAX,
    REQUESTS_MAX,
    AppendCoalescer,
    Appended,
    joins,
)
from svc_cluster.gateway.cluster.leaders import LAST_TRY_SECONDS
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.record import (
    AppendAck,
    CommandKind,
    CommandRecord,
    Position,
    StoredBatch,
)
from tests.simulation.loop import run

ROUND_TRIP_S: Final = 0.01
DEADLINE: Final = 1e9


class Leader:
    """Appends in order, each a round trip after it was asked. `refusals` are by the number of the
    request, from 0; one of None is appended and answered with another acknowledgement."""

    def __init__(self, refusals: dict[int, ServiceError | None] | None = None) -> None:
        self.refusals = refusals or {}
        self.asked: list[tuple[str, str, StoredBatch, int, float]] = []
        self.logs: dict[tuple[str, str], list[bytes]] = {}
        self.records: dict[tuple[str, str], int] = {}
        self.retries: list[str] = []
        loop = asyncio.get_running_loop()
        self.appends = AppendCoalescer(self.ask, loop.time, self.retries.append)

    async def ask(
        self, basin: str, stream: str, batch: StoredBatch, requests: int, deadline: float
    ) -> Appended:
        number = len(self.asked)
        self.asked.append((basin, stream, batch, requests, deadline))
        await asyncio.sleep(ROUND_TRIP_S)
        refusal = self.refusals.get(number)
        if refusal is not None:
            raise refusal
        place = (basin, stream)
        first = self.records.get(place, 0)
        self.logs.setdefault(place, []).append(batch.records)
        self.records[place] = first + batch.record_count
        start, end = position(first), position(first + batch.record_count)
        if number in self.refusals:
            end = Position(SeqNum(end.seq_num + 1), end.timestamp_ms)
        stages = LeaderStages(queue=0.1 * number)
        return Appended(AppendAck(start, end, end), stages)

    def spawn(
        self, batch: StoredBatch, stream: str = "s", basin: str = "basin", ends: float = DEADLINE
    ) -> asyncio.Task[Appended]:
        made = self.appends.append(basin, stream, batch, ends)
        return asyncio.get_running_loop().create_task(made)

    async def outcomes(self, *batches: StoredBatch) -> list[Appended | BaseException]:
        """All of them come in one turn of the loop."""
        tasks = [self.spawn(batch) for batch in batches]
        return await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def requests(self) -> list[int]:
        """How many appends each request stood for."""
        return [requests for _, _, _, requests, _ in self.asked]


def position(seq_num: int) -> Position:
    return Position(SeqNum(seq_num), TimestampMs(77))


def batch(text: bytes, records: int = 1, *, units: int = 0) -> StoredBatch:
    return StoredBatch(text, records, len(text) + 8, op_units=units)


def spans(outcomes: list[Appended | BaseException]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for one in outcomes:
        assert isinstance(one, Appended), one
        found.append((one.ack.start.seq_num, one.ack.end.seq_num, one.ack.tail.seq_num))
    return found


def go(main: Coroutine[Any, Any, None]) -> None:
    run(lambda loop: main)


def test_what_comes_in_one_turn_leaves_together() -> None:
    async def main() -> None:
        leader = Leader()
        outcomes = await leader.outcomes(
            batch(b"a"), batch(b"bb", 2), batch(b"c", units=1), batch(b"ddd", 3, units=1)
        )
        assert spans(outcomes) == [(0, 1, 1), (1, 3, 3), (3, 4, 4), (4, 7, 7)]
        assert leader.logs == {("basin", "s"): [b"abbcddd"]}
        assert leader.requests == [4]
        whole = leader.asked[0][2]
        assert (whole.record_count, whole.metered_bytes, whole.op_units) == (7, 39, 2)
        assert [one.ack.end.timestamp_ms for one in outcomes if isinstance(one, Appended)] == [
            77,
            77,
            77,
            77,
        ]
        stages = [one.stages for one in outcomes if isinstance(one, Appended)]
        assert stages == [LeaderStages(queue=0.0)] * 4
        assert leader.appends.joined == 3
        assert leader.appends.under_way == 0

    go(main())


def test_one_client_by_itself_waits_for_the_others_of_its_turn_alone() -> None:
    """Its request is made in the next turn of the loop, whatever is under way, and nothing is
    joined to it."""

    async def main() -> None:
        leader = Leader()
        tasks = []
        for number in range(3):
            tasks.append(leader.spawn(batch(b"x")))
            await asyncio.sleep(0)
            assert len(leader.asked) == number
            await asyncio.sleep(0)
            assert len(leader.asked) == number + 1
        await asyncio.gather(*tasks)
        assert leader.requests == [1, 1, 1]
        assert leader.appends.joined == 0

    go(main())


def test_who_comes_first_in_a_turn_does_not_go_ahead_of_the_others() -> None:
    """The leader would make an entry of it, and the others would wait until that is committed."""

    async def main() -> None:
        leader = Leader()
        for _ in range(3):
            await leader.outcomes(batch(b"a"), batch(b"b"))
        assert leader.requests == [2, 2, 2]

    go(main())


def test_streams_and_basins_are_never_joined() -> None:
    async def main() -> None:
        leader = Leader()
        places = [("a", "one"), ("b", "one"), ("a", "two"), ("b", "two")]
        tasks = [leader.spawn(batch(b"%d" % n), *places[n % 4]) for n in range(8)]
        await asyncio.gather(*tasks)
        assert leader.logs == {
            ("one", "a"): [b"04"],
            ("one", "b"): [b"15"],
            ("two", "a"): [b"26"],
            ("two", "b"): [b"37"],
        }

    go(main())


def test_a_refusal_of_all_is_told_to_nobody_but_whom_it_concerns() -> None:
    """Each asks again by itself: one is refused, and the others are appended, with the deadline
    that they had from the beginning."""

    async def main() -> None:
        leader = Leader({0: QuotaError("full"), 3: QuotaError("full for this one")})
        outcomes = await leader.outcomes(*(batch(text) for text in (b"a", b"b", b"c", b"d")))
        refused = outcomes.pop(2)
        assert isinstance(refused, QuotaError) and refused.message == "full for this one"
        assert spans(outcomes) == [(0, 1, 1), (1, 2, 2), (2, 3, 3)]
        assert leader.logs == {("basin", "s"): [b"a", b"b", b"d"]}
        assert leader.requests == [4, 1, 1, 1, 1]
        assert leader.retries == ["refused_together"] * 4
        assert {deadline for *_, deadline in leader.asked} == {DEADLINE}
        assert leader.appends.under_way == 0

    go(main())


def test_what_may_have_had_an_effect_is_not_asked_again() -> None:
    async def main() -> None:
        leader = Leader({0: DeadlineError("the connection was lost before the answer")})
        told = await leader.outcomes(batch(b"a"), batch(b"b"))
        assert [type(one) for one in told] == [DeadlineError, DeadlineError]
        assert told[0] is not told[1], "what one raises is not another's"
        assert leader.requests == [2]
        assert not leader.retries

    go(main())


def test_who_is_alone_in_it_hears_the_refusal_as_it_is() -> None:
    async def main() -> None:
        refusal = MalformedError(ErrorCode.BAD_PROTO, "nor here")
        leader = Leader({0: InvalidError("no timestamp"), 1: refusal})
        [told] = await leader.outcomes(batch(b"a"))
        assert isinstance(told, InvalidError) and told.message == "no timestamp"
        first, second = leader.spawn(batch(b"a")), leader.spawn(batch(b"b"))
        await asyncio.sleep(0)
        first.cancel()
        [told] = await asyncio.gather(second, return_exceptions=True)
        assert isinstance(told, MalformedError)
        assert (told.message, told.code, str(told)) == ("nor here", refusal.code, str(refusal))
        assert leader.requests == [1, 1]

    go(main())


def test_an_acknowledgement_of_something_else_is_believed_by_nobody() -> None:
    async def main() -> None:
        leader = Leader({0: None})
        told = await leader.outcomes(batch(b"a"), batch(b"b"))
        assert [type(one) for one in told] == [InternalError, InternalError]
        assert leader.requests == [2]
        assert leader.appends.under_way == 0

    go(main())


def test_a_client_that_goes_takes_nobody_with_it() -> None:
    """Its records are appended all the same, as those of one that goes after it has asked."""

    async def main() -> None:
        for gone in range(3):
            leader = Leader()
            tasks = [leader.spawn(batch(text)) for text in (b"a", b"b", b"c")]
            await asyncio.sleep(ROUND_TRIP_S / 2)
            tasks[gone].cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(outcomes.pop(gone), asyncio.CancelledError)
            assert spans(outcomes) == [(n, n + 1, n + 1) for n in range(3) if n != gone]
            assert leader.logs == {("basin", "s"): [b"abc"]}

    go(main())


def test_where_all_clients_have_gone_nobody_asks_on() -> None:
    """Leaders are asked again and again until the deadline: for nobody, it would be beyond all that
    counts what a client makes the gateway hold."""

    async def main() -> None:
        leader = Leader()
        for gone in range(1, 4):
            tasks = [leader.spawn(batch(text)) for text in (b"a", b"b", b"c")]
            await asyncio.sleep(ROUND_TRIP_S / 2)
            assert leader.appends.under_way == 1
            for task in tasks[:gone]:
                task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert leader.appends.under_way == (gone < 3), gone
            await asyncio.gather(*tasks, return_exceptions=True)
        assert leader.logs == {("basin", "s"): [b"abc", b"abc"]}

    go(main())


def test_who_goes_before_the_turn_is_over_was_never_there() -> None:
    """The others leave without it, be it the first or not."""

    async def main() -> None:
        leader = Leader()
        for gone in range(3):
            leader = Leader()
            tasks = [leader.spawn(batch(text)) for text in (b"a", b"b", b"c")]
            await asyncio.sleep(0)
            tasks[gone].cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(outcomes.pop(gone), asyncio.CancelledError)
            assert spans(outcomes) == [(0, 1, 1), (1, 2, 2)]
            assert leader.logs == {("basin", "s"): [b"abc".replace(b"abc"[gone : gone + 1], b"")]}
            assert leader.requests == [2]
        both = [leader.spawn(batch(b"d")) for _ in range(2)]
        await asyncio.sleep(0)
        both[1].cancel()
        await asyncio.gather(*both, return_exceptions=True)
        assert leader.requests == [2, 1]
        alone = leader.spawn(batch(b"d"))
        await asyncio.sleep(0)
        alone.cancel()
        await asyncio.gather(alone, return_exceptions=True)
        assert leader.requests == [2, 1]
        assert leader.appends.under_way == 0

    go(main())


@pytest.mark.parametrize(
    ("each", "count", "most"),
    [
        (batch(b"x"), 2 * REQUESTS_MAX + 1, REQUESTS_MAX),
        (batch(b"x", 400), 5, 2),
        (batch(bytes(100 * 1024)), 5, 2),
        (StoredBatch(b"x", 1, 100 * 1024), 5, 2),
        (batch(bytes(BYTES_MAX + 1)), 3, 1),
    ],
    ids=["requests", "records", "bytes", "metered bytes", "long"],
)
def test_a_request_for_all_has_its_bounds(each: StoredBatch, count: int, most: int) -> None:
    async def main() -> None:
        leader = Leader()
        outcomes = await leader.outcomes(*[each] * (count + 1))
        assert leader.appends.under_way == 0
        size = each.record_count
        assert sorted(spans(outcomes)) == [
            (n * size, (n + 1) * size, (n + 1) * size) for n in range(count + 1)
        ]
        assert max(leader.requests) == most
        assert sum(leader.requests) == count + 1
        assert all(one.record_count <= BATCH_RECORDS_MAX for _, _, one, *_ in leader.asked)

    go(main())


def test_a_fault_of_ours_is_told_and_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        leader = Leader()
        monkeypatch.setattr(append_coalescer._JoinedAppends, "whole", lambda _: 1 // 0)
        told = await leader.outcomes(batch(b"b"), batch(b"c"))
        assert [type(one) for one in told] == [InternalError, InternalError]
        assert leader.appends.under_way == 0

    go(main())
    assert "task_failed" in caplog.text


def test_at_the_end_nobody_is_left_waiting() -> None:
    async def main() -> None:
        """Whether it has not left, leaves in the next turn, is about to be sent, or is."""
        for turns in range(5):
            leader = Leader()
            tasks = [leader.spawn(batch(text)) for text in (b"b", b"c")]
            for _ in range(turns):
                await asyncio.sleep(0)
            await leader.appends.close()
            async with asyncio.timeout(1):
                told = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(one) for one in told] == [asyncio.CancelledError] * 2, turns
            assert leader.appends.under_way == 0
            assert leader.logs == {}

    go(main())


def test_what_sets_a_batch_apart() -> None:
    assert joins(batch(b"a"))
    fence = CommandRecord(0, CommandKind.FENCE, token="t")
    identity = StreamIdentity(1, 2, None)
    for apart in (
        StoredBatch(b"a", 1, 9, commands=(fence,)),
        StoredBatch(b"a", 2, 9, timestamp_max_ms=5, timestamps_given=1),
        StoredBatch(b"a", 1, 9, sealed_for=identity),
    ):
        assert not joins(apart)


@pytest.mark.parametrize("refusal", [UnavailableError(), HotServerError(), DrainingError()])
def test_what_concerns_all_is_told_to_all(refusal: ServiceError) -> None:
    """It was asked again as long as there was time: once more each would only be cut off."""

    async def main() -> None:
        leader = Leader({0: refusal})
        told = await leader.outcomes(batch(b"a"), batch(b"b"))
        assert [type(one) for one in told] == [type(refusal)] * 2
        assert not any(one.may_have_taken_effect for one in told if isinstance(one, ServiceError))
        assert (leader.requests, leader.retries, leader.logs) == ([2], [], {})

    go(main())


def test_shortly_before_the_deadline_nobody_asks_again() -> None:
    """An attempt that is cut off would leave unknown what is known to have had no effect."""

    async def main() -> None:
        for left, asked in ((LAST_TRY_SECONDS - 0.01, [2]), (LAST_TRY_SECONDS + 0.01, [2, 1, 1])):
            leader = Leader({0: QuotaError("full")})
            ends = asyncio.get_running_loop().time() + ROUND_TRIP_S + left
            tasks = [leader.spawn(batch(text), ends=ends) for text in (b"a", b"b")]
            told = await asyncio.gather(*tasks, return_exceptions=True)
            assert leader.requests == asked
            assert all(isinstance(one, QuotaError) for one in told) == (asked == [2])

    go(main())
