"""Session frames: any cut of the bytes, every bound, compression."""

from __future__ import annotations

import gzip
import itertools
import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.session_frame import (
    COMPRESSED_BYTES_MIN,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Compression,
    FrameDecoder,
    SessionFrame,
    compression_of,
    encode_frame,
    encode_terminal,
)

MESSAGE = st.binary(max_size=40) | st.integers(1000, 1100).map(lambda size: b"ab" * size)


def decode(data: bytes) -> list[SessionFrame]:
    decoder = FrameDecoder()
    decoder.feed(data)
    found = []
    while (frame := decoder.next_frame()) is not None:
        found.append(frame)
    decoder.finish()
    return found


@given(
    messages=st.lists(st.tuples(MESSAGE, st.sampled_from(Compression), st.booleans()), max_size=4),
    failure=st.none() | st.tuples(st.integers(100, 599), st.binary(max_size=30)),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20),
)
def test_frames_come_back_however_the_bytes_are_cut(
    messages: list[tuple[bytes, Compression, bool]],
    failure: tuple[int, bytes] | None,
    sizes: list[int],
) -> None:
    """Messages, the advice to reconnect, and the terminal frame behind them."""
    data = b"".join(
        encode_frame(message, compression, reconnect_advised=advice)
        for message, compression, advice in messages
    )
    if failure is not None:
        data += encode_terminal(*failure)
    decoder = FrameDecoder()
    found: list[SessionFrame] = []
    for size in itertools.cycle(sizes):
        decoder.feed(data[:size])
        data = data[size:]
        while (frame := decoder.next_frame()) is not None:
            found.append(frame)
        if not data:
            break
    decoder.finish()
    if failure is not None:
        last = found.pop()
        assert last.is_terminal
        assert last.failure() == failure
    assert [(f.message(), f.reconnect_advised) for f in found] == [
        (message, advice) for message, _, advice in messages
    ]


@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.GZIP])
def test_only_longer_messages_are_compressed(compression: Compression) -> None:
    """From 1024 bytes on, and only where that makes the frame shorter."""
    (small,) = decode(encode_frame(b"x" * (COMPRESSED_BYTES_MIN - 1), compression))
    (large,) = decode(encode_frame(b"x" * COMPRESSED_BYTES_MIN, compression))
    assert small.compression is Compression.NONE
    assert large.compression is compression
    assert len(large.payload) < 100
    noise = random.Random(1).randbytes(3000)
    (as_it_is,) = decode(encode_frame(noise, compression))
    assert as_it_is == SessionFrame(noise)


def test_a_coding_of_http_is_a_way_to_pack_frames() -> None:
    for coding, chosen in (
        ("zstd", Compression.ZSTD),
        ("gzip", Compression.GZIP),
        ("br", Compression.NONE),
        (None, Compression.NONE),
    ):
        assert compression_of(coding) is chosen


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x00\x00\x00", "1 to 2097152 bytes"),
        ((FRAME_BYTES_MAX + 1).to_bytes(3, "big"), "1 to 2097152 bytes"),
        (b"\xff\xff\xff", "1 to 2097152 bytes"),
        (b"\x00\x00\x05\x60", "compression"),
        (b"\x00\x00\x05\xa0", "compression"),
        (b"\x00\x00\x05\xc0", "compression"),
    ],
)
def test_a_wrong_head_is_refused_before_anything_is_awaited(data: bytes, what: str) -> None:
    """The frame's end need not come for that."""
    decoder = FrameDecoder()
    decoder.feed(data)
    with pytest.raises(MalformedError, match=what) as refusal:
        decoder.next_frame()
    assert refusal.value.code is ErrorCode.BAD_FRAME


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\x02", b"\x00\x00\x02\x00"])
def test_an_end_in_the_middle_of_a_frame_is_refused(data: bytes) -> None:
    """In the length, behind it, behind the flag."""
    decoder = FrameDecoder()
    decoder.feed(data)
    assert decoder.next_frame() is None
    with pytest.raises(MalformedError, match="middle"):
        decoder.finish()


def test_the_largest_message_fits_its_frame() -> None:
    """2 MiB less the flag, as it is and decompressed; one byte more is refused."""
    message = bytes(MESSAGE_BYTES_MAX)
    for compression in Compression:
        (frame,) = decode(encode_frame(message, compression))
        assert frame.message() == message
    for compression, packed in (
        (Compression.GZIP, gzip.compress(message + b"\0")),
        (Compression.ZSTD, zstandard.ZstdCompressor().compress(message + b"\0")),
    ):
        with pytest.raises(MalformedError, match="at most") as refusal:
            SessionFrame(packed, compression).message()
        assert refusal.value.code is ErrorCode.BAD_FRAME


@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.GZIP])
def test_what_is_not_compressed_as_said_is_refused(compression: Compression) -> None:
    """Noise, nothing, and a stream cut short."""
    (whole,) = decode(encode_frame(b"x" * 2000, compression))
    for payload in (b"", b"noise", whole.payload[:-1]):
        with pytest.raises(MalformedError) as refusal:
            SessionFrame(payload, compression).message()
        assert refusal.value.code is ErrorCode.BAD_FRAME


def test_a_terminal_frame_needs_a_status() -> None:
    """Two bytes, and a body that may be empty."""
    assert SessionFrame(b"\x01\x9c", is_terminal=True).failure() == (412, b"")
    with pytest.raises(MalformedError, match="status"):
        SessionFrame(b"\x01", is_terminal=True).failure()
