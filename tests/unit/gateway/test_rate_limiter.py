"""Limits of rates applied to requests, in virtual time: 429 before anything happens, and streams
that are slowed down."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.gateway.limits.rate_limit import Cost, Rates
from svc_cluster.gateway.limits.rate_limiter import RateLimiter
from svc_cluster.gateway.request.endpoint import Moves
from svc_cluster.http.message import Connection, Request, Response
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken, root_token
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.framing import RECORDS, Frames, PipeBody, append_session, input_frame
from tests.unit.gateway.scripted import BASIN, body_of, get, make_app, post

SECONDS = 30.0


@dataclass
class Gate:
    """An app with limits, one stream, and what came out of it."""

    app: GatewayApp
    backend: MemoryBackend
    metrics: Metrics
    statuses: list[int] = field(default_factory=list)

    async def send(self, request: Request, connection: Connection) -> Response:
        request.connection = connection
        response = await self.app.handle(request)
        self.statuses.append(response.status)
        return response


def simulate(
    account: Rates, main: Callable[[Gate], Coroutine[Any, Any, Any]], token: Rates | None = None
) -> Any:
    async def begin() -> Any:
        clock = SimClock(asyncio.get_running_loop())
        backend = MemoryBackend(clock)
        limits = Metrics()
        limiter = RateLimiter(
            account, token or Rates(), clock=clock, rng=random.Random(3), metrics=limits
        )
        app, _ = make_app(backend, limiter=limiter)
        await backend.create_basin(BASIN[1], BasinConfig())
        await backend.create_stream(BASIN[1], "s", NewStream())
        return await main(Gate(app, backend, limits))

    return run(lambda loop: begin())


def now() -> float:
    return asyncio.get_running_loop().time()


def append(size: int, fill: str = "x") -> Request:
    return post(RECORDS, json.dumps({"records": [{"body": fill * size}]}).encode(), RAW)


RAW = ("s2-format", "raw")


def wait_of(response: Response) -> float:
    headers = dict(response.headers)
    assert response.status == 429
    body = json.loads(body_of(response))
    assert body["code"] == body["error"] == "rate_limited"
    assert body["may_have_taken_effect"] is False
    wait_ms = int(headers["retry-after-ms"])
    assert wait_ms > 0
    assert int(headers["retry-after"]) == -(-wait_ms // 1000)
    return wait_ms / 1000


@pytest.mark.parametrize(
    "rates", [Rates(requests=5.0), Rates(append_bytes=5_000.0), Rates(5.0, 5_000.0)]
)
def test_a_lone_client_that_waits_succeeds(rates: Rates) -> None:
    """A refusal says what is needed and has no effect; the attempt behind the wait is served."""

    async def main(gate: Gate) -> None:
        connection = Connection("10.0.0.1")
        waited = served = 0
        for _ in range(60):
            response = await gate.send(append(1_000), connection)
            if response.status == 429:
                assert dict(response.headers)["svc-side-effects"] == "none"
                await asyncio.sleep(wait_of(response))
                response = await gate.send(append(1_000), connection)
                waited += 1
            assert response.status == 200
            served += 1
        assert waited > 40
        tail = await gate.backend.check_tail(BASIN[1], "s")
        assert tail.seq_num == served
        assert gate.statuses.count(429) == waited
        text = gate.metrics.expose().decode()
        counted = [line for line in text.splitlines() if line.startswith("svc_rate_limited_total")]
        assert sum(float(line.split()[-1]) for line in counted) == waited

    simulate(rates, main)


@pytest.mark.parametrize("clients", [2, 16, 64])
@pytest.mark.parametrize("kind", ["append", "read"])
def test_a_crowd_is_served_at_the_limit(clients: int, kind: str) -> None:
    """Clients beyond the limit, through the whole app: 90 to 100 % of it over 30 s, by bytes as
    they are metered; everybody has a part, and is told to wait no longer than for one request."""
    size = 1_000
    metered = size + 8
    rate = 20.0

    async def main(gate: Gate) -> None:
        done = [0] * clients
        longest = 0.0

        async def client(number: int) -> None:
            nonlocal longest
            connection = Connection("10.0.0.1")
            rng = random.Random(number)
            await asyncio.sleep(number * 0.01)
            while now() < end_at:
                while now() < end_at:
                    if kind == "append":
                        request = append(size, fill=str(number % 10))
                    else:
                        request = get(RECORDS, "seq_num=0&count=1", RAW)
                    response = await gate.send(request, connection)
                    if response.status == 200:
                        done[number] += 1
                        break
                    longest = max(longest, wait_of(response))
                    await asyncio.sleep(wait_of(response) + 0.005 * rng.random())
                await asyncio.sleep(0.005)

        if kind == "read":
            # other limits apply to it, and it is there before the time begins
            assert (await gate.send(append(size), Connection("10.0.0.2"))).status == 200
        end_at = now() + SECONDS
        await asyncio.gather(*(client(number) for number in range(clients)))
        assert 0.90 <= sum(done) / (rate * SECONDS) <= 1.0
        assert min(done) > 0, "nobody is left without"
        # a read is charged with what the last ones took until it has taken its own
        assert 0 < longest <= (4.0 if kind == "read" else 0.08)

    bytes_rate = rate * metered
    if kind == "append":
        simulate(Rates(append_bytes=bytes_rate), main)
    else:
        simulate(Rates(read_bytes=bytes_rate), main)


def test_operations_that_are_free_are_never_limited() -> None:
    """Probes and metrics answer whatever happens."""

    async def main(gate: Gate) -> None:
        connection = Connection("10.0.0.1")
        for _ in range(50):
            for path in ("/health", "/livez", "/version"):
                assert (await gate.send(get(path), connection)).status == 200
        responses = [await gate.send(get("/v1/basins"), connection) for _ in range(5)]
        assert {response.status for response in responses} == {200, 429}

    simulate(Rates(requests=1.0), main)


def test_an_append_is_settled_to_what_it_metered() -> None:
    """It is charged with its announced length, base64 and all; what it metered is what counts."""

    async def main(gate: Gate) -> None:
        connection = Connection("10.0.0.1")
        data = json.dumps({"records": [{"body": "eHh4" * 1_000}]}).encode()
        while (await gate.send(post(RECORDS, data), connection)).status == 200:
            pass
        # 3,008 metered bytes each: 3 fit into the first second's worth, and one goes beyond
        assert gate.statuses.count(200) == 4

    simulate(Rates(append_bytes=10_000.0), main)


def test_an_append_session_is_slowed_down() -> None:
    """Batches are acknowledged at the rate; none is refused."""

    async def main(gate: Gate) -> None:
        body = PipeBody()
        response = await gate.app.handle(append_session(body))
        assert response.status == 200
        frames = Frames(response)
        begun = now()
        for number in range(30):
            body.put(input_frame(f"{number}".ljust(992).encode()))
        body.put(None)
        found = await frames.rest()
        assert [frame.is_terminal for frame in found] == [False] * 30
        assert 8.5 <= now() - begun <= 10.5

    simulate(Rates(append_bytes=3_000.0), main)


def test_a_session_that_ends_while_it_waits_gives_back_what_it_had_taken() -> None:
    """Its client goes: others find the limit as if the batch had never been."""

    async def main(gate: Gate) -> None:
        body = PipeBody()
        response = await gate.app.handle(append_session(body))
        assert isinstance(response.body, AsyncGenerator)
        answer = asyncio.ensure_future(anext(response.body))
        for _ in range(3):
            body.put(input_frame(b"x" * 9_992))
        await answer
        await asyncio.sleep(0.5)
        assert "svc_rate_limit_waiting_bytes 10000.0" in gate.metrics.expose().decode()
        await response.body.aclose()
        assert "svc_rate_limit_waiting_bytes 0.0" in gate.metrics.expose().decode()
        response = await gate.send(append(10), Connection("10.0.0.1"))
        # one batch of 10 s was appended, one more was let through
        assert wait_of(response) <= 20.0

    simulate(Rates(append_bytes=1_000.0), main)


def session_of(gate: Gate, secret: int | None = None) -> tuple[PipeBody, Request]:
    body = PipeBody()
    request = append_session(body)
    if secret is not None:
        request.headers = [*request.headers, ("authorization", f"Bearer {secret_of(secret)}")]
    return body, request


def test_sessions_go_on_in_the_order_in_which_they_came() -> None:
    """Thirty wait at once: each batch is let through behind those that came before, and takes as
    long as they take together."""

    async def main(gate: Gate) -> None:
        done: list[int] = []

        async def one(number: int) -> None:
            body, request = session_of(gate)
            response = await gate.app.handle(request)
            assert response.status == 200
            body.put(input_frame(b"x" * 992))
            body.put(None)
            assert len(await Frames(response).rest()) == 1
            done.append(number)

        waiting = []
        begun = now()
        for number in range(30):
            waiting.append(asyncio.ensure_future(one(number)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*waiting)
        assert done == sorted(done)
        assert 8.5 <= now() - begun <= 11.5

    simulate(Rates(append_bytes=3_000.0), main)


def test_requests_are_served_beside_sessions_that_always_wait() -> None:
    """Sessions and streams that would use the limit alone leave a part of it to a client that waits
    as it is told."""

    async def main(gate: Gate) -> None:
        async def fill() -> None:
            body, request = session_of(gate)
            frames = Frames(await gate.app.handle(request))
            try:
                while True:
                    body.put(input_frame(b"x" * 992))
                    await frames.next()
            finally:
                await frames.close()

        filling = [asyncio.ensure_future(fill()) for _ in range(5)]
        connection = Connection("10.0.0.1")
        served = 0
        end_at = now() + SECONDS
        while now() < end_at:
            response = await gate.send(append(900), connection)
            if response.status == 200:
                served += 1
            else:
                await asyncio.sleep(wait_of(response) + 0.002)
        for one in filling:
            one.cancel()
        await asyncio.gather(*filling, return_exceptions=True)
        assert served >= 10

    simulate(Rates(append_bytes=5_000.0), main)


def test_a_token_at_its_limit_keeps_no_other_session_waiting() -> None:
    """Its batches wait for a minute; those of another token go on."""

    async def main(gate: Gate, renew: Callable[[], object]) -> None:
        slow_body, request = session_of(gate, FIRST)
        slow = Frames(await gate.app.handle(request))
        for _ in range(3):
            slow_body.put(input_frame(b"x" * 29_992))
        await slow.next()
        body, request = session_of(gate, OTHER)
        frames = Frames(await gate.app.handle(request))
        begun = now()
        for _ in range(5):
            renew()
            body.put(input_frame(b"x" * 92))
            await frames.next()
        assert now() - begun < 1.0
        await slow.close()
        await frames.close()

    async def begin() -> None:
        clock = SimClock(asyncio.get_running_loop())
        backend = MemoryBackend(clock)
        metrics = Metrics()
        rates = Rates(append_bytes=1_000.0)
        limiter = RateLimiter(
            Rates(append_bytes=1e6), rates, clock=clock, rng=random.Random(3), metrics=metrics
        )
        access, renew = family(clock)
        app, _ = make_app(backend, limiter=limiter, access=access)
        await backend.create_basin(BASIN[1], BasinConfig())
        await backend.create_stream(BASIN[1], "s", NewStream())
        renew()
        await main(Gate(app, backend, metrics), renew)

    run(lambda loop: begin())


def test_a_lone_client_does_not_pay_for_requests_that_nobody_came_back_for() -> None:
    """400 of them at 5 a second: it is told the time of one, and served when it comes."""

    async def main(gate: Gate) -> None:
        for _ in range(410):
            await gate.send(get("/v1/basins"), Connection("10.0.0.9"))
        assert gate.statuses.count(429) > 400
        connection = Connection("10.0.0.1")
        for _ in range(10):
            response = await gate.send(get("/v1/basins"), connection)
            wait = wait_of(response)
            assert wait <= 0.25
            await asyncio.sleep(wait)
            assert (await gate.send(get("/v1/basins"), connection)).status == 200

    simulate(Rates(requests=5.0), main)


def test_who_comes_before_the_time_is_not_before_those_that_wait() -> None:
    """One asks a hundred times a second over its connection, one comes as told: both are served."""

    async def main(gate: Gate) -> None:
        served = [0, 0]

        async def client(number: int) -> None:
            connection = Connection(f"10.0.0.{number}")
            rng = random.Random(number)
            while now() < SECONDS:
                response = await gate.send(get("/v1/basins"), connection)
                if response.status == 200:
                    served[number] += 1
                    await asyncio.sleep(0.005)
                else:
                    told = wait_of(response) + 0.003 * rng.random()
                    await asyncio.sleep(0.01 if number else told)

        await asyncio.gather(client(0), client(1))
        assert served[0] >= served[1] / 3

    simulate(Rates(requests=5.0), main)


@pytest.mark.parametrize("kind", ["events", "session"])
def test_a_stream_that_is_ended_gives_back_what_it_did_not_take(kind: str) -> None:
    """It was let through for as much as it took before, and found less: others have the rest."""

    async def main(gate: Gate) -> None:
        for _ in range(12):
            assert (await gate.send(append(100_000), Connection("10.0.0.9"))).status == 200
        header = ("accept", "text/event-stream")
        if kind == "session":
            header = ("content-type", "svcs/proto")
        response = await gate.app.handle(get(RECORDS, "seq_num=0", RAW, header))
        assert isinstance(response.body, FollowedBody)
        received = 0
        while received < 1_050_000:  # in parts of two records, and then one of one
            received += len(await anext(response.body))
        await response.body.aclose()
        response = await gate.send(get(RECORDS, "seq_num=0&count=1", RAW), Connection("10.0.0.1"))
        # it took one record of the two that it was let through for
        assert wait_of(response) <= 1.2

    simulate(Rates(read_bytes=100_000.0), main)


@pytest.mark.parametrize("kind", ["events", "session"])
def test_a_streaming_read_is_slowed_down(kind: str) -> None:
    """It delivers at the rate, without a gap."""

    async def main(gate: Gate) -> None:
        for _ in range(12):
            assert (await gate.send(append(100_000), Connection("10.0.0.9"))).status == 200
        header = ("accept", "text/event-stream")
        if kind == "session":
            header = ("content-type", "svcs/proto")
        response = await gate.app.handle(get(RECORDS, "seq_num=0&count=12", RAW, header))
        assert isinstance(response.body, FollowedBody)
        begun = now()
        received = 0
        async for piece in response.body:
            received += len(piece)
        assert received > 12 * 100_000
        assert 8.0 <= now() - begun <= 13.0

    simulate(Rates(read_bytes=100_000.0), main)


@pytest.mark.parametrize("kind", ["events", "session"])
def test_readers_that_wait_for_their_turn_hear_that_they_are_served(kind: str) -> None:
    """Fifteen share a limit, of which each is a minute behind the other fourteen: nobody hears
    nothing for longer than a client's watchdog, and none has more than the limit."""

    async def main(gate: Gate) -> None:
        for _ in range(12):
            assert (await gate.send(append(100_000), Connection("10.0.0.9"))).status == 200
        header = ("accept", "text/event-stream")
        if kind == "session":
            header = ("content-type", "svcs/proto")
        received = [0] * 15
        longest = 0.0
        end_at = now() + 600

        async def one(number: int) -> None:
            nonlocal longest
            response = await gate.app.handle(get(RECORDS, "seq_num=0", RAW, header))
            assert isinstance(response.body, FollowedBody)
            heard_at = now()
            async with aclosing(response.body) as pieces:
                async for piece in pieces:
                    longest = max(longest, now() - heard_at)
                    heard_at = now()
                    received[number] += len(piece)
                    if now() > end_at:
                        break

        await asyncio.gather(*(one(number) for number in range(15)))
        assert min(received) > 500_000, "each has its part"
        assert sum(received) < 600 * 30_000 * 1.2 + 15 * 1_000_000
        assert 5.0 < longest < 16.0

    simulate(Rates(read_bytes=30_000.0), main)


FIRST, CHILD, GRANDCHILD, OTHER = 2, 10, 100, 3


def family(clock: SimClock) -> tuple[AccessControl, Callable[[], object]]:
    """The root's token 1; 2 and 3 issued with it; 10 to 49 with 2; 100 to 109 with 10. What is
    called renews the lease by which they are good."""
    parents = {FIRST: 1, OTHER: 1}
    parents |= dict.fromkeys(range(CHILD, CHILD + 40), FIRST)
    parents |= dict.fromkeys(range(GRANDCHILD, GRANDCHILD + 10), CHILD)
    tokens = [root_token(1, secret_hash(secret_of(1)))]
    tokens += [
        AccessToken(serial, f"t{serial}", secret_hash(secret_of(serial)), parent, ROOT_SCOPE)
        for serial, parent in parents.items()
    ]
    directory = TokenDirectory(clock)
    changes = tuple((token.serial, token) for token in tokens)
    news = TokenNews(granted=True, version=1, behind=False, changes=changes, all_read=False)
    keeper: LeaseKeeper = None  # type: ignore[assignment]  # asked for unknown secrets only
    return AccessControl(directory, keeper), lambda: directory.take(news, clock.monotonic())


def secret_of(serial: int) -> str:
    return secret_text(serial.to_bytes(32, "big"))


@pytest.mark.parametrize(
    "rates", [Rates(requests=5.0), Rates(append_bytes=5_000.0), Rates(read_bytes=5_000.0)]
)
def test_tokens_issued_with_a_token_share_its_limits(rates: Rates) -> None:
    """Forty children and ten grandchildren together get what the first token of the chain gets;
    another token of the root has limits of its own, as the root's token has."""

    async def begin() -> None:
        clock = SimClock(asyncio.get_running_loop())
        backend = MemoryBackend(clock)
        limiter = RateLimiter(Rates(), rates, clock=clock, rng=random.Random(3), metrics=Metrics())
        access, renew = family(clock)
        app, _ = make_app(backend, limiter=limiter, access=access)
        await backend.create_basin(BASIN[1], BasinConfig())
        await backend.create_stream(BASIN[1], "s", NewStream())
        await backend.append(BASIN[1], "s", build_batch([(None, (), b"x" * 992)]), None, None)

        async def served(serials: list[int]) -> int:
            """Requests in SECONDS of one client for each token, which waits as it is told."""
            end_at = now() + SECONDS
            done = 0

            async def client(serial: int) -> None:
                nonlocal done
                connection = Connection(f"10.0.0.{serial}")
                while now() < end_at:
                    renew()
                    request = append(940) if rates.append_bytes else get(RECORDS, "seq_num=0")
                    request.headers = [
                        *request.headers,
                        ("authorization", f"Bearer {secret_of(serial)}"),
                    ]
                    request.connection = connection
                    response = await app.handle(request)
                    if response.status == 429:
                        await asyncio.sleep(wait_of(response))
                    else:
                        assert response.status == 200
                        done += 1

            await asyncio.gather(*(client(serial) for serial in serials))
            return done

        alone = await served([OTHER])
        of_family = [FIRST, *range(CHILD, CHILD + 40), *range(GRANDCHILD, GRANDCHILD + 10)]
        together = await served(of_family)
        assert alone * 0.7 < together < alone * 1.3
        await asyncio.sleep(30)
        both = await served([FIRST, OTHER, 1])
        assert both > 2.5 * alone

    run(lambda loop: begin())


@pytest.mark.parametrize("rates", [(Rates(), Rates()), (Rates(requests=100.0), Rates())])
def test_what_was_read_before_there_was_a_rate_is_owed_by_nobody(
    rates: tuple[Rates, Rates],
) -> None:
    """A follower has taken gigabytes; the rate that comes is for what it takes from then on, and
    others are not made to wait for it."""

    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        limiter = RateLimiter(*rates, clock=clock, rng=random.Random(3), metrics=Metrics())
        one = limiter.admit(get(RECORDS), Moves.READ, 7, is_stream=True)
        one.took(10**10)
        limiter.change(Rates(read_bytes=1e6), Rates(read_bytes=1e6))
        begun = now()
        await one.pace_read(is_behind=True)
        for token in (7, 8):
            other = limiter.admit(get(RECORDS), Moves.READ, token, is_stream=False)
            other.took(1000)
            other.close()
        assert now() == begun
        for _ in range(20):
            one.took(10**6)
            await one.pace_read(is_behind=True)
        assert now() - begun > 10, "and from then on it is paced"

    run(lambda loop: main())


def test_other_limits_count_at_once_for_requests_and_for_what_waits() -> None:
    """What streams waits for an hour by the old limit, and goes on as soon as that is another; what
    was refused is served, and refused again by a lower one."""

    async def main(gate: Gate) -> None:
        limiter = RateLimiter(
            Rates(requests=1 / 3600),
            Rates(),
            clock=SimClock(asyncio.get_running_loop()),
            rng=random.Random(4),
            metrics=gate.metrics,
        )
        gate.app.limit(limiter)
        for _ in range(2):
            await gate.send(get(RECORDS, "seq_num=0"), Connection("10.0.0.1"))
        assert gate.statuses == [200, 429]
        begun = now()
        waiting = asyncio.ensure_future(limiter.pace(0, Cost(requests=1.0)))
        await asyncio.sleep(10)
        assert not waiting.done()
        limiter.change(Rates(requests=100.0), Rates())
        await waiting
        assert now() == begun + 10
        await gate.send(get(RECORDS, "seq_num=0"), Connection("10.0.0.1"))
        limiter.change(Rates(requests=1 / 3600), Rates())
        for _ in range(2):
            await gate.send(get(RECORDS, "seq_num=0"), Connection("10.0.0.1"))
        limiter.change(Rates(), Rates())
        for _ in range(20):
            await gate.send(get(RECORDS, "seq_num=0"), Connection("10.0.0.1"))
        assert gate.statuses[2:] == [200, 200, 429] + [200] * 20

    simulate(Rates(), main)
