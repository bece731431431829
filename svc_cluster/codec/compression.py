"""Undo a request body's Content-Encoding, never producing more than a given number of bytes."""

from __future__ import annotations

import zlib
from typing import Final

import zstandard

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024

ENCODINGS: Final = ("identity", "gzip", "x-gzip", "zstd")
"""Content-Encoding values that `decompress` knows, in lower case."""


class CompressionError(Exception):
    """The bytes are not a complete stream of the named coding."""


class DecompressedTooLargeError(Exception):
    """The content is larger than the limit."""


def decompress(encoding: str, data: bytes, limit_bytes: int) -> bytes:
    """Content of `data` by its lower-case coding, at most `limit_bytes` long.

    Raises CompressionError, DecompressedTooLargeError. Memory used stays near `limit_bytes`
    whatever the input claims to hold.
    """
    match encoding:
        case "identity":
            return data
        case "gzip" | "x-gzip":
            return _gunzip(data, limit_bytes)
        case "zstd":
            return _unzstd(data, limit_bytes)
        case _:
            raise AssertionError("the caller knows ENCODINGS")


def _gunzip(data: bytes, limit_bytes: int) -> bytes:
    """One or more members behind each other, as the format allows."""
    parts: list[bytes] = []
    remaining = limit_bytes
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            part = member.decompress(data, remaining + 1)
        except zlib.error as cause:
            raise CompressionError("not gzip") from cause
        if len(part) > remaining:
            raise DecompressedTooLargeError
        parts.append(part)
        remaining -= len(part)
        if not member.eof:
            raise CompressionError("the gzip stream ends early")
        data = member.unused_data
        if not data:
            return b"".join(parts)


def _unzstd(data: bytes, limit_bytes: int) -> bytes:
    """Exactly one frame: its size is checked before anything is allocated for it."""
    try:
        declared = zstandard.get_frame_parameters(data).content_size
        if declared != zstandard.CONTENTSIZE_UNKNOWN and declared > limit_bytes:
            raise DecompressedTooLargeError
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        if declared not in (0, zstandard.CONTENTSIZE_UNKNOWN):
            return decompressor.decompress(data, allow_extra_data=False)
        return _unzstd_stream(decompressor, data, limit_bytes)
    except zstandard.ZstdError as cause:
        raise CompressionError("not zstd") from cause


def _unzstd_stream(
    decompressor: zstandard.ZstdDecompressor, data: bytes, limit_bytes: int
) -> bytes:
    """A frame that does not say its size (or says 0, which the one-shot call takes on trust):
    measured in bounded steps first, then decoded in one.
    """
    produced = 0
    with decompressor.stream_reader(data) as reader:
        while chunk := reader.read(64 * 1024):
            produced += len(chunk)
            if produced > limit_bytes:
                raise DecompressedTooLargeError
    frame = decompressor.decompressobj()
    content = frame.decompress(data)
    if not frame.eof or frame.unused_data:
        raise CompressionError("the zstd stream ends early or goes on")
    return content
