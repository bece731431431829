"""Targets of whole connections: the gateway's application behind the real server, over loopback."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import re
import socket
from typing import Any, Final

import hpack
from h2.config import H2Configuration
from h2.connection import H2Connection
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import DataFrame, Frame, HeadersFrame, RstStreamFrame, SettingsFrame

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import InvalidError, ServiceError
from svc_cluster.gateway.request.error_answers import refused
from svc_cluster.http.message import BodyBrokenError, BodyTimeoutError, Request, Response
from svc_cluster.http.server import serve
from tests.fuzz.target import Check, Target, chance, expect
from tests.unit.gateway.scripted import ScriptedBackend, make_app, nothing

QUIET_S: Final = 0.05
"""A server that says nothing for so long waits for more, which will not come."""
HANG_S: Final = 2.0
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAY_FAIL: Final = frozenset((501, 505))
"""What is not implemented is said with these."""
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})[^\r\n]*\r\n")


class Faults(logging.Handler):
    """What the server says of itself: lines of errors, and exceptions that nobody took."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = "" if not record.exc_info else f" {record.exc_info[1]!r}"
        self.texts.append(record.getMessage() + cause)

    def of_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.texts.append(f"{context.get('message')} {context.get('exception')!r}")


class Listening:
    """One server for many inputs, each on a connection of its own."""

    def __init__(self, app: Any) -> None:
        """`app` is made on the loop."""
        self.faults = Faults()
        logging.getLogger().addHandler(self.faults)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self.faults.of_loop)
        self._hosts = itertools.cycle(range(2, 250))
        self.app: Any = None

        async def begin() -> None:
            self.app = app()
            self._server = await serve(self.app, "127.0.0.1", 0, header_seconds=HANG_S)

        self._loop.run_until_complete(begin())

    def send(self, data: bytes, rng: random.Random) -> bytes:
        """What the server answers to bytes that come in pieces."""
        self.faults.texts.clear()
        answer = self._loop.run_until_complete(self._send(data, rng))
        expect(not self.faults.texts, f"the server says: {self.faults.texts[:2]}")
        return answer

    async def _send(self, data: bytes, rng: random.Random) -> bytes:
        with socket.socket() as sock:
            sock.setblocking(False)
            # many addresses: closed connections keep a port of theirs for a minute
            sock.bind((f"127.0.0.{next(self._hosts)}", 0))
            await self._loop.sock_connect(sock, ("127.0.0.1", self._server.port))
            answer = bytearray()
            ended = False
            try:
                place = 0
                while place < len(data):
                    size = rng.choice((1, 40, len(data), len(data)))
                    await self._loop.sock_sendall(sock, data[place : place + size])
                    place += size
                sock.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(HANG_S):
                    while piece := await asyncio.wait_for(
                        self._loop.sock_recv(sock, 65536), QUIET_S if answer else HANG_S
                    ):
                        answer += piece
                ended = True
            except TimeoutError:  # which is an OSError too
                pass
            except OSError:
                ended = True  # it was reset, which is an end
            expect(ended or bool(answer), f"neither an answer nor an end in {HANG_S:.0f} s")
            return bytes(answer)

    def close(self) -> None:
        """The server goes with all that it still serves."""
        logging.getLogger().removeHandler(self.faults)
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        await self._server.close(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class Connections:
    """A check on connections to one server."""

    def __init__(self, listening: Listening, check: Check) -> None:
        self.close = listening.close
        self._check = check

    def __call__(self, data: bytes) -> None:
        self._check(data)


def gateway() -> Any:
    """The whole application over a backend that refuses what it is asked."""
    backend = ScriptedBackend([nothing(3)], failure=InvalidError("told so"))
    return make_app(backend)[0]


def check_http1() -> Check:
    """Any bytes: no status of the server's own fault, nothing that it logs as an error."""
    listening = Listening(gateway)

    def check(data: bytes) -> None:
        for found in _STATUS.findall(listening.send(data, chance(data))):
            status = int(found)
            expect(status < 500 or status in MAY_FAIL, f"status {status}")

    return Connections(listening, check)


def make_http1(rng: random.Random) -> bytes:
    return b"".join(_request(rng) for _ in range(rng.choice((1, 1, 2))))


def _request(rng: random.Random) -> bytes:
    method = rng.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"))
    target = rng.choice(
        (
            "/v1/streams/s/records?seq_num=0&count=1",
            "/v1/streams/a%2Fb/records/tail",
            "/v1/basins?prefix=a&limit=2",
            "/v1/streams/s/records",
            "/v1/access-tokens",
            "*",
        )
    )
    body = rng.choice((b"", b'{"records":[{"body":"a"}]}', b"x" * 20))
    lines = [f"{method} {target} HTTP/1.{rng.choice('1110')}", "host: localhost"]
    lines += rng.sample(
        [
            "svc-basin: basin-0001",
            "content-type: application/json",
            "accept: text/event-stream",
            "expect: 100-continue",
            "content-encoding: gzip",
            "authorization: Bearer x",
            "connection: close",
            "upgrade: websocket",
        ],
        rng.randint(0, 5),
    )
    if rng.random() < 0.3:
        lines.append("transfer-encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    elif body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


BLANK: Final = ("", "", [("", "")], b"")
"""No request: there is a blank line in front of it."""


class Heads:
    """An application that keeps what it was asked."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.seen: list[tuple[str, str, list[tuple[str, str]], bytes | None]] = []

    def refuse(self, error: ServiceError) -> Response:
        return refused(error)

    async def handle(self, request: Request) -> Response:
        body: bytes | None = b""
        try:
            body = b"".join([bytes(piece) async for piece in request.body.chunks()])
        except (BodyBrokenError, BodyTimeoutError, ConnectionResetError):
            body = None
        target = request.raw_path + ("?" + request.query if request.query else "")
        self.seen.append((request.method, target, list(request.headers), body))
        return Response(204)


def check_against_h11() -> Check:
    """What the server takes, another parser of HTTP/1.1 takes and reads alike: the method, the
    target, each header, the body and how many requests there are. What it refuses it may. Blank
    lines in front of a request carry nothing, and the other refuses them: nothing is compared."""
    import h11

    listening = Listening(Heads)

    def check(data: bytes) -> None:
        if data.startswith(PREFACE[:4]):
            return
        listening.app.seen = []
        listening.send(data, chance(data))
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=2**17)
        parser.receive_data(data)
        for method, target, headers, body in listening.app.seen:
            if body is None:
                return  # it said that it could not read it
            other = _next(h11, parser)
            if other is BLANK:
                return
            expect(other is not None, f"only the server sees {method} {target}")
            assert other is not None
            there = other[1].partition("#")[0]
            if there.count("?") == 1:
                there = there.removesuffix("?")  # a query without anything in it
            expect((method, target) == (other[0], there), f"{method} {target} is {other[:2]} there")
            mine, theirs = _compared(headers), _compared(other[2])
            expect(mine == theirs, f"headers {mine} are {theirs} there")
            expect(body == other[3], "another body")

    return Connections(listening, check)


def _compared(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without the blanks around values, and the case of codings, which mean nothing and which h11
    makes alike."""
    return sorted(
        (name, (value.lower() if name == "transfer-encoding" else value).strip(" \t"))
        for name, value in headers
        if name != "connection"
    )


def _next(h11: Any, parser: Any) -> tuple[str, str, list[tuple[str, str]], bytes] | None:
    """The next request as h11 reads it; None where it reads none."""
    head, body = None, b""
    try:
        if parser.our_state is h11.SEND_RESPONSE or parser.our_state is h11.DONE:
            parser.send(h11.Response(status_code=204, headers=[]))
            parser.send(h11.EndOfMessage())
            parser.start_next_cycle()
        while True:
            event = parser.next_event()
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None
    except h11.ProtocolError as refusal:
        return BLANK if str(refusal) == "no request line received" else None
    assert head is not None
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers]
    return head.method.decode(), head.target.decode("latin-1"), fields, body


def check_http2() -> Check:
    """Any frames behind the preface: no status of the server's own fault, no error logged."""
    listening = Listening(gateway)

    def check(data: bytes) -> None:
        start = PREFACE + SettingsFrame(0).serialize()
        for status in _statuses(listening.send(start + data, chance(data))):
            expect(status < 500 or status in MAY_FAIL, f"status {status}")

    return Connections(listening, check)


def _statuses(answer: bytes) -> list[int]:
    decoder, found = hpack.Decoder(), []
    while len(answer) >= 9:
        try:
            frame, length = Frame.parse_frame_header(memoryview(answer[:9]))
            frame.parse_body(memoryview(answer[9 : 9 + length]))
        except HyperframeError:
            break
        if isinstance(frame, HeadersFrame) and len(answer) >= 9 + length:
            fields = dict(decoder.decode(frame.data, raw=True))
            found += [int(fields[b":status"])] if b":status" in fields else []
        answer = answer[9 + length :]
    return found


def make_http2(rng: random.Random) -> bytes:
    """What another library sends, without the preface, and frames by hand."""
    client = H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False))
    client.initiate_connection()
    client.data_to_send()
    for stream in range(1, 2 * rng.randint(1, 3), 2):
        fields = [
            (":method", rng.choice(("GET", "POST", "HEAD"))),
            (":path", rng.choice(("/v1/streams/s/records", "/v1/basins", "/"))),
            (":scheme", "http"),
            (":authority", "localhost"),
            ("svc-basin", "basin-0001"),
            *rng.sample([("accept", "text/event-stream"), ("x", "y"), ("te", "trailers")], 1),
        ]
        ends = rng.random() < 0.5
        client.send_headers(stream, fields, end_stream=ends)
        if not ends:
            client.send_data(stream, b'{"records":[]}', end_stream=rng.random() < 0.7)
    sent = client.data_to_send()
    if rng.random() < 0.3:
        sent += RstStreamFrame(1, error_code=8).serialize()
    if rng.random() < 0.2:
        sent += DataFrame(rng.choice((1, 9)), b"late").serialize()
    return sent


TARGETS: Final = (
    Target("http1", check_http1, make_http1),
    Target("http1-beside-h11", check_against_h11, make_http1, needs="h11"),
    Target("http2", check_http2, make_http2),
)
