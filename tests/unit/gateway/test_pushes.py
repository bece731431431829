"""What comes at the tail leaves without the follower being woken, and nobody can tell: in virtual
time, with a client that reads, stops reading, and goes on."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Coroutine
from typing import Any

import pytest

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import start_task
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.api.read_query import PUSHED_BYTES_MAX
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.limits.rate_limit import Rates
from svc_cluster.gateway.limits.rate_limiter import RateLimiter
from svc_cluster.gateway.request.request_log import ToldStream
from svc_cluster.gateway.usage.usage_ledger import UsageLedger
from svc_cluster.http.message import Attachable
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ReadCall, ScriptedBackend, get, make_app, nothing, records

PATH = "/v1/streams/s/records"
FIRST = 3
"""So many records are there before anybody follows."""
_ID = re.compile(rb"id: (\d+),(\d+),(\d+)\n")


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


class Live:
    """A stream that grows. `call` is a step of a ScriptedBackend."""

    def __init__(self) -> None:
        self.end = FIRST
        self._news = asyncio.Event()

    def append(self, count: int = 1) -> None:
        self.end += count
        self._news.set()
        self._news = asyncio.Event()

    async def call(self, call: ReadCall) -> ReadResult:
        at = call.start.value
        if at >= self.end and call.wait_ms:
            try:
                async with asyncio.timeout(call.wait_ms / 1000):
                    await self._news.wait()
            except TimeoutError:
                return nothing(self.end)
        return records(at, self.end - at, tail=self.end) if at < self.end else nothing(self.end)


class Client:
    """Implements `PieceSink`. Takes what is pushed, and what the iterator gives while `is_open`."""

    def __init__(self, body: FollowedBody, *, attached: bool = True) -> None:
        self.is_open = True
        self.all: list[bytes] = []
        self.pushed: list[bytes] = []
        self.has_gone = False
        self.body = body
        self._may_read = asyncio.Event()
        self._may_read.set()
        if attached:
            body.attach(self)
        self.task = start_task(self._read(), "client")

    def send(self, piece: bytes) -> None:
        assert not self.task.done(), "nothing is pushed behind the end"
        assert self.is_open, "nothing is pushed to who does not read"
        if self.has_gone:
            self.is_open = False
            return
        self.pushed.append(piece)
        self.all.append(piece)

    def stop(self) -> None:
        self.is_open = False
        self._may_read.clear()

    def go_on(self) -> None:
        self.is_open = True
        self._may_read.set()

    @property
    def events(self) -> list[bytes]:
        return [piece for piece in self.all if not piece.startswith(b"event: ping")]

    @property
    def ids(self) -> list[tuple[int, ...]]:
        found = [_ID.search(event) for event in self.events]
        return [tuple(map(int, one.groups())) for one in found if one is not None]

    async def _read(self) -> None:
        try:
            async for piece in self.body:
                if self.has_gone:
                    raise ConnectionResetError("the client has gone")
                self.all.append(piece)
                await self._may_read.wait()
        finally:
            await self.body.aclose()


async def follow(app: GatewayApp, *, attached: bool = True, query: str = "seq_num=0") -> Client:
    response = await app.handle(get(PATH, query, ("accept", "text/event-stream")))
    assert response.status == 200 and isinstance(response.body, FollowedBody)
    client = Client(response.body, attached=attached)
    await asyncio.sleep(0.1)
    return client


async def end(*clients: Client) -> None:
    for client in clients:
        client.task.cancel()
    await asyncio.gather(*[client.task for client in clients], return_exceptions=True)


def test_who_is_pushed_to_gets_what_others_get() -> None:
    """The same events to the last id, as many heartbeats in a silence, and as much is counted."""

    async def main(*, attached: bool) -> tuple[list[Client], dict[str, float]]:
        live = Live()
        app, metrics = make_app(ScriptedBackend([live.call]))
        clients = [await follow(app, attached=attached) for _ in range(70)]
        for count in (1, 2, 1, 5, 1):
            live.append(count)
            await asyncio.sleep(0.5)
        await asyncio.sleep(100)
        live.append()
        await asyncio.sleep(0.5)
        counted = {
            name: metrics.registry.get_sample_value(name) or 0.0
            for name in ("svc_records_read_total", "svc_read_bytes_total", "svc_read_sessions")
        }
        await end(*clients)
        return clients, counted

    pushed, counted = simulate(main(attached=True))
    woken, expected = simulate(main(attached=False))
    assert [client.events for client in pushed] == [client.events for client in woken]
    assert pushed[0].ids[-1][0] == FIRST + 10
    assert counted == expected and counted["svc_records_read_total"] == 70 * (FIRST + 11)
    assert sum(len(client.pushed) for client in pushed) == 6 * 70
    assert all(not client.pushed for client in woken)
    for client in pushed:
        assert 7 <= len(client.all) - len(client.events) <= 21, "silence is broken as ever"


def test_who_does_not_read_gets_it_from_the_iterator_without_gap_or_repetition() -> None:
    """What comes while the client does not read waits for it; later ones are pushed again."""

    async def main() -> Client:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        other, client = await follow(app), await follow(app)
        for number in range(12):
            if number == 4:
                client.stop()
            if number == 8:
                client.go_on()
                await asyncio.sleep(0.1)
            live.append()
            await asyncio.sleep(0.1)
        await end(other, client)
        return client

    client = simulate(main())
    ends, counts = [one[0] for one in client.ids], [one[1] for one in client.ids]
    assert ends[-1] == FIRST + 11 and counts == [one + 1 for one in ends]
    assert len(client.pushed) == 8
    assert ends == sorted(set(ends))


def test_no_heartbeat_is_due_while_records_are_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap is one of silence, and after the last record it is as long as ever. Minutes that are
    begun meanwhile are counted as they come."""
    told: list[int] = []
    monkeypatch.setattr(
        UsageLedger, "streaming_read", lambda _, basin, minutes=1: told.append(minutes)
    )

    async def main() -> tuple[list[bytes], list[bytes], int]:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        other, client = await follow(app), await follow(app)
        before = len(client.all)
        for _ in range(30):
            live.append()
            await asyncio.sleep(4)
        busy = client.all[before:]
        minutes = sum(told)
        await asyncio.sleep(16)
        await end(other, client)
        return busy, client.all[before + len(busy) :], minutes

    busy, idle, minutes = simulate(main())
    assert minutes == 2 * 2, "the last record comes before the third minute"
    assert len(busy) == 30 and all(piece.startswith(b"event: batch") for piece in busy)
    assert 1 <= len(idle) <= 3 and all(piece.startswith(b"event: ping") for piece in idle)


def test_who_was_slow_to_take_records_gets_no_heartbeat_behind_them() -> None:
    """There was no silence, and the tail that came with the records is an old one by then: what has
    come meanwhile is next."""

    async def main() -> list[bytes]:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        client = await follow(app, attached=False)
        client.stop()
        live.append()
        await asyncio.sleep(1)
        before = len(client.all)
        live.append(2)
        await asyncio.sleep(60)
        client.go_on()
        await asyncio.sleep(1)
        assert client.ids[-1][:2] == (FIRST + 2, FIRST + 3), "it has all"
        await end(client)
        return client.all[before:]

    pieces = simulate(main())
    assert [piece.partition(b"\n")[0] for piece in pieces] == [b"event: batch"]


def test_draining_ends_a_stream_that_was_pushed_to() -> None:
    """With the same last word as ever, behind all that was pushed."""

    async def main() -> Client:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        other, client = await follow(app), await follow(app)
        live.append()
        await asyncio.sleep(0.1)
        app.drain()
        live.append()
        await asyncio.sleep(1)
        assert client.task.done() and other.task.done()
        return client

    client = simulate(main())
    assert b'"code":"server_draining"' in client.all[-1]
    assert client.pushed


@pytest.mark.parametrize("query", ["seq_num=0&count=50", "seq_num=0&wait=60", "seq_num=0&until=99"])
def test_a_read_with_a_limit_is_not_pushed_to(query: str) -> None:
    """It may have had enough with any record."""

    async def main() -> tuple[Client, Client]:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        limited, other = await follow(app, query=query), await follow(app)
        for _ in range(5):
            live.append()
            await asyncio.sleep(0.1)
        await end(limited, other)
        return limited, other

    limited, other = simulate(main())
    assert not limited.pushed and len(other.pushed) == 5
    assert limited.ids[:1] == other.ids[:1]


def limited_to(app: GatewayApp, metrics: Metrics, account: Rates, token: Rates) -> RateLimiter:
    clock = SimClock(asyncio.get_running_loop())
    limiter = RateLimiter(account, token, clock=clock, rng=random.Random(1), metrics=metrics)
    app.limit(limiter)
    return limiter


@pytest.mark.parametrize(
    ("account", "token", "pushes"),
    [
        (Rates(requests=1000.0), Rates(append_bytes=1e6), True),
        (Rates(read_bytes=1e6), Rates(), False),
        (Rates(requests=1000.0), Rates(read_bytes=1e6), False),
    ],
)
def test_only_a_rate_of_reads_keeps_a_follower_from_being_pushed_to(
    account: Rates, token: Rates, pushes: bool
) -> None:
    """What others are limited in is nothing to it. Where a rate of reads comes later, what follows
    is paced from the next record on; where it goes, nothing is."""

    async def main() -> list[int]:
        live = Live()
        app, metrics = make_app(ScriptedBackend([live.call]))
        limiter = limited_to(app, metrics, account, token)
        other, client = await follow(app), await follow(app)
        counts = []
        for rates in ((account, token), (Rates(read_bytes=1e9), Rates()), (Rates(), Rates())):
            limiter.change(*rates)
            live.append()
            await asyncio.sleep(0.1)
            live.append()
            await asyncio.sleep(0.1)
            counts.append(len(client.pushed))
        assert len(client.ids) == 1 + 6, "it gets all, one way or the other"
        await end(other, client)
        return counts

    first, behind_limit, behind_none = simulate(main())
    assert (first, behind_limit) == ((2, 2) if pushes else (0, 0))
    assert behind_none == (4 if pushes else 0), "who was limited at first is not attached"


def test_what_is_large_is_not_pushed() -> None:
    """It leaves by the iterator, which holds a place for it, also where others have encoded it:
    in one turn of the loop many are pushed to."""

    async def main() -> list[Client]:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        clients = [await follow(app) for _ in range(3)]
        for count in (1, 900, 2):
            live.append(count)
            await asyncio.sleep(0.1)
        await end(*clients)
        return clients

    for client in simulate(main()):
        assert [one[0] for one in client.ids] == [FIRST - 1, FIRST, FIRST + 900, FIRST + 902]
        assert len(client.pushed) == 2
        assert max(map(len, client.pushed)) < PUSHED_BYTES_MAX < max(map(len, client.all))


def test_a_client_that_has_gone_holds_up_nobody() -> None:
    """The others get everything. Its own stream ends with the second record, which is not pushed,
    and no more is counted for it."""

    async def main() -> tuple[Client, Client, float]:
        live = Live()
        app, metrics = make_app(ScriptedBackend([live.call]))
        first, gone, last = [await follow(app) for _ in range(3)]
        gone.has_gone = True
        for _ in range(30):
            live.append()
            await asyncio.sleep(0.1)
        assert isinstance(gone.task.exception(), ConnectionResetError)
        await end(first, last)
        read = metrics.registry.get_sample_value("svc_records_read_total")
        return gone, last, read or 0.0

    gone, last, read = simulate(main())
    assert last.ids[-1][0] == FIRST + 29 and len(last.ids) == 31
    assert gone.pushed == []
    assert read == 3 * FIRST + 2 * 30 + 2


class Flaky(Live):
    """A stream that nobody leads now and then."""

    is_led = True

    async def outage(self, seconds: float) -> None:
        self.is_led = False
        self._news.set()
        self._news = asyncio.Event()
        await asyncio.sleep(seconds)
        self.is_led = True

    async def call(self, call: ReadCall) -> ReadResult:
        if not self.is_led:
            raise UnavailableError("no leader")
        found = await super().call(call)
        if not self.is_led:
            raise UnavailableError("no leader")
        return found


def test_each_outage_has_its_own_patience() -> None:
    """Two of them a minute apart, between which the follower was never woken."""

    async def main() -> Client:
        live = Flaky()
        app, _ = make_app(ScriptedBackend([live.call]))
        client = await follow(app)
        live.append()
        await asyncio.sleep(1)
        for _ in range(3):
            await live.outage(0.3)
            await asyncio.sleep(3)
            for _ in range(20):
                live.append()
                await asyncio.sleep(3)
        assert not client.task.done(), client.all[-1]
        await end(client)
        return client

    client = simulate(main())
    assert client.ids[-1][0] == FIRST + 60 and len(client.ids) == 62


def test_draining_does_not_wait_for_the_silence_of_one_that_tries_again() -> None:
    """Amid the pause behind an outage nothing of the stream is there to be told of the drain."""

    async def main() -> float:
        live = Flaky()
        app, _ = make_app(ScriptedBackend([live.call]))
        client = await follow(app)
        live.append()
        await asyncio.sleep(0.5)
        await live.outage(0.01)
        app.drain()
        begun = asyncio.get_running_loop().time()
        await client.task
        assert b'"code":"server_draining"' in client.all[-1]
        return asyncio.get_running_loop().time() - begun

    assert simulate(main()) < 1


def test_what_is_pushed_counts_in_the_request_log() -> None:
    """The line of an answer has the bytes that its client was sent, by whichever way."""

    async def main() -> tuple[list[int], Client]:
        live = Live()
        app, _ = make_app(ScriptedBackend([live.call]))
        response = await app.handle(get(PATH, "seq_num=0", ("accept", "text/event-stream")))
        assert isinstance(response.body, FollowedBody)
        told: list[int] = []
        body = ToldStream(response.body, told.append)
        assert isinstance(body, Attachable)
        other, client = await follow(app), Client(body)  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        for _ in range(4):
            live.append()
            await asyncio.sleep(0.1)
        await end(other, client)
        return told, client

    told, client = simulate(main())
    assert client.pushed
    assert told == [sum(map(len, client.all))]
