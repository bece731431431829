"""What a client can make of the two protocols: heads at their bounds, and much in one segment."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Final

from hpack import Encoder

from svc_cluster.http.connection import HEADER_BYTES_MAX, TARGET_BYTES_MAX
from svc_cluster.http.http2_limits import HEADER_LIST_BYTES_MAX, STREAMS_MAX
from tests.integration.gateway_turns.watched import HEADERS, SECONDS, WatchedGateway

Play = Callable[[WatchedGateway], None]
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 4, 8, 9
_END_STREAM, _END_HEADERS = 1, 4
_FRAME_BYTES: Final = 16384


def kinds() -> Iterator[tuple[str, Play]]:
    """More than is served is sent too: it is refused."""
    yield "pipelined", pipelined(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n", 6000)
    filled = b"GET /livez HTTP/1.1\r\nhost: a\r\n%b\r\n"
    fields = [b"a%02d: %b\r\n" % (n, b"x" * (HEADER_BYTES_MAX // 100)) for n in range(90)]
    yield "a head at its bound", pipelined(filled % b"".join(fields), 6)
    yield "a head without end", refused(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)
    yield "a line without end", refused(b"GET /" + b"%41" * 20_000)
    for unit in (b"%41", b"&", b"=", b"a=1&"):
        target = b"/v1/streams?" + unit * ((TARGET_BYTES_MAX - 12) // len(unit))
        line = b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % target
        yield f"targets of {unit.decode()}", pipelined(line, 20)
    chunks = b"1\r\n \r\n" * 30_000
    head = b"PUT /v1/streams/log HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n"
    named = [f"{name}: {value}\r\n".encode() for name, value in HEADERS.items()]
    yield "chunks of a byte", pipelined(head + b"".join(named) + b"\r\n" + chunks + b"0\r\n\r\n", 1)
    for path in ("/livez", "/v1/streams", "/v1/streams/bodies/records?seq_num=0", "/metrics"):
        yield f"streams at once {path}", streams_at_once(path, [])
    many = [(b"x", b"")] * (HEADER_LIST_BYTES_MAX // 33 - 20)
    yield "streams at once with many headers", streams_at_once("/livez", many)
    long = [(b"x", b"y" * 3900)] * (HEADER_LIST_BYTES_MAX // 4000)
    yield "streams at once with long headers", streams_at_once("/livez", long)
    yield "streams at once with continuations", streams_at_once("/livez", many, pieces=8)
    yield "more streams than there may be", streams_at_once("/livez", [], count=180)


def pipelined(request: bytes, count: int) -> Play:
    """So many requests at once, as fast as they are taken; all are answered."""

    def play(gateway: WatchedGateway) -> None:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) as sock:
            last = request.replace(b"host: a\r\n", b"host: a\r\nconnection: close\r\n", 1)
            sock.sendall(request * (count - 1) + last)
            answers = read_all(sock).count(b"HTTP/1.1 ")
            assert answers == count, answers

    return play


def refused(data: bytes) -> Play:
    """One answer, which is a refusal."""

    def play(gateway: WatchedGateway) -> None:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) as sock:
            try:
                sock.sendall(data)
                said = read_all(sock)
            except ConnectionError:
                return
            assert said.startswith(b"HTTP/1.1 4") or not said, said[:100]

    return play


def read_all(sock: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := sock.recv(1 << 18):
        parts.append(part)
    return b"".join(parts)


def streams_at_once(
    path: str, more: list[tuple[bytes, bytes]], *, count: int = STREAMS_MAX, pieces: int = 1
) -> Play:
    """So many requests over HTTP/2 in one segment, as far as the kernel goes along."""

    def play(gateway: WatchedGateway) -> None:
        encoder = Encoder()
        head = [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":authority", b"a"),
            (b":path", path.encode()),
            *((name.encode(), value.encode()) for name, value in HEADERS.items()),
            *more,
        ]
        window = (2**31 - 1 - 65535).to_bytes(4, "big")
        data = [
            _PREFACE,
            frame(_SETTINGS, 0, 0, b"\x00\x04" + (2**31 - 1).to_bytes(4, "big")),
            frame(_WINDOW_UPDATE, 0, 0, window),
        ]
        for number in range(count):
            data += block(2 * number + 1, encoder.encode(head), pieces)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) as sock:
            sock.sendall(b"".join(data))
            assert ended(sock, count) == count

    return play


def block(stream_id: int, encoded: bytes, pieces: int) -> list[bytes]:
    """The frames of one request's head."""
    size = max(-(-len(encoded) // pieces), 1)
    parts = [encoded[at : at + size] for at in range(0, len(encoded), size)]
    frames: list[bytes] = []
    for number, part in enumerate(parts):
        kind = _HEADERS if number == 0 else _CONTINUATION
        flags = (_END_STREAM if number == 0 else 0) | (
            _END_HEADERS if number == len(parts) - 1 else 0
        )
        frames.append(frame(kind, flags, stream_id, part))
    return frames


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    assert len(payload) <= _FRAME_BYTES, "a frame is no longer"
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream_id.to_bytes(4, "big") + payload


def ended(sock: socket.socket, count: int) -> int:
    """How many streams have ended, once `count` have."""
    reader = sock.makefile("rb", buffering=1 << 20)
    found = 0
    while found < count:
        head = reader.read(9)
        if len(head) < 9:
            break
        payload = reader.read(int.from_bytes(head[:3], "big"))
        kind, flags = head[3], head[4]
        if kind == 7:
            raise AssertionError(payload)
        found += kind == 3 or (kind in (_DATA, _HEADERS) and bool(flags & _END_STREAM))
    reader.close()
    return found
