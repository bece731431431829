"""What caches are told of answers: closed ranges, their tags, and all else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.request.caching import (
    VARYING,
    is_known,
    may_be_kept,
    not_modified,
    tag_of,
)
from svc_cluster.http.message import BytesBody, Request, Response
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run

T = TypeVar("T")
BASIN = ("svc-basin", "caching-basin")
PATH = "/v1/streams/s/records"
KEPT = "private, max-age=60"
CLOSED = "seq_num=0&count=2"


def with_records(count: int, asks: Callable[[GatewayApp], Awaitable[T]], *, cors: bool = True) -> T:
    """What `asks` returns of a gateway with a stream of so many records."""

    async def main() -> T:
        clock = SimClock(asyncio.get_running_loop())
        backend = MemoryBackend(clock)
        app = GatewayApp(backend, clock=clock, rng=random.Random(7), metrics=Metrics(), cors=cors)
        await post(app, "/v1/basins", b'{"basin":"caching-basin"}')
        await post(app, "/v1/streams", b'{"stream":"s"}')
        for _ in range(count):
            await post(app, PATH, b'{"records":[{"body":"YQ=="}]}')
        try:
            return await asks(app)
        finally:
            await app.close()

    found: T = run(lambda loop: main())
    return found


async def post(app: GatewayApp, path: str, body: bytes) -> Response:
    headers = [BASIN, ("content-type", "application/json"), ("content-length", str(len(body)))]
    response = await app.handle(Request("POST", path, "", headers, BytesBody(body)))
    assert response.status < 300, response
    return response


async def get(app: GatewayApp, query: str, *more: tuple[str, str], path: str = PATH) -> Response:
    return await app.handle(Request("GET", path, query, [BASIN, *more]))


def said(response: Response, name: str) -> str | None:
    values = [value for header, value in response.headers if header == name]
    assert len(values) < 2, f"{name} is told twice"
    return values[0] if values else None


def test_a_closed_range_is_kept_and_known_again_by_its_tag() -> None:
    """And says what it depends on, once, whether pages of other origins are granted or not."""

    async def asks(app: GatewayApp) -> tuple[Response, Response]:
        first = await get(app, CLOSED)
        tag = said(first, "etag")
        assert tag is not None
        return first, await get(app, CLOSED, ("if-none-match", tag))

    for cors in (True, False):
        first, again = with_records(3, asks, cors=cors)
        assert (first.status, again.status, again.body) == (200, 304, b"")
        for answer in (first, again):
            assert said(answer, "cache-control") == KEPT
            assert said(answer, "vary") == ", ".join(VARYING)
            assert said(answer, "etag") == said(first, "etag")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "seq_num=0",
        "seq_num=0&count=4",
        "seq_num=0&count=0",
        "tail_offset=2&count=1",
        "seq_num=9",
    ],
)
def test_what_may_be_another_answer_later_is_not_kept(query: str) -> None:
    """Open ranges, nothing, ranges that begin elsewhere each time, and refusals."""
    answer = with_records(3, lambda app: get(app, query))
    assert (said(answer, "cache-control"), said(answer, "etag")) == ("no-store", None)


def test_shared_caches_ask_before_they_give_what_is_older_than_a_minute() -> None:
    """Or answer that they reach nobody: they serve others than who was given it. A client's own
    cache may go on."""
    told = [said(not_modified("t", shared=shared), "cache-control") for shared in (True, False)]
    assert told == ["public, max-age=60, must-revalidate", KEPT]


def test_a_trim_into_the_range_changes_its_tag() -> None:
    """One below it does not: in the S2 dialect, where the tail is not told, nothing changes."""
    trim = b'{"records":[{"headers":[["","dHJpbQ=="]],"body":"AAAAAAAAAAI="}]}'
    s2 = ("s2-basin", BASIN[1])

    async def tag(app: GatewayApp, query: str) -> str | None:
        return said(await app.handle(Request("GET", PATH, query, [s2])), "etag")

    async def asks(app: GatewayApp) -> list[list[str | None]]:
        queries = ("seq_num=0&count=2", "seq_num=2&count=2")
        before = [await tag(app, query) for query in queries]
        await post(app, PATH, trim)
        return [before, [await tag(app, query) for query in queries]]

    (into, behind), (into_after, behind_after) = with_records(6, asks)
    assert into is not None and into_after is not None and into != into_after
    assert behind is not None and behind == behind_after


def test_a_tail_that_is_told_is_part_of_the_tag() -> None:
    """Else a page would be told by a 304 that the stream is as long as it was."""

    async def asks(app: GatewayApp) -> list[str | None]:
        before = said(await get(app, CLOSED), "etag")
        await post(app, PATH, b'{"records":[{"body":""}]}')
        return [before, said(await get(app, CLOSED), "etag")]

    before, after = with_records(3, asks)
    assert before != after


@pytest.mark.parametrize("path", ["/v1/streams", "/v1/streams/none", "/v1/none", "/health"])
def test_what_says_nothing_else_is_not_kept(path: str) -> None:
    """Found or refused."""
    answer = with_records(0, lambda app: get(app, "", path=path))
    assert said(answer, "cache-control") == "no-store"


def test_only_headers_that_caches_go_by_may_be_on_what_is_kept() -> None:
    """Any other one of a dialect decides the dialect."""
    known = [(name, "x") for name in VARYING] + [("x-colour", "red")]
    assert may_be_kept(Request("GET", PATH, "", known))
    for unknown in ("svc-colour", "s2-colour"):
        assert not may_be_kept(Request("GET", PATH, "", [*known, (unknown, "red")]))


def test_tags_are_compared_as_weak_ones() -> None:
    """Each of a list, in any number of headers; a part of one is none."""
    tag = tag_of((1, 2), "json")
    assert tag == tag_of((1, 2), "json") != tag_of((1, 2), "protobuf")

    def asked(*values: str) -> bool:
        headers = [("if-none-match", value) for value in values]
        return is_known(Request("GET", PATH, "", headers), tag)

    assert asked(tag) and asked(tag[2:]) and asked("*") and asked('"a", ' + tag)
    assert asked('"a"', tag)
    assert not asked() and not asked('"a"') and not asked(tag[:-2] + '"')
