"""Content codings: undone within bounds, and done.

Undoing never produces more than it was allowed, and goes in steps between which a caller may let
others work: a coding can be made to cost far more than honest input of its size, which no bound on
sizes prevents.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from typing import Final, Protocol

import zstandard

from svc_cluster.base.steps import at_once

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_GZIP_MEMBERS_MAX: Final = 1024
"""Each costs a new decompressor, so that many small ones are dear for their size."""
_GZIP_STEP_IN_BYTES: Final = 64 * 1024
"""How much is taken in at one step; of nothing but descriptions of Huffman codes that takes about
8 ms."""
_GZIP_STEP_OUT_BYTES: Final = 512 * 1024
_ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
_ZSTD_BLOCKS_MAX: Final = 4096
"""Each may bring four tables that cost microseconds. Compressors make one of every 128 KiB, and
seldom some more of it."""
_ZSTD_BLOCK_HEAD_BYTES: Final = 3
_ZSTD_RLE_BLOCK: Final = 1

_RATIO_MAX: Final = 1100
"""A little more than deflate can reach. Beyond it only input made for the purpose goes..."""
_RATIO_FREE_BYTES: Final = 2 * 1024 * 1024
"""...or that is short: a whole batch of zeros is honest, and almost nothing when compressed."""

_GZIP_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 1
COMPRESS_STEP_BYTES: Final = 128 * 1024
"""How much of what cannot be made smaller is compressed at one step: about 5 ms of gzip."""
_COMPRESS_ZSTD: Final = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress

ENCODINGS: Final = ("identity", "gzip", "x-gzip", "zstd")
"""Content-Encoding values that `decompress` knows, in lower case."""


class CompressionError(Exception):
    """The bytes are no complete stream of the named coding, or none that a compressor makes."""


class DecompressedTooLargeError(Exception):
    """The content is larger than the limit, or out of all proportion to its compressed form."""


def decompress(encoding: str, data: bytes, limit_bytes: int) -> bytes:
    """All of `decompress_steps` at once."""
    return b"".join(decompress_steps(encoding, data, limit_bytes))


def decompress_steps(encoding: str, data: bytes, limit_bytes: int) -> Iterator[bytes]:
    """Yield the content of `data` by its lower-case coding, in pieces of which each takes a bounded
    time. Some pieces are empty. The content is at most `limit_bytes` long, and beyond 2 MiB at most
    1,100 times as long as `data`.

    Raises CompressionError, DecompressedTooLargeError, both also after some pieces. Memory used
    stays near `limit_bytes` whatever the input claims to hold.
    """
    limit_bytes = min(limit_bytes, max(_RATIO_FREE_BYTES, _RATIO_MAX * len(data)))
    match encoding:
        case "identity":
            yield data
        case "gzip" | "x-gzip":
            yield from _gunzip(data, limit_bytes)
        case "zstd":
            yield _unzstd(data, limit_bytes)
        case _:
            raise AssertionError("the caller knows ENCODINGS")


def compress(encoding: str, data: bytes) -> bytes:
    """All of `compress_steps` at once."""
    return at_once(compress_steps(encoding, data))


def compress_steps(encoding: str, data: bytes) -> Generator[None, None, bytes]:
    """`data` in the coding `gzip` or `zstd`, fast rather than small, in steps of a bounded time;
    the same bytes each time."""
    if encoding == "zstd" and len(data) <= COMPRESS_STEP_BYTES:
        return _COMPRESS_ZSTD(data)
    compressor = _zstd_compressor(len(data)) if encoding == "zstd" else _gzip_compressor()
    parts: list[bytes] = []
    for at in range(0, len(data), COMPRESS_STEP_BYTES):
        if parts:
            yield
        parts.append(compressor.compress(data[at : at + COMPRESS_STEP_BYTES]))
    return b"".join([*parts, compressor.flush()])


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _gzip_compressor() -> _Compressor:
    return zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)


def _zstd_compressor(size: int) -> _Compressor:
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj(size=size)


def _gunzip(data: bytes, limit_bytes: int) -> Iterator[bytes]:
    """One or more members behind each other, as the format allows."""
    view = memoryview(data)
    remaining = limit_bytes
    done = 0
    for _ in range(_GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(_GZIP_WBITS)
        step: memoryview | bytes = b""
        while not member.eof:
            if not step:
                step = view[done : done + _GZIP_STEP_IN_BYTES]
                done += len(step)
                if not step:
                    raise CompressionError("the gzip stream ends early")
            try:
                part = member.decompress(step, min(remaining + 1, _GZIP_STEP_OUT_BYTES))
            except zlib.error as cause:
                raise CompressionError("not gzip") from cause
            remaining -= len(part)
            if remaining < 0:
                raise DecompressedTooLargeError
            step = member.unconsumed_tail
            yield part
        # What follows a member is copied out of the step that holds its end, and taken anew.
        done -= len(member.unused_data)
        if done == len(data):
            return
    raise CompressionError(f"the gzip stream has more than {_GZIP_MEMBERS_MAX} members")


def _unzstd(data: bytes, limit_bytes: int) -> bytes:
    """Exactly one frame: its size is checked before anything is allocated for it."""
    try:
        declared = zstandard.get_frame_parameters(data).content_size
        if declared != zstandard.CONTENTSIZE_UNKNOWN and declared > limit_bytes:
            raise DecompressedTooLargeError
        _check_blocks(data, zstandard.frame_header_size(data))
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        if declared not in (0, zstandard.CONTENTSIZE_UNKNOWN):
            return decompressor.decompress(data, allow_extra_data=False)
        return _unzstd_stream(decompressor, data, limit_bytes)
    except zstandard.ZstdError as cause:
        raise CompressionError("not zstd") from cause


def _check_blocks(data: bytes, start: int) -> None:
    """Raises CompressionError for a frame of too many blocks. What is inside them, and behind the
    last, is left to the decompressor."""
    for _ in range(_ZSTD_BLOCKS_MAX):
        head = int.from_bytes(data[start : start + _ZSTD_BLOCK_HEAD_BYTES], "little")
        if head & 1 or start >= len(data):
            return
        size = 1 if head >> 1 & 3 == _ZSTD_RLE_BLOCK else head >> 3
        start += _ZSTD_BLOCK_HEAD_BYTES + size
    raise CompressionError(f"the zstd frame has more than {_ZSTD_BLOCKS_MAX} blocks")


def _unzstd_stream(
    decompressor: zstandard.ZstdDecompressor, data: bytes, limit_bytes: int
) -> bytes:
    """Decode a frame that does not say its size: it is measured in bounded steps first, then
    decoded in one. A frame that says 0 is such a one, because the one-shot call takes 0 on trust.
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
