"""How peers take an append, one at a time on each connection: for the client processes of
`svc-cluster bench`, which are the same for both sides.

Bodies are the same number of random bytes everywhere; what they are wrapped in is each peer's own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import grpc

from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.load.appends import AppendRefusedError, UnaryCaller
from svc_cluster.lab.load.work import Work

VARIANTS: Final = 64
KEYS: Final = 1000
"""Keys that one connection writes in turns, where a peer has keys: most puts are overwrites."""
CHANNELS: Final = 8
"""Connections of one process for calls of gRPC, which share them."""

_PUT: Final = "/etcdserverpb.KV/Put"
_channels: dict[int, grpc.aio.Channel] = {}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


class _Pool:
    """Requests made before, in turns."""

    def __init__(self, make: Callable[[int, bytes], bytes], size: int) -> None:
        self._all = [make(number, os.urandom(size)) for number in range(VARIANTS)]
        self._turn = 0

    def next(self) -> bytes:
        self._turn = (self._turn + 1) % VARIANTS
        return self._all[self._turn]


def _key(connection: int, number: int) -> bytes:
    return b"bench-%d-%d" % (connection, number % KEYS)


class EtcdHttp:
    """`put` through the gateway that speaks JSON."""

    def __init__(self, work: Work, connection: int) -> None:
        self._client = HttpClient(work.access.url)

        def made(number: int, body: bytes) -> bytes:
            pair = {"key": _key(connection, number), "value": body}
            text = {name: base64.b64encode(value).decode() for name, value in pair.items()}
            headers = {"content-type": "application/json"}
            return self._client.encode("POST", "/v3/kv/put", headers, json.dumps(text).encode())

        self._requests = _Pool(made, work.part.size)

    async def append(self, body: bytes) -> None:
        del body
        response = await self._client.exchange(self._requests.next())
        if response.status != 200:
            raise AppendRefusedError(f"{response.status}/-")

    def close(self) -> None:
        self._client.close()


class EtcdGrpc:
    """`put` over gRPC, with what is sent encoded before."""

    def __init__(self, work: Work, connection: int) -> None:
        place = connection % CHANNELS
        if place not in _channels:
            target = urlsplit(work.access.url).netloc
            options = [("grpc.use_local_subchannel_pool", 1)]
            _channels[place] = grpc.aio.insecure_channel(target, options)
        self._put: Any = _channels[place].unary_unary(_PUT)

        def made(number: int, body: bytes) -> bytes:
            return _field(1, _key(connection, number)) + _field(2, body)

        self._requests = _Pool(made, work.part.size)

    async def append(self, body: bytes) -> None:
        del body
        try:
            await self._put(self._requests.next(), timeout=10.0)
        except grpc.aio.AioRpcError as cause:
            raise AppendRefusedError(cause.code().name) from cause

    def close(self) -> None:
        """The channels go with the process."""


class _Lines:
    """A connection of a protocol in lines. Raises ConnectionLostError."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self.reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes, greet: bytes = b"") -> bytes:
        """Send a request and return the next line; a new connection is greeted first."""
        try:
            if self._writer is None:
                self.reader, self._writer = await asyncio.open_connection(*self._address)
                request = greet + request
            self._writer.write(request)
            return await self.line()
        except (OSError, EOFError) as cause:
            self.close()
            raise ConnectionLostError(str(cause), sent=True) from cause

    async def line(self) -> bytes:
        assert self.reader is not None, "connected"
        return await self.reader.readuntil(b"\r\n")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class RedisStream:
    """`XADD` to one stream."""

    def __init__(self, work: Work, connection: int) -> None:
        del connection
        self._lines = _Lines(work.access.url)

        def made(number: int, body: bytes) -> bytes:
            del number
            words = [b"XADD", b"bench", b"*", b"d", body]
            return b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%b\r\n" % (len(word), word) for word in words
            )

        self._requests = _Pool(made, work.part.size)

    async def append(self, body: bytes) -> None:
        del body
        line = await self._lines.ask(self._requests.next())
        if line[:1] != b"$":
            raise AppendRefusedError(line[:40].decode(errors="replace").strip())
        await self._lines.line()

    def close(self) -> None:
        self._lines.close()


NATS_STREAM: Final = "BENCH"
NATS_SUBJECT: Final = b"bench"


class NatsStream:
    """A publication to a stream, with the acknowledgement awaited."""

    def __init__(self, work: Work, connection: int) -> None:
        self._lines = _Lines(work.access.url)
        inbox = b"_INBOX.bench.%d.%d" % (os.getpid(), connection)
        self._greet = b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB %b 1\r\n' % inbox

        def made(number: int, body: bytes) -> bytes:
            del number
            return b"PUB %b %b %d\r\n%b\r\n" % (NATS_SUBJECT, inbox, len(body), body)

        self._requests = _Pool(made, work.part.size)

    async def append(self, body: bytes) -> None:
        del body
        line = await self._lines.ask(self._requests.next(), self._greet)
        while not line.startswith(b"MSG "):
            if line.startswith(b"-ERR"):
                raise AppendRefusedError(line[:40].decode(errors="replace").strip())
            answer = b"PONG\r\n" if line.startswith(b"PING") else b""
            line = await self._lines.ask(answer)
        assert self._lines.reader is not None, "connected"
        size = int(line.split()[-1])
        content = (await self._lines.reader.readexactly(size + 2))[:size]
        told = json.loads(content)
        if "error" in told:
            raise AppendRefusedError(f"{told['error'].get('code')}/nats")

    def close(self) -> None:
        self._lines.close()


URSULA_BUCKET: Final = "bench"
URSULA_STREAMS: Final = 64
_OF_ANOTHER_LEADER: Final = 307


class UrsulaStream:
    """An append of bytes to one of the streams of the part, asked of the node that leads it: the
    first answer of another node names that one."""

    def __init__(self, work: Work, connection: int) -> None:
        self._path = (
            f"/{URSULA_BUCKET}/s{connection % min(max(work.part.streams, 1), URSULA_STREAMS)}"
        )
        self._size = work.part.size
        self._settle(work.access.url)

    def _settle(self, url: str) -> None:
        self._client = client = HttpClient(url)
        headers = {"content-type": "application/octet-stream"}

        def made(number: int, body: bytes) -> bytes:
            del number
            return client.encode("POST", self._path, headers, body)

        self._requests = _Pool(made, self._size)

    async def append(self, body: bytes) -> None:
        del body
        response = await self._client.exchange(self._requests.next())
        if response.status == _OF_ANOTHER_LEADER:
            parts = urlsplit(response.headers["location"])
            self._client.close()
            self._settle(f"{parts.scheme}://{parts.netloc}")
            response = await self._client.exchange(self._requests.next())
        if response.status != 204:
            raise AppendRefusedError(f"{response.status}/-")

    def close(self) -> None:
        self._client.close()


CALLERS: Final[dict[str, Callable[[Work, int], UnaryCaller]]] = {
    "etcd-http": EtcdHttp,
    "etcd-grpc": EtcdGrpc,
    "redis": RedisStream,
    "nats": NatsStream,
    "ursula": UrsulaStream,
}
