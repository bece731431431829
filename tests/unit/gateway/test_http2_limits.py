"""The meter that walks over a connection's frames, without a socket or a real clock."""

from __future__ import annotations

import random

import pytest

from svc_cluster.http.http2_limits import (
    FRAMES_AT_ONCE,
    PINGS_MAX,
    RATE_SECONDS,
    RESETS_MAX,
    SETTINGS_MAX,
    FrameMeter,
    FrameTooLongError,
    Rate,
    TooMuchError,
)
from svc_cluster.http.sniff import H2_PREFACE


class Now:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def frame(kind: int, flags: int = 0, stream_id: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream_id.to_bytes(4) + payload


def fed(meter: FrameMeter, data: bytes) -> bytes:
    """All of it, in as many turns as it takes."""
    kept = meter.feed(data)
    while meter.rest:
        kept += meter.feed(meter.rest)
    return kept


def opened() -> tuple[FrameMeter, Now]:
    now = Now()
    meter = FrameMeter(now)
    assert fed(meter, H2_PREFACE) == H2_PREFACE
    return meter, now


PING, SETTINGS, RST, GOAWAY = frame(6, 0, 0, bytes(8)), frame(4), frame(3, 0, 1, bytes(4)), 7


def test_a_rate_forgets_gradually() -> None:
    """After one span half of it is still counted, after two nothing is."""
    rate = Rate(0.0)
    for _ in range(100):
        rate.add(1.0)
    assert rate.value(RATE_SECONDS - 0.01) == 100
    assert rate.value(1.5 * RATE_SECONDS) == pytest.approx(50)
    assert rate.value(2 * RATE_SECONDS) == 0
    rate.add(100 * RATE_SECONDS)
    assert rate.value(100 * RATE_SECONDS) == 1


@pytest.mark.parametrize(("sent", "limit"), [(PING, PINGS_MAX), (SETTINGS, SETTINGS_MAX)])
def test_a_limit_is_exact_and_passes_with_time(sent: bytes, limit: int) -> None:
    """As many as allowed are passed on, one more is not; two spans later all are allowed again."""
    meter, now = opened()
    assert fed(meter, sent * limit) == sent * limit
    with pytest.raises(TooMuchError):
        fed(meter, sent)
    now.seconds += 2 * RATE_SECONDS
    fed(meter, sent * limit)


def test_acknowledgements_are_not_counted() -> None:
    """They answer frames of ours; with a payload they are no acknowledgements."""
    meter, _ = opened()
    fed(meter, frame(4, 1) * 10 * SETTINGS_MAX)
    with pytest.raises(TooMuchError):
        fed(meter, frame(4, 1, 0, bytes(6)) * (SETTINGS_MAX + 1))


def test_each_answer_pays_for_one_reset() -> None:
    """Beyond those, a hundred."""
    meter, _ = opened()
    for _ in range(50):
        meter.count_completed()
    fed(meter, RST * (RESETS_MAX + 50))
    with pytest.raises(TooMuchError):
        meter.count_reset()


def test_a_frame_that_is_too_long_is_seen_by_its_header() -> None:
    """Nothing waits for the rest of it."""
    meter, _ = opened()
    with pytest.raises(FrameTooLongError):
        fed(meter, (16_385).to_bytes(3) + bytes(6))


def test_an_open_head_is_known_at_every_byte() -> None:
    """From its first byte to its last, over continuations."""
    meter, _ = opened()
    sent = frame(1, 0, 1, b"abc") + frame(9, 0, 1, b"d") + frame(9, 4, 1, b"efg")
    for place, byte in enumerate(sent):
        fed(meter, bytes([byte]))
        assert meter.head_open is (place < len(sent) - 1)
    fed(meter, frame(0, 0, 1, b"data")[:-1])
    assert not meter.head_open


def test_frames_pass_unchanged_however_they_are_cut() -> None:
    """10,000 conversations, each cut in two ways: what the library is given is what was sent
    without the farewells, and too many continuations are noticed, whatever the pieces."""
    rng = random.Random(7540)
    now = Now()

    def feed(pieces: list[bytes]) -> bytes | None:
        meter = FrameMeter(now)
        try:
            return b"".join(fed(meter, piece) for piece in pieces)
        except TooMuchError:
            return None

    refused = 0
    for _ in range(10_000):
        frames = [
            frame(rng.randrange(12), rng.choice([0, 1, 4, 5]), 1, rng.randbytes(rng.randrange(20)))
            if rng.random() < 0.9
            else frame(9, 0, 1) * rng.randrange(10)
            for _ in range(rng.randrange(12))
        ]
        whole = H2_PREFACE + b"".join(frames)
        kept = H2_PREFACE + b"".join(sent for sent in frames if sent[3:4] != bytes([GOAWAY]))
        pieces: list[bytes] = []
        rest = whole
        while rest:
            size = rng.choice([1, 2, 8, 9, 10, 30, 200])
            pieces.append(rest[:size])
            rest = rest[size:]
        outcome = feed([whole])
        assert feed(pieces) == outcome
        assert outcome in (None, kept)
        refused += outcome is None
    assert 10 < refused < 5000


def test_of_what_came_at_once_only_so_much_is_looked_at() -> None:
    """FRAMES_AT_ONCE frames, and of heads fewer, the fewer the longer they are; the rest comes to
    its turn whole and in order."""
    meter, _ = opened()
    pings = PING * (FRAMES_AT_ONCE + 5)
    assert meter.feed(pings) == PING * FRAMES_AT_ONCE
    assert meter.rest == PING * 5
    assert meter.feed(meter.rest) == PING * 5
    assert meter.rest == b""
    heads = [frame(1, 5, 2 * n + 1, bytes(970)) for n in range(20)]
    given = b"".join(heads)
    turns = 0
    seen = b""
    while given:
        part = meter.feed(given)
        assert part, "a turn looks at something"
        assert len(part) <= 2 * len(heads[0])
        seen += part
        given = meter.rest
        turns += 1
    assert seen == b"".join(heads)
    assert turns >= 10
