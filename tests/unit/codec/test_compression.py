"""Decompression is bounded whatever the input claims."""

from __future__ import annotations

import contextlib
import gzip
import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.codec.compression import (
    CompressionError,
    DecompressedTooLargeError,
    compress,
    decompress,
    decompress_steps,
)


def encode(coding: str, data: bytes) -> bytes:
    if coding == "gzip":
        return gzip.compress(data)
    return zstandard.ZstdCompressor(write_content_size=coding == "zstd").compress(data)


CODINGS = ["gzip", "zstd", "zstd-unsized"]


@pytest.mark.parametrize("coding", CODINGS)
@given(data=st.binary(max_size=300))
def test_content_comes_back_up_to_the_limit_and_not_beyond(coding: str, data: bytes) -> None:
    """Exactly the limit is fine, one byte less is too large."""
    encoded, word = encode(coding, data), coding.partition("-")[0]
    assert decompress(word, encoded, len(data)) == data
    if data:
        with pytest.raises(DecompressedTooLargeError):
            decompress(word, encoded, len(data) - 1)


@pytest.mark.parametrize("coding", CODINGS)
@given(data=st.binary(max_size=60), cut=st.integers(1, 200))
def test_a_stream_that_ends_early_is_refused(coding: str, data: bytes, cut: int) -> None:
    """No prefix of a stream passes for the whole."""
    encoded = encode(coding, data)
    with pytest.raises(CompressionError):
        decompress(coding.partition("-")[0], encoded[: max(0, len(encoded) - cut)], 1000)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_refused(coding: str) -> None:
    """A thousandfold expansion stops at the limit."""
    with pytest.raises(DecompressedTooLargeError):
        decompress(coding.partition("-")[0], encode(coding, b"\0" * 20_000_000), 1_000_000)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@given(data=st.binary(max_size=300))
def test_what_is_compressed_comes_back(coding: str, data: bytes) -> None:
    """And is the same bytes each time."""
    assert compress(coding, data) == compress(coding, data)
    assert decompress(coding, compress(coding, data), len(data)) == data


def test_gzip_of_many_members_is_undone_up_to_a_bound() -> None:
    """Each is cheap for the sender and dear for the receiver."""
    member = gzip.compress(b"x" * 100)
    assert decompress("gzip", member * 1024, 10**6) == b"x" * 102_400
    for count in (1025, 200_000):
        with pytest.raises(CompressionError):
            decompress("gzip", member * count, 10**8)


def test_zstd_of_many_blocks_is_undone_up_to_a_bound() -> None:
    """Streams that were flushed often are fine, those of nothing but small blocks are not."""

    def flushed(count: int) -> bytes:
        stream = zstandard.ZstdCompressor().compressobj()
        parts = [
            stream.compress(b"%d" % n) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            for n in range(count)
        ]
        return b"".join(parts) + stream.flush()

    assert decompress("zstd", flushed(4_000), 10**6).startswith(b"012345678910")
    with pytest.raises(CompressionError):
        decompress("zstd", flushed(4_100), 10**6)


@pytest.mark.parametrize("coding", CODINGS)
def test_beyond_2_mib_the_content_stays_in_proportion(coding: str) -> None:
    """A whole batch of zeros is honest, ever more of them are not; deflate cannot go beyond."""
    word = coding.partition("-")[0]
    fits, beyond = 2 * 1024 * 1024, 2 * 1024 * 1024 + 1
    assert decompress(word, encode(coding, b"\0" * fits), 10**8) == b"\0" * fits
    if word == "gzip":
        assert len(decompress(word, encode(coding, b"\0" * 10**7), 10**8)) == 10**7
    else:
        with pytest.raises(DecompressedTooLargeError):
            decompress(word, encode(coding, b"\0" * beyond), 10**8)


def test_a_large_body_is_undone_in_steps() -> None:
    """So that nothing else has to wait for all of it."""
    data = bytes(range(256)) * 20_000
    steps = list(decompress_steps("gzip", gzip.compress(data), 10**8))
    assert b"".join(steps) == data
    assert max(map(len, steps)) <= 512 * 1024
    dense = random.Random(1).randbytes(1_000_000)
    assert len(list(decompress_steps("gzip", gzip.compress(dense), 10**8))) >= 1_000_000 // 65_536


@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_decoded_never_a_fault(data: bytes) -> None:
    """Also with a valid magic number in front."""
    for word, magic in (("gzip", b"\x1f\x8b\x08"), ("zstd", b"\x28\xb5\x2f\xfd")):
        for body in (data, magic + data):
            with contextlib.suppress(CompressionError, DecompressedTooLargeError):
                assert len(decompress(word, body, 1000)) <= 1000
