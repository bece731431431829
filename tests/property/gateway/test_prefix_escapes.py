"""Nothing that the holder of a prefixed token says reaches, or tells of, a stream outside it.

Every route is asked with names made of what has led out of directories before: dots, slashes,
encodings once and twice, NUL, nothing at all, the prefix itself, the names of streams outside.
Judged by what the cluster is asked (a spy in front of it), by every byte of every answer, and by
what is outside afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from urllib.parse import quote

import pytest

from svc_cluster.codec.compression import decompress
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import Backend
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.http.message import BytesBody, Request, Response
from svc_cluster.model.access import Op, Scope, exact, prefix
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken
from svc_cluster.model.stream_config import BasinConfig, NewStream
from svc_cluster.model.usage import Counts, Readings, UsageReport
from tests.at_once import build_batch
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import make_app

REQUESTS: Final = int(os.environ.get("ESCAPE_INPUTS", "20000"))
"""In all; a million by `ESCAPE_INPUTS=1000000`."""
SEEDS: Final = 10
BASIN: Final = "tenants-01"
OTHER_BASIN: Final = "others-001"
BODY_MARK: Final = b"body-outside-5d81"
NAME_MARK: Final = "hidden-3c9e"
UNSAID: Final = "q7f1/x/"
"""A prefix that no request has in it: so no answer may."""
PREFIXES: Final = (UNSAID, "tenant/x/", "t", "../", "%2e%2e%2f")
OUTSIDE: Final = (
    *("secret", "tenant/x", "..%2fsecret", "\0"),
    *(f"tenant/{NAME_MARK}", f"s{NAME_MARK}", f"q7f1/{NAME_MARK}"),
)
"""The first four may be said; what has the mark is never said, so it must not be told either."""
PIECES: Final = (
    *(
        "..",
        ".",
        "/",
        "//",
        "../",
        "/..",
        "\\",
        "%2e%2e",
        "%2f",
        "%252f",
        "%00",
        "\0",
        "",
        " ",
        "~",
    ),
    *(
        "secret",
        "tenant",
        "tenant/x",
        "tenant/x/",
        "s",
        "known",
        "x",
        "é",
        "e\u0301",
        "\u202e",
        "?",
    ),
)
READABLE: Final = {"GET", "HEAD"}


class Spy:
    """In front of a backend: every stream's name that it is given has the prefix."""

    def __init__(self, backend: MemoryBackend, begins_with: str) -> None:
        self._backend = backend
        self._begins_with = begins_with
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, name)
        parameters = list(inspect.signature(method).parameters)
        assert callable(method)

        def spied(*arguments: Any, **named: Any) -> Any:
            given = dict(zip(parameters, arguments, strict=False)) | named
            if name == "list_streams":
                assert given["prefix"].startswith(self._begins_with), given
            elif "stream" in given:
                assert given["stream"].startswith(self._begins_with), (name, given)
            if "basin" in given:
                assert given["basin"] == BASIN, given
            self.asked += 1
            return method(*arguments, **named)

        return spied


class UsageSpy:
    """A UsageBackend that knows both basins and is asked about no stream outside the prefix."""

    def __init__(self, begins_with: str) -> None:
        self._begins_with = begins_with

    async def report(self, basin: str | None, report: UsageReport) -> None:
        assert basin in (None, BASIN)

    async def usage(
        self, basin: str | None, start: int, end: int, step_seconds: int
    ) -> list[tuple[int, Counts]]:
        assert basin in (None, BASIN)
        return []

    async def storage(
        self, basin: str, stream: str | None, start: int, end: int, step_seconds: int
    ) -> Readings:
        assert basin == BASIN
        assert stream is None or stream.startswith(self._begins_with), stream
        return Readings()

    async def active_basins(self, start: int, end: int) -> set[str]:
        return {BASIN, OTHER_BASIN}


def some_name(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 4)))


def in_path(rng: random.Random, name: str) -> str:
    """One segment, encoded as it should be, or once too often, or not at all."""
    once = quote(name, safe="")
    raw = "".join(c for c in name if 0x20 < ord(c) < 0x7F and c not in "?#")
    return rng.choice((once, once, once, quote(once, safe=""), raw, once.lower()))


def some_request(rng: random.Random, secret: str) -> Request:
    resource = rng.choice([each for each in ROUTER.resources if each.template.startswith("/v1")])
    method = rng.choice(sorted(resource.methods))
    name = some_name(rng)
    basin = BASIN if rng.random() < 0.9 else OTHER_BASIN
    path = resource.template.replace("{basin}", basin).replace("{id}", "t-1")
    path = path.replace("{stream}", in_path(rng, name))
    query = rng.choice(
        (
            "",
            f"prefix={quote(name)}",
            f"prefix={quote(name)}&start_after={quote(some_name(rng))}",
            f"start_after={quote(some_name(rng))}&limit=2",
            "seq_num=0&count=9&wait=0",
            "seq_num=0&count=9&wait=0",
            "set=storage&start=0&end=60",
            "set=active-basins&start=0&end=60",
        )
    )
    headers = [
        ("authorization", f"Bearer {secret}"),
        rng.choice((("svc-format", "utf8"), ("s2-format", "raw"))),
    ]
    if resource.basin_slot is None:
        headers.append(("svc-basin", basin))
    if rng.random() < 0.1:
        headers.append(("accept", "text/event-stream"))
    if rng.random() < 0.1:
        headers.append(("svc-request-token", "again"))
    body: Any = rng.choice(
        (
            {"stream": some_name(rng)},
            {"records": [{"body": "x"}]},
            {"records": [{"body": "x"}], "match_seq_num": 0},
            {"id": "t-2", "scope": {"streams": {"prefix": some_name(rng)}, "ops": ["read"]}},
            {},
            {"retention_policy": {"age": 60}},
        )
    )
    if resource.template == "/v1/streams" and method == "POST":
        body = {"stream": name}
    data = b"" if method in READABLE else json.dumps(body).encode()
    if data:
        headers.append(("content-type", "application/json"))
    return Request(method, path, query, headers, BytesBody(data))


async def every_byte(response: Response) -> bytes:
    if isinstance(response.body, bytes):
        coding = dict(response.headers).get("content-encoding", "identity")
        return decompress(coding, response.body, 1 << 20)
    body: AsyncIterator[bytes] = response.body
    return b"".join([piece async for piece in body])


async def outside(backend: MemoryBackend, begins_with: str) -> list[Any]:
    """All there is to know of the streams without the prefix, and of the other basin."""
    found: list[Any] = []
    for basin in (BASIN, OTHER_BASIN):
        infos, _ = await backend.list_streams(basin, "", "", 1 << 20)
        for info in infos:
            if basin == OTHER_BASIN or not info.name.startswith(begins_with):
                config = await backend.get_stream_config(basin, info.name)
                found.append((basin, info, config, await backend.check_tail(basin, info.name)))
        found.append(await backend.get_basin_config(basin))
    return found


async def planted(clock: SimClock, begins_with: str) -> MemoryBackend:
    """Two basins that make streams by themselves, and in each the streams outside, with a record
    in each of them. They are made behind the gateway, which takes no NUL in a name any more."""
    backend = MemoryBackend(clock)
    for basin in (BASIN, OTHER_BASIN):
        await backend.create_basin(
            basin, BasinConfig(create_stream_on_append=True, create_stream_on_read=True)
        )
        for name in OUTSIDE:
            if name.startswith(begins_with):
                continue
            await backend.create_stream(basin, name, NewStream(None, "standard"))
            batch = build_batch([(None, (), BODY_MARK)])
            await backend.append(basin, name, batch, None, None)
    return backend


def holder(clock: SimClock, begins_with: str) -> tuple[AccessControl, str, Callable[[], object]]:
    """Access control that knows one token: every operation, in one basin, below the prefix; it may
    not write to the basin itself. What is called renews the lease by which the token is good."""
    basin_writes = {Op.CREATE_BASIN, Op.DELETE_BASIN, Op.RECONFIGURE_BASIN}
    ops = tuple(op for op in Op if op not in basin_writes)
    secret = secret_text(b"\x05" * 32)
    scope = Scope(exact(BASIN), prefix(begins_with), prefix(""), ops=ops)
    token = AccessToken(
        1,
        "tenant",
        secret_hash(secret),
        0,
        scope,
        auto_prefix_streams=True,
        name_prefix=begins_with,
    )
    directory = TokenDirectory(clock)
    news = TokenNews(granted=True, version=1, behind=False, changes=((1, token),), all_read=False)

    def renew() -> object:
        return directory.take(news, clock.monotonic())

    renew()
    keeper: LeaseKeeper = None  # type: ignore[assignment]  # asked for unknown secrets only
    return AccessControl(directory, keeper), secret, renew


async def attack(seed: int, requests: int) -> tuple[int, int]:
    """How many requests came through to the cluster, and how many streams they made."""
    rng = random.Random(seed)
    begins_with = PREFIXES[seed % len(PREFIXES)]
    clock = SimClock(asyncio.get_running_loop())
    backend = await planted(clock, begins_with)
    before = await outside(backend, begins_with)
    spy = Spy(backend, begins_with)
    access, secret, renew = holder(clock, begins_with)
    guarded: Backend = spy  # every method, by __getattr__
    app: GatewayApp
    app, _ = make_app(guarded, access=access, usage=UsageSpy(begins_with))
    for _ in range(requests):
        request = some_request(rng, secret)
        renew()  # an event stream may have been open until the lease ended
        answer = await app.handle(request)
        said = await every_byte(answer) + str(answer.headers).encode()
        assert answer.status != 500, (request, said)
        for mark in (BODY_MARK, base64.b64encode(BODY_MARK), NAME_MARK.encode(), UNSAID.encode()):
            assert mark not in said, (request, said)
        asked_for_other = OTHER_BASIN in request.raw_path + str(request.headers)
        assert asked_for_other or OTHER_BASIN.encode() not in said, (request, said)
    assert await outside(backend, begins_with) == before
    infos, _ = await backend.list_streams(BASIN, begins_with, "", 1 << 20)
    await app.close()
    return spy.asked, len(infos)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_leads_out_of_a_prefix(seed: int) -> None:
    """Thousands of requests for each prefix; many do reach the cluster, below the prefix."""

    async def main() -> None:
        asked, made = await attack(seed, REQUESTS // SEEDS)
        assert asked > REQUESTS // SEEDS // 10
        assert made > 20

    run(lambda loop: main())


@pytest.mark.parametrize("begins_with", PREFIXES)
def test_an_empty_name_is_no_name(begins_with: str) -> None:
    """The prefix alone is a stream's name, and nobody below it can say it."""

    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        backend = await planted(clock, begins_with)
        access, secret, _ = holder(clock, begins_with)
        app, _ = make_app(backend, access=access)
        headers = [
            ("authorization", f"Bearer {secret}"),
            ("svc-basin", BASIN),
            ("content-type", "application/json"),
        ]
        for method, path, body, status in (
            ("GET", "/v1/streams/", b"", 404),
            ("PUT", "/v1/streams/", b"{}", 404),
            ("GET", "/v1/streams//records", b"", 400),
            ("POST", "/v1/streams//records", b'{"records":[{"body":"eA=="}]}', 400),
            ("GET", f"/v1/basins/{BASIN}/streams//read", b"", 400),
            ("POST", "/v1/streams", b'{"stream":""}', 400),
        ):
            answer = await app.handle(Request(method, path, "", headers, BytesBody(body)))
            assert answer.status == status, (method, path, answer)
        found, _ = await backend.list_streams(BASIN, begins_with, "", 10)
        assert [info.name for info in found if info.name == begins_with] == []

    run(lambda loop: main())
