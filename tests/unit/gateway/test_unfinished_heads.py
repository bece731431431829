"""Heads of requests that do not end are bounded together, and those that began last stay."""

from __future__ import annotations

import random
from collections.abc import Callable

from svc_cluster.http.http2_limits import FrameMeter
from svc_cluster.http.sniff import H2_PREFACE
from svc_cluster.http.unfinished_heads import UnfinishedHeads


class Half:
    """A head that says when it was dropped."""

    def __init__(self, name: int, dropped: list[int]) -> None:
        self.drop: Callable[[], None] = lambda: dropped.append(name)


def test_the_oldest_heads_make_room() -> None:
    """Up to the bound all stay; one byte more ends the one that began first, and no other."""
    dropped: list[int] = []
    heads = UnfinishedHeads(bytes_max=1000)
    held = [Half(name, dropped) for name in range(10)]
    for half in held:
        heads.hold(half, 60)
        heads.hold(half, 100)
    assert (heads.bytes, dropped) == (1000, [])
    heads.hold(held[5], 101)
    assert (heads.bytes, dropped) == (901, [0])
    heads.hold(held[9], 600)
    assert (heads.bytes, dropped) == (900, [0, 1, 2, 3, 4, 5])


def test_a_head_that_ended_gives_its_room_back() -> None:
    """Once, however often it is said; and one that is larger than the bound alone is dropped."""
    dropped: list[int] = []
    heads = UnfinishedHeads(bytes_max=1000)
    ended, large = Half(1, dropped), Half(2, dropped)
    heads.hold(ended, 1000)
    heads.release(ended)
    heads.release(ended)
    assert (heads.bytes, dropped) == (0, [])
    heads.hold(large, 1001)
    assert (heads.bytes, dropped) == (0, [2])


def test_any_heads_are_within_the_bound() -> None:
    """Whatever comes, grows and ends."""
    rng = random.Random(1)
    dropped: list[int] = []
    heads = UnfinishedHeads(bytes_max=10_000)
    held = {name: Half(name, dropped) for name in range(50)}
    sizes: dict[int, int] = {}
    for _ in range(5_000):
        name = rng.randrange(50)
        if rng.random() < 0.3:
            heads.release(held[name])
            sizes.pop(name, None)
        else:
            sizes[name] = sizes.get(name, 0) + rng.randrange(800)
            heads.hold(held[name], sizes[name])
        for gone in dropped:
            sizes.pop(gone, None)
        dropped.clear()
        assert heads.bytes == sum(sizes.values()) <= 10_000


def test_a_block_of_headers_over_http2_is_measured_until_it_ends() -> None:
    """In whatever pieces it comes; other frames, and what came before it, are no part of it."""

    def frame(kind: int, flags: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3) + bytes([kind, flags]) + (1).to_bytes(4) + payload

    sent = frame(0, 0, bytes(9000)) + frame(1, 0, bytes(5000)) + frame(9, 0, bytes(700))
    for step in (1, 7, 4096, len(sent)):
        meter = FrameMeter(lambda: 1.0)
        meter.feed(H2_PREFACE)
        for at in range(0, len(sent), step):
            meter.feed(sent[at : at + step])
            while meter.rest:  # a long head is as much as several frames of a turn
                meter.feed(meter.rest)
        assert meter.head_bytes == 5700
        meter.feed(frame(9, 4, bytes(10)))
        assert meter.head_bytes == 0
        meter.feed(frame(1, 0, bytes(3)))
        assert meter.head_bytes == 3
