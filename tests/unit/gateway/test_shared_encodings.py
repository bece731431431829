"""What followers share, and what they never do; nothing is held for those who do not read."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.steps import at_once
from svc_cluster.codec.batch_codec import RecordIn
from svc_cluster.gateway.api import stream_follower
from svc_cluster.gateway.api.pieces import PIECE_BYTES_MAX, Waiting
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.records.byte_cache import ByteCache
from svc_cluster.gateway.records.record_cipher import RecordCipher
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.http.message import Response
from svc_cluster.model.cipher import AEGIS_256, StreamIdentity
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch, seal_batch
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, run
from tests.unit.gateway.scripted import get, make_app

NAMES = ("basin-0001", "s")
PATH = "/v1/streams/s/records"
EVENTS = ("accept", "text/event-stream")
ONE, OTHER = b"1" * 32, b"2" * 32


class Encrypted(MemoryBackend):
    """Whatever is appended is sealed with the key that `key` is."""

    key = ONE
    identity = StreamIdentity(0, 0, AEGIS_256)

    async def put(self, *bodies: bytes) -> None:
        records: list[RecordIn] = [(None, (), body) for body in bodies]
        cipher = RecordCipher(self.identity, RecordKey(self.key), os.urandom)
        sealed = seal_batch(build_batch(records), self.identity, cipher.seal)
        await self.append(*NAMES, sealed, None, None)

    async def read(self, *args: Any, **kwargs: Any) -> ReadResult:
        return replace(await super().read(*args, **kwargs), cipher=AEGIS_256)


def scene(main: Callable[[Encrypted, GatewayApp], Awaitable[Any]]) -> Any:
    async def inside(loop: SimLoop) -> Any:
        backend = Encrypted(SimClock(loop, drift=0.0, offset_s=0.0, wall_offset_ms=0))
        await backend.create_basin(NAMES[0], BasinConfig())
        await backend.create_stream(*NAMES, NewStream())
        app, _ = make_app(backend)
        try:
            return await main(backend, app)
        finally:
            await app.close()

    return run(inside)


def key_header(key: bytes) -> tuple[str, str]:
    return ("svc-encryption-key", base64.b64encode(key).decode())


async def follow(app: GatewayApp, *headers: tuple[str, str], query: str = "") -> Response:
    response = await app.handle(get(PATH, query, EVENTS, *headers))
    assert response.status == 200, response
    return response


async def event(response: Response, name: str) -> Any:
    """The next one of that name; pings are passed over."""
    assert not isinstance(response.body, bytes)
    async for piece in response.body:
        head, _, data = piece.decode().partition("data: ")
        if f"event: {name}\n" in head:
            return json.loads(data)
        assert "event: ping" in head, piece
    raise AssertionError("the stream ended")


def bodies(batch: Any) -> list[bytes]:
    return [base64.b64decode(record["body"]) for record in batch["records"]]


def count_encodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each encoding was of."""
    counted: list[int] = []
    taken = stream_follower.Follower._take

    def take(self: Any, *args: Any, **kwargs: Any) -> Any:
        wire = self._wire
        encode = type(wire).encode

        def counting(records: Any, tail: Any) -> Any:
            counted.append(len(records))
            return encode(wire, records, tail)

        wire.encode = counting
        return taken(self, *args, **kwargs)

    monkeypatch.setattr(stream_follower.Follower, "_take", take)
    return counted


def test_followers_with_one_key_share_an_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of them, and what was appended is opened and encoded once."""
    counted = count_encodings(monkeypatch)

    async def main(backend: Encrypted, app: GatewayApp) -> None:
        streams = [await follow(app, key_header(ONE)) for _ in range(10)]
        waiting = [asyncio.create_task(event(stream, "batch")) for stream in streams]
        await asyncio.sleep(1)
        await backend.put(b"a", b"b")
        for task in waiting:
            assert bodies(await task) == [b"a", b"b"]
        for stream in streams:
            await stream.body.aclose()  # type: ignore[union-attr]

    scene(main)
    assert counted == [2]


def test_a_follower_with_another_key_never_gets_what_one_opened() -> None:
    """It reads the same batch behind another follower that has had it opened and encoded: an error
    for it, in either order, and no plain text."""

    async def main(backend: Encrypted, app: GatewayApp) -> None:
        for first, second in ((ONE, OTHER), (OTHER, ONE)):
            backend.key = first
            mine = await follow(app, key_header(first), query="tail_offset=0")
            theirs = await follow(app, key_header(second), query="tail_offset=0")
            waiting = [
                asyncio.create_task(event(mine, "batch")),
                asyncio.create_task(event(theirs, "error")),
            ]
            await asyncio.sleep(1)
            await backend.put(b"secret")
            assert bodies(await waiting[0]) == [b"secret"]
            refused = await waiting[1]
            assert refused["code"] == "decryption_failed"
            # Also for one that comes later and reads what is cached.
            late = await app.handle(get(PATH, "tail_offset=1", EVENTS, key_header(second)))
            assert (await event(late, "error"))["code"] == "decryption_failed"
            for stream in (mine, theirs, late):
                await stream.body.aclose()  # type: ignore[union-attr]

    scene(main)


def test_formats_do_not_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base64 and text are encoded apart."""
    counted = count_encodings(monkeypatch)

    async def main(backend: Encrypted, app: GatewayApp) -> None:
        plain = await follow(app, key_header(ONE))
        text = await follow(app, key_header(ONE), ("svc-format", "utf8"))
        waiting = [asyncio.create_task(event(stream, "batch")) for stream in (plain, text)]
        await asyncio.sleep(1)
        await backend.put(b"body")
        first, second = [await task for task in waiting]
        assert bodies(first) == [b"body"]
        assert second["records"][0]["body"] == "body"
        for stream in (plain, text):
            await stream.body.aclose()  # type: ignore[union-attr]

    scene(main)
    assert counted == [1, 1]


def test_a_large_batch_comes_in_parts_without_gap_or_repetition() -> None:
    """Stored and live, though nothing of it is held between two parts."""

    async def main(backend: Encrypted, app: GatewayApp) -> None:
        await backend.put(*(b"%04d" % number + bytes(1000) for number in range(900)))
        stream = await follow(app, key_header(ONE))
        seen: list[int] = []
        while len(seen) < 900:
            found = await event(stream, "batch")
            assert len(found["records"]) <= 256
            seen += [int(body[:4]) for body in bodies(found)]
        waiting = asyncio.create_task(event(stream, "batch"))
        await asyncio.sleep(1)
        await backend.put(*(b"%04d" % number + bytes(1000) for number in range(900, 1800)))
        seen += [int(body[:4]) for body in bodies(await waiting)]
        while len(seen) < 1800:
            seen += [int(body[:4]) for body in bodies(await event(stream, "batch"))]
        assert seen == list(range(1800))
        await stream.body.aclose()  # type: ignore[union-attr]

    scene(main)


@pytest.mark.parametrize(
    "piece",
    [
        b"x",
        b"y" * PIECE_BYTES_MAX,
        base64.b64encode(os.urandom(900 * 1024)),
        os.urandom(1024 * 1024),
        b"\\u0001" * 1024 * 1024,
    ],
    ids=["short", "bound", "base64", "random", "escaped"],
)
def test_what_waits_is_let_go_slice_by_slice(piece: bytes) -> None:
    """It comes out as it was, and holds no more than about a record's own size."""
    waiting = at_once(Waiting.steps(piece))
    assert waiting.held_bytes <= 1024 * 1024
    slices = []
    held = [waiting.held_bytes]
    for one in waiting:
        slices.append(one)
        held.append(waiting.held_bytes)
    assert b"".join(slices) == piece
    assert held[-1] == 0
    assert held == sorted(held, reverse=True)


def test_a_cache_forgets_the_oldest_beyond_its_bound() -> None:
    """And never holds what is larger than that."""
    cache: ByteCache[str, int] = ByteCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    cache.put("c", 3, 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, 2, 3)
    cache.put("b", 4, 6)
    assert (cache.get("b"), cache.held_bytes, len(cache)) == (4, 10, 2)
    cache.put("c", 5, 11)
    assert (cache.get("c"), cache.held_bytes) == (None, 6)
    assert cache.pop("b") == 4
    assert (cache.held_bytes, cache.pop("b")) == (0, None)
