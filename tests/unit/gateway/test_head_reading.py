"""What is kept of a head for the next requests that begin with the very same bytes, and what is
not: no body, and nothing of who asks that may change."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from svc_cluster.base.errors import PermissionDeniedError
from svc_cluster.gateway.access.authorization import authorize
from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.gateway.request.head_reading import HeadReading, read_head
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.request.router import Match
from svc_cluster.http.http1_plain_head import plain_head
from svc_cluster.http.message import BytesBody, HeadNote, Request
from svc_cluster.model.access import EVERYTHING, Grant, Op, prefix
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import BASIN, make_app, post

PATH = "/v1/streams/s/records"
BODY = b'{"records":[{"body":"YQ=="}]}'


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_the_same_head_is_read_once_and_another_one_anew() -> None:
    note = HeadNote()
    first, again = [read_head(post(PATH, BODY), ROUTER, None) for _ in range(2)]
    assert first is not again, "nobody keeps them"
    kept = [read_head(_noted(note), ROUTER, None) for _ in range(2)]
    assert kept[0] is kept[1] and kept[0] is not first
    assert kept[0].routed(_noted(note)) is kept[0].routed(_noted(note))
    assert plain_head(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n") is not None
    heads = [plain_head(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n") for _ in range(2)]
    assert heads[0] is not None and heads[1] is not None
    assert heads[0].note is not heads[1].note, "each connection has its own"


@pytest.mark.parametrize(
    ("method", "length", "is_plain"),
    [("GET", 0, True), ("GET", 1, False), ("POST", 0, True), ("POST", 65_536, True)],
)
def test_a_get_with_a_body_is_not_plain(method: str, length: int, is_plain: bool) -> None:
    """Nobody asks for that body, and a stream would hold it, uncounted, as long as it lasts."""
    head = f"{method} /a HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"
    assert (plain_head(head.encode()) is not None) == is_plain


def test_nothing_is_kept_of_a_path_at_which_there_is_nothing() -> None:
    """Anybody may send one, with hundreds of parts, and keep the connection."""
    note = HeadNote()
    request = Request("GET", "/ab" * 600, "", [], head_note=note)
    assert read_head(request, ROUTER, None).resource is None
    assert note.reading is None


def test_nothing_of_a_request_outlives_it_with_its_head() -> None:
    """Its body is gone with it, without the collector of circles."""

    async def main() -> None:
        backend = MemoryBackend(SimClock(asyncio.get_running_loop()))
        await backend.create_basin(BASIN[1], BasinConfig())
        await backend.create_stream(BASIN[1], "s", NewStream())
        app, _ = make_app(backend)
        note = HeadNote()
        for _ in range(2):
            request = _noted(note)
            body = weakref.ref(request.body)
            response = await app.handle(request)
            assert response.status == 200
            assert isinstance(note.reading, HeadReading)
            del request, response
            assert body() is None

    with without_collector():
        run(lambda loop: main())


def test_what_a_grant_allows_is_asked_for_each_grant() -> None:
    """One that allows it, one that does not, and one that puts a prefix in front."""
    note = HeadNote()
    reading = read_head(_noted(note), ROUTER, None)
    match, _ = reading.routed(_noted(note))
    all_may = Grant(frozenset(Op), EVERYTHING, EVERYTHING)
    reads = Grant(frozenset([Op.READ]), EVERYTHING, EVERYTHING)
    prefixed = Grant(frozenset(Op), EVERYTHING, prefix("p/"), name_prefix="p/")
    asked: list[Grant] = []

    def counted(grant: Grant, match: Match, head: RequestHead) -> Match:
        asked.append(grant)
        return authorize(grant, match, head)

    for _ in range(2):
        assert reading.granted(all_may, counted) is match
    assert asked == [all_may]
    for _ in range(2):
        with pytest.raises(PermissionDeniedError):
            reading.granted(reads, counted)
    assert reading.granted(prefixed, counted).stream == "p/s"
    assert reading.granted(all_may, counted).stream == "s"
    assert asked == [all_may, reads, reads, prefixed, all_may]


def _noted(note: HeadNote) -> Request:
    request = post(PATH, BODY)
    return Request(
        *(request.method, request.raw_path, request.query, request.headers),
        BytesBody(BODY),
        head_note=note,
    )
