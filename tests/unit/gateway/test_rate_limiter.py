"""Limits of rates applied to requests, in virtual time: 429 before anything happens, and streams
that are slowed down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.codec.records import build_batch
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.authentication import AccessControl
from svc_cluster.gateway.http.message import Request, Response
from svc_cluster.gateway.lease import LeaseKeeper
from svc_cluster.gateway.rate_limit import Connection, Rates
from svc_cluster.gateway.rate_limiter import RateLimiter
from svc_cluster.gateway.token_client import TokenNews
from svc_cluster.gateway.token_directory import TokenDirectory
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken, root_token
from svc_cluster.model.stream_config import BasinConfig, NewStream
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
        limiter = RateLimiter(account, token or Rates(), clock=clock, metrics=limits)
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


@pytest.mark.parametrize("clients", [2, 64])
@pytest.mark.parametrize("kind", ["append", "read"])
def test_a_crowd_is_served_at_the_limit(clients: int, kind: str) -> None:
    """Clients at twice the limit in sum, through the whole app: within 5 % over 30 s, by bytes as
    they are metered, and nobody waits more than three announced waits."""
    size = 1_000
    metered = size + 8
    rate = 60.0

    async def main(gate: Gate) -> None:
        done = 0
        waits_max = 0

        async def client(number: int) -> None:
            nonlocal done, waits_max
            connection = Connection("10.0.0.1")
            await asyncio.sleep(number * 0.01)
            while now() < end_at:
                waits = 0
                while now() < end_at:
                    if kind == "append":
                        request = append(size, fill=str(number % 10))
                    else:
                        request = get(RECORDS, "seq_num=0&count=1", RAW)
                    response = await gate.send(request, connection)
                    if response.status == 200:
                        done += 1
                        break
                    waits += 1
                    waits_max = max(waits_max, waits)
                    await asyncio.sleep(wait_of(response) + 0.002)
                await asyncio.sleep(0.005)

        if kind == "read":
            # other limits apply to it, and it is there before the time begins
            assert (await gate.send(append(size), Connection("10.0.0.2"))).status == 200
        end_at = now() + SECONDS
        await asyncio.gather(*(client(number) for number in range(clients)))
        assert 0.95 <= done / (rate * SECONDS) <= 1.05
        assert 1 <= waits_max <= 3

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
        assert isinstance(response.body, AsyncGenerator)
        begun = now()
        received = 0
        async for piece in response.body:
            received += len(piece)
        assert received > 12 * 100_000
        assert 8.0 <= now() - begun <= 13.0

    simulate(Rates(read_bytes=100_000.0), main)


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
        limiter = RateLimiter(Rates(), rates, clock=clock, metrics=Metrics())
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
