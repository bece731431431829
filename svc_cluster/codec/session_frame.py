"""Frames of a session: how messages follow each other in a body without an end.

A frame is a length (3 bytes, big-endian, counting what follows), a flag byte and a payload. A
regular frame's payload is one protobuf message, compressed where its flag says so; a terminal
frame's is a status (2 bytes, big-endian) and a JSON body, never compressed, and ends a session that
failed. Source: contract 8.1 and 8.2.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.base.steps import at_once
from svc_cluster.codec.compression import (
    CompressionError,
    DecompressedTooLargeError,
    compress_steps,
    decompress_steps,
)

FRAME_BYTES_MAX: Final = 2 * 1024 * 1024
"""Flag and payload."""
MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX - 1
"""A payload, and what it is after decompression."""
COMPRESSED_BYTES_MIN: Final = 1024
"""A smaller message is sent as it is."""

_LENGTH_BYTES: Final = 3
_HEAD_BYTES: Final = _LENGTH_BYTES + 1
_TERMINAL: Final = 0x80
_COMPRESSION_SHIFT: Final = 5
_COMPRESSION_MASK: Final = 0x3
_RECONNECT_ADVISED: Final = 0x10


class Compression(IntEnum):
    """A Compression is how one frame is packed, by the two bits of its flag."""

    NONE = 0
    ZSTD = 1
    GZIP = 2


_CODINGS: Final = {Compression.ZSTD: "zstd", Compression.GZIP: "gzip"}


def compression_of(coding: str | None) -> Compression:
    """The Compression that does what an HTTP coding does; NONE for no coding and unknown ones."""
    return next((found for found, name in _CODINGS.items() if name == coding), Compression.NONE)


@dataclass(frozen=True, slots=True)
class SessionFrame:
    """A frame as it came, its payload not decompressed."""

    payload: bytes
    compression: Compression = Compression.NONE
    is_terminal: bool = False
    reconnect_advised: bool = False

    def message(self) -> bytes:
        """The message of a regular frame, at most MESSAGE_BYTES_MAX long. Raises MalformedError
        (bad_frame)."""
        if self.compression is Compression.NONE:
            return self.payload
        return b"".join(self.message_steps())

    def message_steps(self) -> Iterator[bytes]:
        """`message` in pieces, of which each takes a bounded time whatever the input."""
        assert not self.is_terminal, "a terminal frame has no message"
        if self.compression is Compression.NONE:
            yield self.payload
            return
        coding = _CODINGS[self.compression]
        try:
            yield from decompress_steps(coding, self.payload, MESSAGE_BYTES_MAX)
        except DecompressedTooLargeError as cause:
            raise bad_frame(
                f"a message has at most {MESSAGE_BYTES_MAX} bytes, this one has more"
            ) from cause
        except CompressionError as cause:
            raise bad_frame(str(cause)) from cause

    def failure(self) -> tuple[int, bytes]:
        """Status and JSON body of a terminal frame. Raises MalformedError (bad_frame)."""
        assert self.is_terminal, "only a terminal frame tells of a failure"
        if len(self.payload) < 2:
            raise bad_frame("a terminal frame begins with a status")
        return int.from_bytes(self.payload[:2], "big"), self.payload[2:]


def bad_frame(message: str) -> MalformedError:
    return MalformedError(ErrorCode.BAD_FRAME, message)


class FrameDecoder:
    """Frames out of bytes that come in pieces of any size.

    After a MalformedError it is of no further use: where the next frame begins is not known. It
    holds what `feed` was given and `next_frame` has not yet returned, which the caller bounds by
    taking all frames before feeding again: then at most one frame and one piece.
    """

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._data)

    def feed(self, piece: bytes) -> None:
        self._data += piece

    def next_frame(self) -> SessionFrame | None:
        """The next whole frame, or None when more bytes are needed. Raises MalformedError
        (bad_frame) as soon as the head of a frame is wrong."""
        data = self._data
        if len(data) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        if not 1 <= length <= FRAME_BYTES_MAX:
            raise bad_frame(
                f"a frame has 1 to {FRAME_BYTES_MAX} bytes behind its length, not {length}"
            )
        if len(data) < _HEAD_BYTES:
            return None
        flag = data[_LENGTH_BYTES]
        compression = flag >> _COMPRESSION_SHIFT & _COMPRESSION_MASK
        is_terminal = bool(flag & _TERMINAL)
        if compression == _COMPRESSION_MASK or (is_terminal and compression):
            raise bad_frame("a frame says a compression that there is not")
        end = _LENGTH_BYTES + length
        if len(data) < end:
            return None
        payload = bytes(memoryview(data)[_HEAD_BYTES:end])
        del data[:end]
        return SessionFrame(
            payload,
            Compression(compression),
            is_terminal,
            bool(flag & _RECONNECT_ADVISED),
        )

    def finish(self) -> None:
        """No more bytes will come. Raises MalformedError (bad_frame) in the middle of a frame."""
        if self._data:
            raise bad_frame("the body ends in the middle of a frame")


def encode_frame(
    message: bytes,
    compression: Compression = Compression.NONE,
    *,
    reconnect_advised: bool = False,
) -> bytes:
    """All of `frame_steps` at once."""
    return at_once(frame_steps(message, compression, reconnect_advised=reconnect_advised))


def frame_steps(
    message: bytes,
    compression: Compression = Compression.NONE,
    *,
    reconnect_advised: bool = False,
) -> Generator[None, None, bytes]:
    """Return a regular frame around a message of at most MESSAGE_BYTES_MAX bytes, in steps of a
    bounded time. It is compressed if the message is long enough and that makes it shorter."""
    assert len(message) <= MESSAGE_BYTES_MAX, "the caller knows the bound"
    flag = _RECONNECT_ADVISED if reconnect_advised else 0
    if compression is not Compression.NONE and len(message) >= COMPRESSED_BYTES_MIN:
        packed = yield from compress_steps(_CODINGS[compression], message)
        if len(packed) < len(message):
            flag |= compression << _COMPRESSION_SHIFT
            message = packed
    return _frame(flag, message)


def with_reconnect_advice(frame: bytes) -> bytes:
    """A regular frame that also advises to connect again."""
    flag = frame[_LENGTH_BYTES] | _RECONNECT_ADVISED
    return b"%b%c%b" % (frame[:_LENGTH_BYTES], flag, frame[_HEAD_BYTES:])


def encode_terminal(status: int, body: bytes) -> bytes:
    """The last frame of a session that failed: a status of 3 digits and the JSON body that a plain
    answer would have had."""
    assert 2 + len(body) <= MESSAGE_BYTES_MAX, "errors are short"
    return _frame(_TERMINAL, status.to_bytes(2, "big") + body)


def _frame(flag: int, payload: bytes) -> bytes:
    return b"%b%c%b" % ((1 + len(payload)).to_bytes(_LENGTH_BYTES, "big"), flag, payload)
