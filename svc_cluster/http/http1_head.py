"""Heads of HTTP/1.1: what parses them, and what is asked of one: its size, its first line, and the
size of its body."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import StreamReader
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from svc_cluster.base.errors import ServiceError
from svc_cluster.http.connection import HEADER_BYTES_MAX, TARGET_BYTES_MAX
from svc_cluster.http.head_errors import HeadersTooLargeError, TargetTooLongError

LINE_BYTES_MAX: Final = TARGET_BYTES_MAX
HEADERS_MAX: Final = 100
UNREAD_BYTES: Final = 8 * 1024
"""How much is held of a body that nobody reads; with twice as much nothing more is taken from the
client."""
TOO_MANY: Final = "Too many headers"
"""The library's words, with which it has no error of its own."""
TOO_LARGE: Final = f"a request's head has at most {HEADER_BYTES_MAX} bytes, this one has more"


def new_parser(
    protocol: RequestHandler, loop: asyncio.AbstractEventLoop, messages_max: int
) -> HttpRequestParser:
    """Return one with our bounds; it has `messages_max` at most that nobody has begun with."""
    return HttpRequestParser(
        protocol,
        loop,
        UNREAD_BYTES,
        max_line_size=LINE_BYTES_MAX,
        max_field_size=LINE_BYTES_MAX,
        max_headers=HEADERS_MAX,
        payload_exception=RequestPayloadError,
        auto_decompress=False,
        max_msg_queue_size=messages_max,
    )


def head_bytes(message: RawRequestMessage) -> int:
    """Return what counts against HEADER_BYTES_MAX."""
    size = len(message.path)
    for name, value in message.raw_headers:
        size += len(name) + len(value) + 4
    return size


def too_large(line_bytes: int) -> ServiceError:
    """Return what is told of a head whose first line has so many bytes."""
    if line_bytes > LINE_BYTES_MAX:
        return TargetTooLongError(f"a target has at most {LINE_BYTES_MAX} bytes")
    return HeadersTooLargeError(TOO_LARGE)


def line_of(message: RawRequestMessage) -> bytes:
    """Return the one way to write the first line of such a request."""
    version = f"HTTP/{message.version.major}.{message.version.minor}"
    line = f"{message.method} {message.path} {version}"
    return line.encode("utf-8", "surrogateescape")


def body_bytes(message: RawRequestMessage, payload: StreamReader) -> int | None:
    """Return how many are to come; None where the body says itself where it ends."""
    if payload.is_eof():
        return 0
    length = message.headers.get("content-length")
    return None if message.chunked or length is None else int(length)
