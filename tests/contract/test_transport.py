"""HTTP/1.1 itself, over raw sockets: framing, deadlines, and what is not HTTP.

Rules: contract 3.1, 4.7 and 4.8.
"""

from __future__ import annotations

import json
import socket
from time import monotonic
from urllib.parse import urlsplit

import pytest

from tests.contract.client import Client, b64, raw_exchange
from tests.contract.conftest import Server

LONG_BEFORE_S = 9.0
"""The usual deadline of a head is 10 s: what ends before was not ended by that."""


@pytest.fixture(scope="module", params=["server", "library_server"])
def endpoint(request: pytest.FixtureRequest) -> str:
    """Everything here is about bytes of HTTP/1.1, whoever serves them."""
    server: Server = request.getfixturevalue(request.param)
    return f"http://127.0.0.1:{server.port}"


BODY = json.dumps({"records": [{"body": b64("x")}]}).encode()


def connect(endpoint: str) -> socket.socket:
    parts = urlsplit(endpoint)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def receive_until(sock: socket.socket, mark: bytes) -> bytes:
    received = b""
    while mark not in received:
        piece = sock.recv(65536)
        assert piece, received
        received += piece
    return received


def append_head(basin: str, *more: str) -> bytes:
    lines = [
        "POST /v1/streams/s/records HTTP/1.1",
        "host: localhost",
        f"svc-basin: {basin}",
        "content-type: application/json",
        *more,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.mark.parametrize(
    "sent", [b"", b"G", b"GET /health HTTP/1.1\r\nhost: localhost\r\n", b"PRI * HTTP/2.0\r\n"]
)
def test_a_slow_header_is_closed_at_the_deadline(slow_header_endpoint: str, sent: bytes) -> None:
    """A client that sends nothing or half a head does not hold a connection."""
    begun = monotonic()
    received = raw_exchange(slow_header_endpoint, sent)
    assert 0.2 < monotonic() - begun < LONG_BEFORE_S
    if received:
        assert received.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"request_timeout"' in received
        assert b"svc-side-effects: none\r\n" in received


def test_a_trickled_header_does_not_extend_the_deadline(slow_header_endpoint: str) -> None:
    """The deadline runs from the first byte, whatever comes after."""
    with connect(slow_header_endpoint) as sock:
        begun = monotonic()
        sock.sendall(b"GET /health HTTP/1.1\r\n")
        sock.settimeout(0.05)
        received = b""
        while monotonic() - begun < 3 * LONG_BEFORE_S:
            try:
                sock.sendall(b"x: y\r\n")
                piece = sock.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if not piece:
                break
            received += piece
        assert monotonic() - begun < LONG_BEFORE_S


def test_an_idle_connection_outlives_the_header_deadline(slow_header_endpoint: str) -> None:
    """Between requests the deadline starts with the first byte only."""
    with connect(slow_header_endpoint) as sock:
        request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        sock.sendall(request)
        receive_until(sock, b"\r\n\r\nOK")
        sock.settimeout(0.8)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(30)
        sock.sendall(request)
        receive_until(sock, b"\r\n\r\nOK")
        sock.sendall(b"GET /hea")
        assert b" 408 " in receive_until(sock, b"}")
        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"BREW /v1/basins HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n folded: y\r\n\r\n",
        b"GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/2.0\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/0.9\r\nhost: localhost\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"CONNECT \r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET  /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health#a HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /he alth HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nx: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
        + (b"x: " + b"y" * 4000 + b"\r\n") * 9
        + b"\r\n",
        b"POST /v1/basins HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/basins HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n"
        b"content-length: 2\r\n\r\n",
        b"POST /v1/basins HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r",
    ],
    ids=lambda sent: f"{sent[:40]!r}({len(sent)})",
)
def test_what_is_not_http_gets_one_refusal_in_json(endpoint: str, sent: bytes) -> None:
    """Also bounds: lines, single headers, their number and their sum."""
    received = raw_exchange(endpoint, sent)
    head, _, body = received.partition(b"\r\n\r\n")
    status, code = b"400", "bad_header"
    if len(sent) > 1000:
        is_line = sent.startswith(b"GET /aaa")
        status, code = (b"414", "target_too_long") if is_line else (b"431", "headers_too_large")
    assert head.startswith(b"HTTP/1.1 " + status), received
    assert b"content-type: application/json" in head
    assert b"connection: close" in head
    assert json.loads(body)["code"] == code


def test_an_unended_head_is_refused_at_its_limit(endpoint: str) -> None:
    """40 KiB of headers without an end are not kept until the deadline."""
    begun = monotonic()
    sent = b"GET /health HTTP/1.1\r\n" + (b"x: " + b"y" * 4000 + b"\r\n") * 10
    assert raw_exchange(endpoint, sent).startswith(b"HTTP/1.1 431 ")
    assert monotonic() - begun < LONG_BEFORE_S


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"GET  /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"CONNECT \r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3,
    ],
)
def test_whoever_says_no_more_gets_the_answers(endpoint: str, sent: bytes) -> None:
    """The client ends its side right behind its requests, as netcat does: each is answered, or
    refused, and then the connection ends."""
    parts = urlsplit(endpoint)
    for pieces in (1, 2, 5):
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as sock:
            size = -(-len(sent) // pieces)
            for start in range(0, len(sent), size):
                sock.sendall(sent[start : start + size])
            sock.shutdown(socket.SHUT_WR)
            received = b""
            while piece := sock.recv(65536):
                received += piece
        assert received.count(b"\r\ncontent-length: ") == sent.count(b"\r\n\r\n"), received
        assert b"HTTP/1.1 500" not in received


def test_a_chunked_body_is_read(endpoint: str, basin: str, stream: str) -> None:
    """With extensions and a trailer, in pieces."""
    chunks = b"5;ext=1\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n"
    with connect(endpoint) as sock:
        sock.sendall(append_head(basin, "transfer-encoding: chunked") + chunks[:9])
        sock.sendall(chunks[9:] + b"0\r\nx-trailer: 1\r\n\r\n")
        assert receive_until(sock, b'"tail"').startswith(b"HTTP/1.1 200 ")


def test_a_broken_chunk_is_refused_once(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """One 400, then the connection ends; nothing was appended."""
    sent = append_head(basin, "transfer-encoding: chunked") + b"zz\r\n" + BODY
    received = raw_exchange(endpoint, sent)
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.startswith(b"HTTP/1.1 400 ")
    assert client.tail(basin, stream) == 0


def test_a_body_that_is_cut_off_appends_nothing(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """The client goes in the middle of its body, politely or by a reset."""
    head = append_head(basin, f"content-length: {len(BODY)}")
    for linger in (None, b"\x01\x00\x00\x00\x00\x00\x00\x00"):
        with connect(endpoint) as sock:
            sock.sendall(head + BODY[:10])
            if linger is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert client.tail(basin, stream) == 0


def test_expect_100_continue_is_answered_before_the_body(
    endpoint: str, basin: str, stream: str
) -> None:
    """A client that asks first is told to go on, and then answered."""
    head = append_head(basin, f"content-length: {len(BODY)}", "expect: 100-continue")
    with connect(endpoint) as sock:
        sock.sendall(head)
        assert receive_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(BODY)
        assert receive_until(sock, b'"tail"').startswith(b"HTTP/1.1 200 ")


def test_expect_is_not_answered_when_the_request_is_refused(endpoint: str) -> None:
    """The refusal comes instead of the invitation, and the connection ends."""
    head = append_head("x", f"content-length: {len(BODY)}", "expect: 100-continue")
    received = raw_exchange(endpoint, head)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in received


def test_a_declared_oversize_is_refused_without_reading_it(
    endpoint: str, basin: str, stream: str
) -> None:
    """413 comes back although the body never does."""
    received = raw_exchange(endpoint, append_head(basin, "content-length: 99999999"))
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in received


def test_pipelined_requests_are_answered_in_order(endpoint: str, basin: str, stream: str) -> None:
    """Ten requests in one write, ten answers in their order."""
    head = append_head(basin, f"content-length: {len(BODY)}")
    with connect(endpoint) as sock:
        sock.sendall((head + BODY) * 9 + b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        received = receive_until(sock, b"OK")
        while not received.endswith(b"OK"):
            received += sock.recv(65536)
    assert received.count(b"HTTP/1.1 200 ") == 10
    places = [received.index(b'"start":{"seq_num":%d,' % number) for number in range(9)]
    assert places == sorted(places)


def test_http_1_0_is_answered_and_closed(endpoint: str, basin: str, stream: str) -> None:
    """Without chunks, for bodies of either kind."""
    received = raw_exchange(endpoint, b"GET /health HTTP/1.0\r\n\r\n")
    assert received.endswith(b"\r\n\r\nOK")
    sent = (
        f"GET /v1/basins/{basin}/streams/s/read?wait=0 HTTP/1.0\r\n"
        "accept: text/event-stream\r\n\r\n"
    )
    received = raw_exchange(endpoint, sent.encode())
    assert received.endswith(b"\r\n\r\ndata: [DONE]\n\n")
    assert b"chunked" not in received


def test_connection_close_is_honoured(endpoint: str) -> None:
    """The answer says so and the socket ends."""
    received = raw_exchange(
        endpoint, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    assert b"connection: close\r\n" in received


def test_an_absolute_target_is_routed_by_its_path(endpoint: str) -> None:
    """As proxies send it. Its host stands for the header's, where only own names are served too."""
    received = raw_exchange(
        endpoint,
        b"GET http://localhost/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    assert received.startswith(b"HTTP/1.1 200 ")
    foreign = b"GET http://x/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert raw_exchange(endpoint, foreign).startswith(b"HTTP/1.1 403 ")


def test_a_reset_in_the_middle_of_an_answer_is_quiet(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """Readers that vanish while megabytes are on their way log no error."""
    client.append(basin, stream, b"x" * 1_000_000)
    request = f"GET /v1/basins/{basin}/streams/s/read HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    for _ in range(5):
        with connect(endpoint) as sock:
            sock.sendall(request * 3)
            sock.recv(100)
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
    assert client.get("/health").status == 200


def test_a_basin_header_given_twice_names_one_basin(endpoint: str, basin: str) -> None:
    """Repeating the header with another name is refused, with the same name it is not."""
    for other, status in ((basin, b" 200 "), ("another-basin", b" 400 ")):
        lines = ["GET /v1/streams HTTP/1.1", "host: localhost", "connection: close"]
        lines += [f"svc-basin: {basin}", f"svc-basin: {other}"]
        received = raw_exchange(endpoint, ("\r\n".join(lines) + "\r\n\r\n").encode())
        assert status in received.split(b"\r\n")[0], received
