"""Decompression is bounded whatever the input claims."""

from __future__ import annotations

import contextlib
import gzip

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.codec.compression import (
    CompressionError,
    DecompressedTooLargeError,
    decompress,
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


@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_decoded_never_a_fault(data: bytes) -> None:
    """Also with a valid magic number in front."""
    for word, magic in (("gzip", b"\x1f\x8b\x08"), ("zstd", b"\x28\xb5\x2f\xfd")):
        for body in (data, magic + data):
            with contextlib.suppress(CompressionError, DecompressedTooLargeError):
                assert len(decompress(word, body, 1000)) <= 1000
