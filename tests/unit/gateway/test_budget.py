"""Request bodies under one budget, with their Content-Encoding undone."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import zlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
import zstandard

from svc_cluster.base.errors import ErrorCode, HotServerError, MalformedError, UnavailableError
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.limits.body_budget import (
    SLOW_SHARE,
    WAIT_SECONDS_MAX,
    BodyBudget,
    BodyPace,
    BodyPatience,
)
from svc_cluster.gateway.limits.budgeted_body import BudgetedBody
from svc_cluster.gateway.request.error_answers import (
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
)
from svc_cluster.http.message import BodyTimeoutError, BytesBody, Request
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, body_of, make_app, post

RECORDS = "/v1/streams/s/records"
ONE = b'{"records":[{}]}'


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


class PiecesBody:
    """Comes piece by piece, `pause` seconds apart, without an announced length."""

    def __init__(self, pieces: list[bytes], pause: float = 0.0) -> None:
        self.pieces = pieces
        self.pause = pause
        self.taken = 0

    async def chunks(self, idle_seconds: float | None = None) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if self.pause:
                await asyncio.sleep(self.pause)
            self.taken += 1
            yield piece


class Bench:
    def __init__(self, bytes_max: int) -> None:
        self.budget = BodyBudget(bytes_max, Metrics().http_body_bytes_in_flight)
        self.clock = SimClock(asyncio.get_running_loop())

    def body(self, data: bytes | PiecesBody, *headers: tuple[str, str]) -> BudgetedBody:
        given = list(headers)
        if isinstance(data, bytes):
            given.append(("content-length", str(len(data))))
            request = Request("POST", "/", "", given, BytesBody(data))
        else:
            request = Request("POST", "/", "", given, data)
        return BudgetedBody(request, self.budget, self.clock, ErrorCode.BAD_PROTO)


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_what_is_held_is_counted_until_it_is_released(coding: str) -> None:
    """The content, once it is there; not its compressed form beside it."""

    async def main() -> None:
        bench = Bench(100_000)
        data = os.urandom(3_000) + b"x" * 30_000
        sent = {"identity": data, "gzip": gzip.compress(data), "zstd": zstandard.compress(data)}
        body = bench.body(sent[coding], ("content-encoding", coding))
        assert await body.read(50_000) == data
        assert bench.budget.room == 100_000 - len(data)
        body.release()
        assert bench.budget.room == 100_000

    simulate(main())


def test_a_body_waits_for_room_as_long_as_its_budget_bears_with_it() -> None:
    """And is refused then, when none can make room, with what it held given back."""

    async def main() -> None:
        bench = Bench(40)
        bench.budget.patience = BodyPatience(wait_seconds=60.0)
        body = bench.body(PiecesBody([b"x" * 10] * 9))
        begun = asyncio.get_running_loop().time()
        with pytest.raises(HotServerError):
            await body.read(100)
        assert 60.0 <= asyncio.get_running_loop().time() - begun <= 61.0
        body.release()
        assert bench.budget.room == 40

    simulate(main())


def test_a_body_without_a_length_is_counted_as_it_comes() -> None:
    """Piece by piece; what comes on top of the room is the last that is read, and ends it when
    none is made in time."""

    async def main() -> None:
        bench = Bench(40)
        body = bench.body(PiecesBody([b"x" * 10] * 2))
        assert await body.read(100) == b"x" * 20
        assert bench.budget.room == 20
        body.release()
        pieces = PiecesBody([b"x" * 10] * 9)
        body = bench.body(pieces)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(HotServerError):
            await body.read(100)
        assert asyncio.get_running_loop().time() - begun <= WAIT_SECONDS_MAX + 1.0
        assert pieces.taken == 3
        assert body.cut
        body.release()
        assert bench.budget.room == 40

    simulate(main())


def test_what_is_decompressed_needs_room_as_well() -> None:
    """It is refused at once: there is nobody to wait for but itself."""

    async def main() -> None:
        bench = Bench(1_000)
        small = gzip.compress(b"x" * 1_001)
        for data in (small, zstandard.compress(b"x" * 1_001)):
            body = bench.body(data, ("content-encoding", "gzip" if data is small else "zstd"))
            with pytest.raises(HotServerError):
                await body.read(5_000)
            body.release()
        assert bench.budget.room == 1_000

    simulate(main())


def test_an_announced_length_takes_no_room() -> None:
    """Many that announce much and send little leave the room to one that sends."""

    async def main() -> None:
        bench = Bench(10_000)
        silent = [
            bench.body(PiecesBody([b"x" * 10] * 2, pause=3.0), ("content-length", "9000"))
            for _ in range(50)
        ]
        reading = [asyncio.ensure_future(body.read(9_000)) for body in silent]
        await asyncio.sleep(4.0)
        assert bench.budget.room == 10_000 - 50 * 10
        quick = bench.body(PiecesBody([b"x" * 1_000] * 6))
        assert len(await quick.read(9_000)) == 6_000
        quick.release()
        await asyncio.gather(*reading)

    simulate(main())


def test_a_body_waits_for_room_and_the_oldest_goes_first() -> None:
    """As soon as some is given back; those that come later are not faster."""

    async def main() -> None:
        bench = Bench(10_000)
        loop = asyncio.get_running_loop()
        holder = bench.body(PiecesBody([b"x" * 9_990]), ("content-length", "9990"))
        await holder.read(10_000)
        done: list[int] = []

        async def read(number: int) -> None:
            body = bench.body(PiecesBody([b"x" * 50] * 3, pause=0.01))
            await body.read(1_000)
            done.append(number)
            body.release()

        reading = []
        for number in range(4):
            reading.append(loop.create_task(read(number)))
            await asyncio.sleep(0.001)
        await asyncio.sleep(1.0)
        assert done == []
        holder.release()
        await asyncio.gather(*reading)
        assert done == [0, 1, 2, 3]
        assert bench.budget.room == 10_000

    simulate(main())


def test_the_youngest_that_wait_make_room_for_the_oldest() -> None:
    """As many as it takes and no more: of three that hold as much, one."""

    async def main() -> None:
        budget = BodyBudget(10_000, Metrics().http_body_bytes_in_flight)
        loop = asyncio.get_running_loop()
        budget.hold(8_000)

        async def wait(number: int) -> bool:
            await asyncio.sleep(0.01 * number)
            try:
                await budget.wait_turn(number, 1_000, WAIT_SECONDS_MAX, BodyPace.LARGE)
            except HotServerError:
                budget.give_back(1_000)
                return False
            budget.end_turn(BodyPace.LARGE)
            return True

        begun = loop.time()
        assert await asyncio.gather(*map(wait, range(3))) == [True, True, False]
        assert loop.time() - begun == pytest.approx(WAIT_SECONDS_MAX, abs=0.1)

    simulate(main())


def test_bodies_that_wait_and_are_cancelled_leave_nothing_behind() -> None:
    """Also in the moment in which it is their turn."""

    async def main() -> None:
        metrics = Metrics()
        budget = BodyBudget(10_000, metrics.http_body_bytes_in_flight, metrics.http_bodies_waiting)
        loop = asyncio.get_running_loop()
        budget.hold(10_000)
        waiting = [
            loop.create_task(budget.wait_turn(number, 0, 5.0, pace))
            for pace in BodyPace
            for number in range(4)
        ]
        await asyncio.sleep(0.001)
        assert "svc_http_bodies_waiting 12.0" in metrics.expose().decode()
        for task in waiting[::2]:
            task.cancel()
        await asyncio.sleep(0.001)
        assert "svc_http_bodies_waiting 6.0" in metrics.expose().decode()
        budget.give_back(10_000)
        for task in waiting:
            task.cancel()  # they have their turn, and have not gone on
        await asyncio.gather(*waiting, return_exceptions=True)
        assert "svc_http_bodies_waiting 0.0" in metrics.expose().decode()
        assert not any(budget._turns.values())

    simulate(main())


def test_slow_bodies_leave_most_of_the_room_to_others() -> None:
    """Those that take their time hold their share at most, then wait, and are refused; meanwhile
    what comes at once is served."""

    async def main() -> None:
        bench = Bench(100_000)
        loop = asyncio.get_running_loop()
        slow = [bench.body(PiecesBody([b"x" * 1_000] * 1_000, pause=1.0)) for _ in range(100)]

        async def read(body: BudgetedBody) -> bool:
            try:
                await body.read(10**7)
            except HotServerError:
                return False
            finally:
                body.release()
            return True

        reading = [loop.create_task(read(body)) for body in slow]
        for _ in range(40):
            await asyncio.sleep(0.25)
            # one piece of each that is read comes before it is stopped
            assert bench.budget.room >= -100_000 // SLOW_SHARE
        await asyncio.sleep(WAIT_SECONDS_MAX)
        for _ in range(20):
            quick = bench.body(PiecesBody([b"x" * 1_000] * 20))
            begun = loop.time()
            assert len(await quick.read(10**6)) == 20_000
            assert loop.time() - begun < 0.1
            quick.release()
            await asyncio.sleep(0.2)
        left = [task for task in reading if not task.done()]
        assert all(task.result() is False for task in reading if task.done())
        assert 1 <= len(left) <= 100_000 // SLOW_SHARE // 1_000
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        assert bench.budget.room == 100_000

    simulate(main())


def test_each_way_of_being_too_large_has_its_refusal() -> None:
    """Announced: 413, unread. Found out: the body's own code, and the rest is not read."""

    async def main() -> None:
        bench = Bench(10**9)
        announced = bench.body(b"x" * 1_001)
        with pytest.raises(PayloadTooLargeError):
            await announced.read(1_000)
        assert announced.cut
        pieces = PiecesBody([b"x" * 600] * 9)
        large = b"x" * 1_001
        for body in (
            bench.body(pieces),
            bench.body(gzip.compress(large), ("content-encoding", "gzip")),
            bench.body(zstandard.compress(large), ("content-encoding", "zstd")),
        ):
            with pytest.raises(MalformedError) as caught:
                await body.read(1_000)
            assert caught.value.code is ErrorCode.BAD_PROTO
            body.release()
        assert pieces.taken == 2
        assert bench.budget.room == 10**9

    simulate(main())


@pytest.mark.parametrize(
    "headers",
    [
        [("content-encoding", "br")],
        [("content-encoding", "gzip, gzip")],
        [("content-encoding", "gzip"), ("content-encoding", "gzip")],
        [("content-encoding", "identity"), ("content-encoding", "zstd, gzip")],
    ],
)
def test_a_coding_that_is_unknown_or_not_alone_is_refused(headers: list[tuple[str, str]]) -> None:
    """Also when it is spread over two header lines."""

    async def main() -> None:
        body = Bench(10**9).body(gzip.compress(b"x"), *headers)
        with pytest.raises(UnsupportedMediaTypeError):
            await body.read(1_000)

    simulate(main())


def test_identity_is_no_coding() -> None:
    """Alone, beside another, or empty."""

    async def main() -> None:
        for value, data in (
            ("identity", b"x"),
            ("", b"x"),
            (" GZip , identity", gzip.compress(b"x")),
        ):
            assert await Bench(10**9).body(data, ("content-encoding", value)).read(1_000) == b"x"

    simulate(main())


def test_a_body_that_trickles_in_is_given_up() -> None:
    """Without a length too it has to come at 1 KiB a second, after the first half minute."""

    async def main() -> float:
        bench = Bench(10**9)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        body = bench.body(PiecesBody([b"x"] * 1_000, pause=10.0))
        with pytest.raises(BodyTimeoutError):
            await body.read(10_000)
        assert body.cut
        fast = bench.body(PiecesBody([b"x" * 20_000] * 10, pause=10.0))
        assert len(await fast.read(10**6)) == 200_000
        return loop.time() - begun - 100.0

    assert 30.0 <= simulate(main()) <= 50.0


def test_a_session_s_pieces_are_counted_while_they_are_held() -> None:
    """As sent: what is a coding elsewhere is not looked at."""

    async def main() -> None:
        bench = Bench(10)
        body = bench.body(PiecesBody([b"12345", b"12", b"12345678901"]), ("content-encoding", "x"))
        rooms: list[tuple[bytes, int]] = []

        async def iterate() -> None:
            async for piece in body.chunks():
                rooms.append((piece, bench.budget.room))  # noqa: PERF401 - kept when it raises

        with pytest.raises(HotServerError):
            await iterate()
        assert rooms == [(b"12345", 5), (b"12", 8)]
        assert bench.budget.room == 10

    simulate(main())


def test_others_work_while_a_large_body_is_decompressed() -> None:
    """It is undone in steps: a body made to be dear holds nobody else up for longer than one."""

    async def main() -> int:
        bench = Bench(10**9)
        compressor = zlib.compressobj(9, wbits=31)
        data = b"".join(
            compressor.compress(b"x") + compressor.flush(zlib.Z_FULL_FLUSH) for _ in range(100_000)
        )
        body = bench.body(data + compressor.flush(), ("content-encoding", "gzip"))
        turns = 0
        done = False

        async def other() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        assert len(await body.read(10**6)) == 100_000
        done = True
        await beside
        return turns

    assert simulate(main()) >= 8


# -- behind the application


def test_a_handler_never_sees_the_coding() -> None:
    """Content-Encoding is undone below it; the budget is whole again after every outcome."""

    async def main() -> list[tuple[int, str]]:
        backend = ScriptedBackend(failure=UnavailableError())
        app, metrics = make_app(backend, body_bytes_in_flight_max=10_000)
        seen = []
        for data, *headers in (
            (gzip.compress(ONE), ("content-encoding", "gzip")),
            (zstandard.compress(ONE), ("content-encoding", "zstd")),
            (ONE, ("content-encoding", "gzip")),
            (ONE, ("content-encoding", "br")),
            (gzip.compress(ONE.ljust(20_000)), ("content-encoding", "gzip")),
            (b"{", ("content-encoding", "identity")),
        ):
            response = await app.handle(post(RECORDS, data, *headers))
            seen.append((response.status, json.loads(body_of(response))["code"]))
            assert "svc_http_body_bytes_in_flight 0.0" in metrics.expose().decode()
        return seen

    assert simulate(main()) == [
        (503, "unavailable"),
        (503, "unavailable"),
        (400, "bad_json"),
        (415, "unsupported_media_type"),
        (502, "hot_server"),
        (400, "bad_json"),
    ]


def test_whole_bodies_go_little_beyond_the_bound() -> None:
    """They are there before anybody has asked, and wait for their turn with what they hold. Those
    beyond an eighth more are refused at once, without effect, and the others have their turn."""

    async def main() -> None:
        bench = Bench(80_000)
        bench.budget.hold(80_000)
        bodies = [bench.body(bytes(4_000)) for _ in range(10)]
        tasks = [asyncio.ensure_future(body.read(10_000)) for body in bodies]
        await asyncio.sleep(0.1)
        assert bench.budget.held == 88_000
        assert [task.done() for task in tasks] == [False] * 2 + [True] * 8
        assert all(isinstance(task.exception(), HotServerError) for task in tasks[2:])
        bench.budget.give_back(80_000)
        assert [len(await task) for task in tasks[:2]] == [4_000] * 2
        for body in bodies:
            body.release()
        assert bench.budget.room == 80_000

    simulate(main())
