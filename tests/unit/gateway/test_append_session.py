"""Append sessions in virtual time, over a Backend in memory: order, ends, bounds."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.errors import (
    DeadlineError,
    ServiceError,
    StreamDeletionPendingError,
    UnavailableError,
)
from svc_cluster.base.metrics import Metrics
from svc_cluster.codec.session_frame import Compression, encode_frame, encode_terminal
from svc_cluster.gateway.api.append_session import UNDER_WAY_BATCHES_MAX, UNDER_WAY_BYTES_MAX
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import AppendWatch
from svc_cluster.http.message import (
    BodyBrokenError,
    ClientGoneError,
    Response,
)
from svc_cluster.model.record import AppendAck, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.framing import (
    RECORDS,
    Frames,
    PipeBody,
    ack_of,
    append_session,
    input_frame,
)
from tests.unit.gateway.scripted import BASIN, body_of, get, make_app

Hook = Callable[[int], Awaitable[None]]


class SlowBackend(MemoryBackend):
    """Appends take a second, one after the other; a hook may come between or fail them."""

    def __init__(self) -> None:
        super().__init__(SimClock(asyncio.get_running_loop()))
        self.begun: list[float] = []
        self.failures: dict[int, ServiceError] = {}
        """By the number of the append, from 0; raised after its second."""
        self.active = 0
        self.seconds = 1.0

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        *,
        request_key: bytes = b"",
        watch: AppendWatch | None = None,
    ) -> AppendAck:
        number = len(self.begun)
        self.begun.append(asyncio.get_running_loop().time())
        self.active += 1
        assert self.active == 1, "one batch at a time"
        try:
            await asyncio.sleep(self.seconds)
            if number in self.failures:
                raise self.failures[number]
            return await super().append(basin, stream, batch, match_seq_num, fencing_token)
        finally:
            self.active -= 1


class Scene:
    """A gateway with one stream, and one append session into it."""

    backend: SlowBackend
    app: GatewayApp
    metrics: Metrics
    body: PipeBody

    async def open(self, *headers: tuple[str, str], **options: Any) -> Response:
        self.backend = SlowBackend()
        self.app, self.metrics = make_app(self.backend, **options)
        await self.backend.create_basin(BASIN[1], BasinConfig())
        await self.backend.create_stream(BASIN[1], "s", NewStream())
        self.body = PipeBody()
        return await self.app.handle(append_session(self.body, *headers))

    async def frames(self, *headers: tuple[str, str], **options: Any) -> Frames:
        return Frames(await self.open(*headers, **options))

    async def stored(self) -> list[str]:
        response = await self.app.handle(get(RECORDS, "", ("svc-format", "utf8")))
        return [record.get("body", "") for record in json.loads(body_of(response))["records"]]


def held_bytes(metrics: Metrics) -> float:
    """What bodies hold, as it is told."""
    held = metrics.registry.get_sample_value("svc_http_body_bytes_in_flight")
    assert held is not None
    return held


def simulate(main: Callable[[Scene], Coroutine[Any, Any, Any]]) -> Any:
    return run(lambda loop: main(Scene()))


def body_of_terminal(frame: Any) -> tuple[int, dict[str, Any]]:
    status, body = frame.failure()
    return status, json.loads(body)


def test_the_answer_begins_before_the_first_frame() -> None:
    """Status and headers come while nothing has been sent; the type is the request's."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        headers = dict(frames.response.headers)
        assert headers["content-type"] == "svcs/proto"
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"
        assert scene.body.taken == 0
        scene.body.put(None)
        assert await frames.rest() == []

    simulate(main)


BOMB = encode_frame(bytes(2_000_000), Compression.GZIP)
"""No AppendInput; about 2 KB on the wire."""


def bodies_in_flight(scene: Scene) -> float:
    (line,) = [
        line
        for line in scene.metrics.expose().decode().splitlines()
        if line.startswith("svc_http_body_bytes_in_flight ")
    ]
    return float(line.split()[1])


def test_a_frame_that_is_refused_is_not_kept() -> None:
    """Thirty sessions that each send a small frame of 2 MB and are refused, some of them over and
    some not yet closed: nothing of what was decompressed is left, without the collector's help."""

    async def main(scene: Scene) -> None:
        await scene.open()
        kept: list[Frames] = []
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for number in range(30):
                body = PipeBody()
                frames = Frames(await scene.app.handle(append_session(body)))
                body.put(BOMB)
                frame = await frames.next()
                assert frame is not None
                status, told = body_of_terminal(frame)
                assert (status, told["code"]) == (400, "invalid")
                if number % 2:
                    await frames.close()
                else:
                    kept.append(frames)
            assert tracemalloc.get_traced_memory()[0] < 4_000_000
        finally:
            tracemalloc.stop()
            gc.enable()
        for frames in kept:
            await frames.close()
        assert bodies_in_flight(scene) == 0

    simulate(main)


def test_what_a_frame_unpacks_to_counts_against_the_budget() -> None:
    """With 1 MB for all bodies a frame of 2 KB that unpacks to 2 MB finds no room, and what was
    taken for it is given back."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames(body_bytes_in_flight_max=1_000_000)
        scene.body.put(BOMB)
        frame = await frames.next()
        assert frame is not None
        status, told = body_of_terminal(frame)
        assert (status, told["code"]) == (502, "hot_server")
        assert told["may_have_taken_effect"] is False
        await frames.close()
        assert bodies_in_flight(scene) == 0

    simulate(main)


def test_a_message_that_waits_for_room_is_counted() -> None:
    """While as much as a session may have is under way, the next one, unpacked, counts too; all of
    it is given back at the end."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        size = 1_000_000
        for _ in range(5):
            scene.body.put(input_frame(bytes(size), compression=Compression.GZIP))
        scene.body.put(None)
        first = asyncio.create_task(frames.next())
        await asyncio.sleep(0.5)
        assert 5 * size <= bodies_in_flight(scene) <= 6 * size
        assert ack_of(await first) == (0, 1)
        assert len(await frames.rest()) == 4
        assert bodies_in_flight(scene) == 0

    simulate(main)


def test_pipelined_inputs_are_acknowledged_in_order() -> None:
    """Ten frames in three pieces that cut them anywhere; then the client's end, and the answer's
    without a terminal frame."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        data = b"".join(input_frame(*[b"%d" % number] * (number + 1)) for number in range(10))
        scene.body.put(data[:5], data[5:60], data[60:], None)
        found = await frames.rest()
        assert [ack_of(frame) for frame in found] == [
            (n * (n + 1) // 2, (n + 1) * (n + 2) // 2) for n in range(10)
        ]
        assert await scene.stored() == [str(n) for n in range(10) for _ in range(n + 1)]

    simulate(main)


def test_acks_come_while_the_client_is_still_sending() -> None:
    """Each before the next input is sent: both directions at once."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        for number in range(5):
            scene.body.put(input_frame(b"x"))
            assert ack_of(await frames.next()) == (number, number + 1)
        scene.body.put(None)
        assert await frames.next() is None

    simulate(main)


def test_the_next_batch_is_ready_when_one_is_acknowledged() -> None:
    """Appends follow each other without a gap though each input comes just in time: frames are
    read and built while the one before is being appended."""

    async def main(scene: Scene) -> list[float]:
        frames = await scene.frames()

        async def send() -> None:
            for _ in range(5):
                scene.body.put(input_frame(b"x"))
                await asyncio.sleep(0.4)
            scene.body.put(None)

        task = asyncio.ensure_future(send())
        await frames.rest()
        await task
        begun = scene.backend.begun
        return [at - begun[0] for at in begun]

    assert simulate(main) == pytest.approx([0, 1, 2, 3, 4])


@pytest.mark.parametrize("failed", [0, 2])
@pytest.mark.parametrize("failure", [DeadlineError("unknown"), UnavailableError("no leader")])
def test_nothing_is_applied_behind_the_first_failure(failed: int, failure: ServiceError) -> None:
    """Neither what was pipelined already nor the failed batch again: its outcome may be unknown."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.backend.failures = {failed: failure}
        scene.body.put(*(input_frame(b"%d" % number) for number in range(5)))
        found = await frames.rest()
        assert [ack_of(frame) for frame in found[:-1]] == [(n, n + 1) for n in range(failed)]
        status, body = body_of_terminal(found[-1])
        assert status == (408 if isinstance(failure, DeadlineError) else 503)
        assert body["code"] == failure.code.value
        assert body["may_have_taken_effect"] is failure.may_have_taken_effect
        await asyncio.sleep(10)
        assert len(scene.backend.begun) == failed + 1
        assert await scene.stored() == [str(n) for n in range(failed)]

    simulate(main)


def test_a_failed_condition_ends_the_session_with_its_body() -> None:
    """The sequence number that would have matched; earlier inputs stay."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.body.put(input_frame(b"a", match_seq_num=0), input_frame(b"b", match_seq_num=0))
        first, last = await frames.rest()
        assert ack_of(first) == (0, 1)
        status, body = body_of_terminal(last)
        assert (status, body["seq_num_mismatch"]) == (412, 1)
        assert await scene.stored() == ["a"]

    simulate(main)


def test_a_condition_has_one_key_in_the_s2_dialect() -> None:
    """Its clients decode a tagged union, in terminal frames too."""

    async def main(scene: Scene) -> None:
        await (await scene.frames()).close()
        request = append_session(scene.body, kind="s2s/proto")
        frames = Frames(await scene.app.handle(request))
        assert dict(frames.response.headers)["content-type"] == "s2s/proto"
        scene.body.put(input_frame(b"a", fencing_token="other"))
        (last,) = await frames.rest()
        assert last.failure() == (412, b'{"fencing_token_mismatch":""}')

    simulate(main)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x00\x00\x00", "bad_frame"),
        (b"\xff\xff\xff\x00", "bad_frame"),
        (b"\x00\x00\x01\x60", "bad_frame"),
        (encode_frame(b"x" * 2000, Compression.ZSTD)[:3] + b"\x20" + bytes(3000), "bad_frame"),
        (encode_terminal(400, b"{}"), "bad_frame"),
        (encode_frame(b"\x0a\x05x"), "bad_proto"),
        (encode_frame(b""), "invalid"),
        (input_frame(b"x" * 1_048_569), "invalid"),
        (input_frame(b"x", fencing_token="x" * 37), "invalid"),
    ],
)
@pytest.mark.parametrize("kind", ["svcs/proto", "s2s/proto"])
def test_a_bad_input_is_refused_behind_the_acks_of_the_good_ones(
    frame: bytes, code: str, kind: str
) -> None:
    """Malformed frames and messages are 400, invalid inputs 422 and in the seed dialect 400; what
    comes behind them is not looked at."""

    async def main(scene: Scene) -> None:
        await (await scene.frames()).close()
        frames = Frames(await scene.app.handle(append_session(scene.body, kind=kind)))
        scene.body.put(input_frame(b"a") + input_frame(b"b") + frame + input_frame(b"c"))
        one, two, last = await frames.rest()
        assert (ack_of(one), ack_of(two)) == ((0, 1), (1, 2))
        status, body = body_of_terminal(last)
        assert body["code"] == code
        assert status == (422 if code == "invalid" and kind == "s2s/proto" else 400)
        assert body["may_have_taken_effect"] is False
        assert await scene.stored() == ["a", "b"]

    simulate(main)


@pytest.mark.parametrize("end", [None, BodyBrokenError()])
def test_an_end_in_the_middle_of_a_frame_is_a_bad_frame(end: Exception | None) -> None:
    """Whether the body ends cleanly there or not."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.body.put(input_frame(b"a") + input_frame(b"b")[:-1], end)
        first, last = await frames.rest()
        assert ack_of(first) == (0, 1)
        status, body = body_of_terminal(last)
        assert (status, body["code"]) == (400, "bad_frame")

    simulate(main)


@pytest.mark.parametrize("compression", Compression)
def test_each_frame_is_decompressed_by_its_own_flag(compression: Compression) -> None:
    """Between frames of other kinds."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        large = input_frame(b"x" * 5000, compression=compression)
        assert (len(large) < 200) == (compression is not Compression.NONE)
        scene.body.put(input_frame(b"a"), large, input_frame(b"b"), None)
        assert len(await frames.rest()) == 3
        assert await scene.stored() == ["a", "x" * 5000, "b"]

    simulate(main)


GOOD = ["one", "many", "compressed", "matching"]
BAD = ["mismatch", "frame", "message", "invalid"]


@settings(deadline=None, max_examples=60)
@given(
    kinds=st.lists(st.sampled_from(GOOD + BAD), max_size=8),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=9),
    half_closes=st.booleans(),
)
def test_exactly_the_inputs_before_the_first_bad_one_are_applied(
    kinds: list[str], sizes: list[int], half_closes: bool
) -> None:
    """However inputs follow each other and however their bytes are cut: an ack for each of those,
    then a terminal frame where there is a bad one, and the stream holds what was acknowledged."""
    data = b""
    expected: list[str] = []
    good = list(itertools.takewhile(lambda kind: kind in GOOD, kinds))
    for number, kind in enumerate(kinds):
        tail = len(expected)
        bodies = [b"%d-%d" % (number, part) for part in range(3 if kind == "many" else 1)]
        match kind:
            case "compressed":
                bodies = [b"%d" % number + b"x" * 2000]
                data += input_frame(*bodies, compression=Compression.GZIP)
            case "matching":
                data += input_frame(*bodies, match_seq_num=tail)
            case "mismatch":
                data += input_frame(*bodies, match_seq_num=tail + 1)
            case "frame":
                data += b"\x00\x00\x00"
            case "message":
                data += encode_frame(b"\x0a\x7f")
            case "invalid":
                data += encode_frame(b"")
            case _:
                data += input_frame(*bodies)
        if number < len(good):
            expected += [body.decode() for body in bodies]

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        rest = data
        for size in itertools.cycle(sizes):
            if not rest:
                break
            scene.body.put(rest[:size])
            rest = rest[size:]
        if half_closes or len(good) == len(kinds):
            scene.body.put(None)
        found = await frames.rest()
        failed = len(good) < len(kinds)
        assert len(found) == len(good) + failed
        assert [frame.is_terminal for frame in found] == [False] * len(good) + [True] * failed
        if failed:
            status, _ = found[-1].failure()
            assert status == (412 if kinds[len(good)] == "mismatch" else 400)
        assert (await scene.stored() if expected else []) == expected
        assert held_bytes(scene.metrics) == 0

    simulate(main)


def test_a_client_that_goes_ends_the_session_with_what_is_under_way() -> None:
    """What waits behind it is dropped: nobody would learn of it."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.body.put(input_frame(b"a"), input_frame(b"b"), input_frame(b"c"))
        first = asyncio.ensure_future(frames.next())
        await asyncio.sleep(0.5)
        scene.body.put(ClientGoneError())
        assert ack_of(await first) == (0, 1)
        assert await frames.next() is None
        assert await scene.stored() == ["a"]
        assert scene.metrics.append_sessions._value.get() == 0

    simulate(main)


def test_an_answer_that_is_closed_frees_everything() -> None:
    """Its task, its gauge, and its share of the budget of bodies, whatever it was doing."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.body.put(*[input_frame(b"x" * 1000)] * 5, input_frame(b"y" * 1000)[:500])
        assert ack_of(await frames.next()) == (0, 1)
        await asyncio.sleep(0)
        metrics = scene.metrics
        assert metrics.append_sessions._value.get() == 1
        assert held_bytes(metrics) > 4000
        task = asyncio.ensure_future(frames.next())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await frames.close()
        assert metrics.append_sessions._value.get() == 0
        assert held_bytes(metrics) == 0
        assert len(asyncio.all_tasks()) == 1
        assert await scene.stored() == ["x" * 1000]

    simulate(main)
    gc.collect()


def test_what_is_under_way_is_bounded() -> None:
    """By bytes and by batches: a client that sends faster than it is served is slowed down."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        half = 1024 * 1024 // 2
        scene.body.put(*[input_frame(b"x" * half)] * 40, None)
        for _ in range(3):
            await frames.next()
            await asyncio.sleep(0.5)
            held = held_bytes(scene.metrics)
            assert half <= held <= UNDER_WAY_BYTES_MAX + 3 * half
            assert scene.body.taken < 16
        await frames.close()

        frames = await scene.frames()
        scene.body.put(*[input_frame(b"x")] * 1000, None)
        await frames.next()
        await asyncio.sleep(0.5)
        assert scene.body.taken <= UNDER_WAY_BATCHES_MAX + 3
        assert len(await frames.rest()) == 999

    simulate(main)


def test_a_session_waits_for_room_that_it_will_make_itself() -> None:
    """Where all bodies together may hold little, a session is slowed down and not refused; what
    finds no room though nothing of the session is under way ends it with 502, without effect."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames(body_bytes_in_flight_max=3000)
        scene.body.put(*[input_frame(b"x" * 1000)] * 6)
        assert [ack_of(await frames.next()) for _ in range(6)] == [(n, n + 1) for n in range(6)]
        scene.body.put(input_frame(b"x" * 3001))
        (last,) = await frames.rest()
        status, body = body_of_terminal(last)
        assert (status, body["code"]) == (502, "hot_server")
        assert body["may_have_taken_effect"] is False
        assert len(await scene.stored()) == 6
        assert held_bytes(scene.metrics) == 0

    simulate(main)


def test_draining_ends_the_session_behind_what_was_taken_in() -> None:
    """Those acks advise to connect again; what comes later is not applied; there is no terminal
    frame."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.body.put(*[input_frame(b"x")] * 3)
        first = await frames.next()
        assert first is not None
        assert not first.reconnect_advised
        task = asyncio.ensure_future(frames.rest())
        await asyncio.sleep(0.5)
        scene.app.drain()
        scene.body.put(*[input_frame(b"late")] * 3)
        found = await task
        assert [ack_of(frame) for frame in found] == [(1, 2), (2, 3)]
        assert all(frame.reconnect_advised for frame in found)
        assert len(scene.backend.begun) == 3

    simulate(main)


def test_draining_ends_an_idle_session_at_once() -> None:
    """Cleanly: there is nothing to say and nothing to wait for."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        task = asyncio.ensure_future(frames.rest())
        await asyncio.sleep(100)
        scene.app.drain()
        begun = asyncio.get_running_loop().time()
        assert await task == []
        assert asyncio.get_running_loop().time() == begun

    simulate(main)


def test_what_is_known_up_front_is_a_plain_answer() -> None:
    """No stream, no basin, a request token, a Content-Encoding: a status of its own each time, and
    not a byte of the body is read."""

    async def main(scene: Scene) -> None:
        await (await scene.frames()).close()
        for headers, status, code in (
            ([("svc-request-token", "x")], 400, "bad_header"),
            ([("content-encoding", "gzip")], 415, "unsupported_media_type"),
        ):
            response = await scene.app.handle(append_session(scene.body, *headers))
            assert (response.status, json.loads(body_of(response))["code"]) == (status, code)
        await scene.backend.delete_stream(BASIN[1], "s")
        response = await scene.app.handle(append_session(scene.body))
        assert (response.status, json.loads(body_of(response))["code"]) == (404, "stream_not_found")
        await scene.backend.delete_basin(BASIN[1])
        response = await scene.app.handle(append_session(scene.body))
        assert json.loads(body_of(response))["code"] == "basin_not_found"
        assert scene.body.taken == 0

    simulate(main)


def test_a_stream_that_is_made_on_append_is_made_when_the_session_opens() -> None:
    """Also by one that sends nothing: what an answer says of the stream holds from then on."""

    async def main(scene: Scene) -> None:
        await (await scene.frames()).close()
        await scene.backend.create_basin("basin-0002", BasinConfig(create_stream_on_append=True))
        for sent in (0, 1):
            request = append_session(scene.body)
            request.headers = [("svc-basin", "basin-0002"), *list(request.headers)[1:]]
            frames = Frames(await scene.app.handle(request))
            scene.body.put(*[input_frame(b"x")] * sent, None)
            assert len(await frames.rest()) == sent
            infos, _ = await scene.backend.list_streams("basin-0002", "", "", 9)
            assert len(infos) == 1

    simulate(main)


def test_a_stream_deleted_under_a_session_ends_it() -> None:
    """With the refusal that a unary append would have had."""

    async def main(scene: Scene) -> None:
        frames = await scene.frames()
        scene.backend.failures = {1: StreamDeletionPendingError()}
        scene.body.put(*[input_frame(b"x")] * 3)
        _, last = await frames.rest()
        status, body = body_of_terminal(last)
        assert (status, body["code"]) == (409, "stream_deletion_pending")

    simulate(main)


def test_a_fault_of_ours_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """500, may have happened, one line in the log."""

    async def main(scene: Scene) -> Any:
        frames = await scene.frames()
        scene.backend.failures = {0: RuntimeError("secret")}  # type: ignore[dict-item]
        scene.body.put(input_frame(b"x"))
        (last,) = await frames.rest()
        return body_of_terminal(last)

    status, body = simulate(main)
    assert (status, body["code"], body["may_have_taken_effect"]) == (500, "other", True)
    assert "secret" not in str(body)
    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert logged == ["append_session_failed"]
