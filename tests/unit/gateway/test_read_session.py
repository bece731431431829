"""Read sessions in virtual time: heartbeats, tails, ends, advice to reconnect."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import (
    PastTailError,
    ServiceError,
    StreamDeletionPendingError,
    UnavailableError,
)
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.session_frame import Compression, encode_frame
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.model.read_bounds import StartKind
from svc_cluster.model.record import (
    Position,
)
from tests.at_once import build_batch
from tests.simulation.loop import run
from tests.stored_batches import sequenced
from tests.unit.gateway.framing import RECORDS, Frames, batch_of
from tests.unit.gateway.scripted import (
    ReadCall,
    ScriptedBackend,
    body_of,
    get,
    make_app,
    nothing,
    records,
)

SESSION = ("content-type", "svcs/proto")


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


async def open_session(app: GatewayApp, query: str = "", *headers: tuple[str, str]) -> Frames:
    return Frames(await app.handle(get(RECORDS, query, *(headers or (SESSION,)))))


def now() -> float:
    return asyncio.get_running_loop().time()


def live(first: int, count: int, seconds: float = 1) -> Any:
    """A step of the script: records that come after some seconds, up to the tail."""

    async def step(call: ReadCall) -> ReadResult:
        assert call.wait_ms >= seconds * 1000, "the follower waits"
        await asyncio.sleep(seconds)
        return records(first, count, tail=first + count)

    return step


def one_batch(first: int, batch_records: list[Any], *, timestamp_ms: int = 9) -> ReadResult:
    """All of a stream behind `first`."""
    batch = build_batch(batch_records)
    tail = Position(SeqNum(first + batch.record_count), TimestampMs(timestamp_ms))
    return ReadResult(first, (sequenced(batch, first, timestamp_ms),), tail, False)


def test_a_heartbeat_comes_at_once_at_the_tail_and_then_after_5_to_15_idle_seconds() -> None:
    """Behind the last stored batch, too; over half an hour every gap is in range."""

    async def main() -> list[float]:
        app, _ = make_app(ScriptedBackend([records(0, 3, tail=3), nothing(3)]))
        frames = await open_session(app)
        begun = now()
        assert batch_of(await frames.next()) == ([0, 1, 2], 3)
        times = []
        while now() - begun < 1800:
            assert batch_of(await frames.next()) == ([], 3)
            times.append(now() - begun)
        await frames.close()
        return times

    times = simulate(main())
    assert times[0] == 0
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 5
    assert max(gaps) <= 15.01
    assert len({round(gap, 2) for gap in gaps}) > 10


def test_batches_that_end_at_the_tail_carry_it() -> None:
    """Stored ones as well as live ones, however many the shared read has brought at once; those
    before them have none."""

    async def main() -> list[tuple[list[int], int | None]]:
        backend = ScriptedBackend(
            [
                records(0, 2, tail=3, more=True),
                records(2, 1, tail=3),
                live(3, 2),
                records(5, 2, tail=9, more=True),
                records(7, 2, tail=9),
                live(9, 1),
                nothing(10),
            ]
        )
        app, _ = make_app(backend)
        frames = await open_session(app)
        found = [batch_of(await frames.next()) for _ in range(5)]
        await frames.close()
        return found

    assert simulate(main()) == [
        ([0, 1], None),
        ([2], 3),
        ([], 3),
        ([3, 4, 5, 6, 7, 8], 9),
        ([9], 10),
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("count=2", [[0, 1]]),
        ("count=9", [[0, 1, 2]]),
        ("count=0", []),
        ("bytes=8", [[0]]),
        ("until=9", []),
        ("wait=0", [[0, 1, 2]]),
        ("seq_num=3&wait=0", []),
    ],
)
def test_a_bounded_session_ends_without_heartbeat_or_terminal_frame(
    query: str, found: list[list[int]]
) -> None:
    """What exists within the bounds, then the end of the body; also where nothing exists."""

    async def main() -> tuple[list[list[int]], float]:
        first = nothing(3) if query.startswith("seq_num") else records(0, 3, tail=3)
        app, _ = make_app(ScriptedBackend([first, nothing(3)]))
        frames = await open_session(app, query)
        begun = now()
        batches = [batch_of(frame) for frame in await frames.rest()]
        assert all(tail == (3 if numbers[-1] == 2 else None) for numbers, tail in batches)
        return [numbers for numbers, _ in batches], now() - begun

    assert simulate(main()) == (found, 0)


def test_wait_is_counted_from_the_tail_and_again_from_each_batch_never_from_heartbeats() -> None:
    """20 s of wait, a batch after 6 s, the end 20 s after that, heartbeats in between."""

    async def main() -> tuple[list[Any], float]:
        backend = ScriptedBackend([nothing(0), nothing(0), live(0, 1, 1), nothing(1)])
        app, _ = make_app(backend)
        frames = await open_session(app, "wait=20")
        begun = now()
        found = [batch_of(frame) for frame in await frames.rest()]
        return found, now() - begun

    found, seconds = simulate(main())
    assert ([0], 1) in found
    assert found[0] == ([], 0)
    assert len(found) > 3
    assert 25.9 < seconds < 26.2


def test_a_wait_beyond_a_minute_is_kept() -> None:
    """The bound of unary reads is not the sessions'."""

    async def main() -> float:
        app, _ = make_app(ScriptedBackend([nothing(0)]))
        frames = await open_session(app, "wait=300&count=5")
        begun = now()
        await frames.rest()
        return now() - begun

    assert 300 <= simulate(main()) < 300.1


@pytest.mark.parametrize(
    ("headers", "compression"),
    [
        ((), Compression.NONE),
        ((("accept-encoding", "gzip"),), Compression.GZIP),
        ((("accept-encoding", "gzip, zstd"),), Compression.ZSTD),
        ((("accept-encoding", "gzip"), ("accept-encoding", "zstd")), Compression.ZSTD),
    ],
)
def test_large_frames_are_compressed_as_the_client_accepts(
    headers: tuple[tuple[str, str], ...], compression: Compression
) -> None:
    """Each for itself, never the body as a whole; small ones stay as they are."""

    async def main() -> None:
        backend = ScriptedBackend([one_batch(0, [(None, (), b"x" * 3000)]), live(1, 1), nothing(2)])
        app, _ = make_app(backend)
        frames = await open_session(app, "", SESSION, *headers)
        assert "content-encoding" not in dict(frames.response.headers)
        stored = await frames.next()
        assert stored is not None
        assert stored.compression is compression
        assert batch_of(stored) == ([0], 1)
        heartbeat = await frames.next()
        assert heartbeat is not None
        assert heartbeat.compression is Compression.NONE
        await frames.close()

    simulate(main())


def test_an_outage_is_bridged_and_a_long_one_ends_with_a_terminal_frame() -> None:
    """503 with the JSON body of a plain answer, after 20 s."""

    async def main() -> None:
        outage: list[Any] = [UnavailableError()] * 5
        backend = ScriptedBackend(
            [records(0, 1, tail=1), *outage, records(1, 1, tail=2), UnavailableError("no leader")]
        )
        app, _ = make_app(backend)
        frames = await open_session(app)
        assert batch_of(await frames.next()) == ([0], 1)
        assert batch_of(await frames.next()) == ([], 1)
        assert batch_of(await frames.next()) == ([1], 2)
        begun = now()
        (last,) = await frames.rest()
        status, body = last.failure()
        assert (status, json.loads(body)["code"]) == (503, "unavailable")
        assert "may_have_taken_effect" in json.loads(body)
        assert 18 < now() - begun <= 20.1

    simulate(main())


def test_deletion_and_a_successor_of_the_name_end_the_session() -> None:
    """A terminal frame, and not one record of the other stream."""

    async def main(step: ReadResult | ServiceError) -> tuple[int, str]:
        app, _ = make_app(ScriptedBackend([replace(nothing(3), incarnation=(2, 1)), step]))
        frames = await open_session(app)
        assert batch_of(await frames.next()) == ([], 3)
        (last,) = await frames.rest()
        status, body = last.failure()
        return status, json.loads(body)["code"]

    successor = replace(records(3, 2, tail=5), incarnation=(2, 2))
    assert simulate(main(successor)) == (404, "stream_not_found")
    assert simulate(main(StreamDeletionPendingError())) == (409, "stream_deletion_pending")


def test_a_long_poll_does_not_go_on_in_a_successor_of_the_name() -> None:
    """The unary read, too, is of one stream: 404 instead of another one's records."""

    async def main() -> int:
        steps = [
            replace(nothing(3), incarnation=(2, 1)),
            replace(records(3, 1, tail=4), incarnation=(2, 2)),
        ]
        app, _ = make_app(ScriptedBackend([*steps]))
        return (await app.handle(get(RECORDS, "seq_num=3&wait=10"))).status

    assert simulate(main()) == 404


def test_draining_is_told_by_the_next_frame_which_is_the_last() -> None:
    """At the tail a heartbeat, within one read; the end is clean."""

    async def main() -> None:
        app, _ = make_app(ScriptedBackend([nothing(4)]))
        frames = await open_session(app)
        first = await frames.next()
        assert first is not None
        assert not first.reconnect_advised
        app.drain()
        begun = now()
        (last,) = await frames.rest()
        assert last.reconnect_advised
        assert batch_of(last) == ([], 4)
        assert now() - begun <= 5

    simulate(main())


def test_draining_in_the_middle_of_stored_records_is_told_by_the_next_batch() -> None:
    """Not by a heartbeat, which would say that the reader is at the tail."""

    async def main() -> None:
        backend = ScriptedBackend(
            [*(records(n, 1, tail=9, more=True) for n in range(3)), nothing(9)]
        )
        app, _ = make_app(backend)
        frames = await open_session(app)
        assert batch_of(await frames.next()) == ([0], None)
        app.drain()
        (last,) = await frames.rest()
        assert last.reconnect_advised
        assert batch_of(last) == ([1], None)

    simulate(main())


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("", False),
        ("wait=0", False),
        ("count=5", True),
        ("bytes=5", True),
        ("until=5&seq_num=0", True),
        ("count=5&wait=0", True),
        ("count=5&wait=1", False),
    ],
)
@pytest.mark.parametrize("stream", [SESSION, ("accept", "text/event-stream")])
def test_a_bounded_stream_at_the_tail_is_refused_in_the_s2_dialect_only(
    query: str, refused: bool, stream: tuple[str, str]
) -> None:
    """Where it could neither return nor wait for anything; the node is told to refuse. In the
    seed dialect it never is."""

    async def main(mark: tuple[str, str]) -> tuple[int, bool]:
        asked: list[bool] = []

        class Backend(ScriptedBackend):
            async def read(self, *args: Any, refuse_at_tail: bool, **options: Any) -> ReadResult:
                asked.append(refuse_at_tail)
                if refuse_at_tail:
                    raise PastTailError(7, 9)
                return await super().read(*args, refuse_at_tail=False, **options)

        app, _ = make_app(Backend([nothing(7)]))
        kind = ("content-type", "s2s/proto") if stream is SESSION and mark[0] != "svc-x" else stream
        response = await app.handle(get_of(mark, query, kind))
        if response.status == 416:
            assert json.loads(body_of(response))["tail"] == {"seq_num": 7, "timestamp": 9}
        else:
            await response.body.aclose()  # type: ignore[union-attr]
        return response.status, asked[0]

    assert simulate(main(("s2-x", "1"))) == ((416, True) if refused else (200, False))
    assert simulate(main(("svc-x", "1"))) == (200, False)


def get_of(mark: tuple[str, str], query: str, *headers: tuple[str, str]) -> Any:
    """A read whose dialect is told by nothing but `mark`."""
    request = get(RECORDS, query, *headers)
    basin = "s2-basin" if mark[0].startswith("s2-") else "svc-basin"
    request.headers = [(basin, "basin-0001"), mark, *list(request.headers)[1:]]
    return request


def test_the_default_start_is_the_dialects() -> None:
    """S2: at the tail. Seed: at the first retained record."""

    async def main(mark: tuple[str, str]) -> tuple[StartKind, int]:
        backend = ScriptedBackend([nothing(7)])
        app, _ = make_app(backend)
        response = await app.handle(get_of(mark, "wait=0", ("accept", "text/event-stream")))
        await response.body.aclose()  # type: ignore[union-attr]
        start = backend.calls[0].start
        return start.kind, start.value

    assert simulate(main(("s2-x", "1"))) == (StartKind.TAIL_OFFSET, 0)
    assert simulate(main(("svc-x", "1")))[0] is StartKind.FIRST_RETAINED


def test_a_unary_read_tells_the_tail_by_the_dialect() -> None:
    """S2: only with records that came live. Seed: always."""

    async def main(mark: tuple[str, str], steps: list[Any], query: str) -> Any:
        app, _ = make_app(ScriptedBackend(steps))
        body = json.loads(body_of(await app.handle(get_of(mark, query))))
        return [record["seq_num"] for record in body["records"]], body.get("tail")

    tail = {"seq_num": 3, "timestamp": 9}
    stored = [records(0, 3, tail=3)]
    waited = [nothing(0), live(0, 3)]
    s2, seed = ("s2-x", "1"), ("svc-x", "1")
    assert simulate(main(s2, [*stored], "seq_num=0")) == ([0, 1, 2], None)
    assert simulate(main(s2, [*stored], "seq_num=0&wait=9")) == ([0, 1, 2], None)
    assert simulate(main(s2, [*waited], "seq_num=0&wait=9")) == ([0, 1, 2], tail)
    assert simulate(main(s2, [nothing(3)], "seq_num=3&wait=9")) == ([], None)
    assert simulate(main(seed, [*stored], "seq_num=0")) == ([0, 1, 2], tail)
    assert simulate(main(seed, [nothing(3)], "seq_num=3")) == ([], tail)


def test_records_that_are_all_headers_are_split_into_frames_that_fit() -> None:
    """Tiny headers take twice their metered size: 1 MiB of them exceeds a frame of 2 MiB, and is
    several. They are no longer live behind the first: the tail is told by the heartbeat."""

    first = 2**40

    async def main() -> list[tuple[list[int], int | None]]:
        headers = ((b"n", b"v"),) * 13_105
        step = one_batch(first, [(None, headers, b"")] * 20, timestamp_ms=1_700_000_000_000)
        app, _ = make_app(ScriptedBackend([nothing(first), step, nothing(first + 20)]))
        frames = await open_session(app)
        found = [batch_of(await frames.next())]
        while not found[-1][0] or found[-1][0][-1] < first + 19:
            found.append(batch_of(await frames.next()))
        found.append(batch_of(await frames.next()))
        await frames.close()
        return found

    at_tail, *batches, behind = simulate(main())
    assert at_tail == ([], first)
    assert [seq_num for seq_nums, _ in batches for seq_num in seq_nums] == [
        *range(first, first + 20)
    ]
    assert len(batches) > 2
    assert {tail for _, tail in batches} == {None}
    assert behind == ([], first + 20)


def test_frames_are_the_frames_of_the_codec() -> None:
    """The very bytes: nothing stands between the session and its frames."""

    async def main() -> bytes:
        app, _ = make_app(ScriptedBackend([records(0, 1, tail=1), nothing(1)]))
        response = await app.handle(get(RECORDS, "wait=0", SESSION))
        assert not isinstance(response.body, bytes)
        return b"".join([piece async for piece in response.body])

    batch = pb.ReadBatch()
    batch.records.add(seq_num=0, timestamp=9)
    batch.tail.CopyFrom(pb.StreamPosition(seq_num=1, timestamp=9))
    assert simulate(main()) == encode_frame(batch.SerializeToString())


def test_what_waited_here_tells_no_tail() -> None:
    """A tail that may have moved since is not told with the last of its records: the heartbeat
    behind them, of a new read, has the one of now."""

    async def main() -> list[tuple[list[int], int | None]]:
        waited = replace(records(0, 2, tail=2), tail_is_of_now=False, may_have_more=True)
        app, _ = make_app(ScriptedBackend([waited, records(2, 1, tail=3), nothing(3)]))
        frames = await open_session(app)
        found = [batch_of(await frames.next()) for _ in range(3)]
        await frames.close()
        return found

    assert simulate(main()) == [([0, 1], None), ([2], 3), ([], 3)]
