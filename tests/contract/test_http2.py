"""HTTP/2 itself, frame by frame where it matters: streams, both directions, windows, endings.

Rules: contract 4.7.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
)
from h2.settings import SettingCodes

from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.http2_library import (
    CONNECTION_WINDOW_BYTES,
    CONNECTION_WINDOW_BYTES_FAST,
    STREAM_WINDOW_BYTES,
    STREAM_WINDOW_BYTES_READ,
)
from tests.contract.h2_client import H2Response, H2Session
from tests.contract.scripted_app import DEADLINE, Peer, run_client


def connect(peer: Peer, *, window: int = 1 << 20) -> H2Session:
    return H2Session("127.0.0.1", peer.port, window=window)


def receive_until(session: H2Session, done: Callable[[], object]) -> None:
    """Like `pump`, over resets too."""
    while not done():
        assert not session.closed, session.goaway
        try:
            session.receive()
        except ConnectionResetError:
            continue


def is_head(event: Event) -> TypeGuard[ResponseReceived | InformationalResponseReceived]:
    return isinstance(event, ResponseReceived | InformationalResponseReceived)


def works(session: H2Session) -> None:
    """The connection carries another request."""
    answer = session.request("GET", "/works", {})
    assert (answer.status, answer.read()) == (200, b"GET /works")


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_server_states_its_limits_first() -> None:
    """Exactly 100 streams, 32 KiB of headers, windows that are not empty: before any request."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        settings = session.h2.remote_settings
        receive_until(session, lambda: settings.get(SettingCodes.MAX_CONCURRENT_STREAMS))
        assert settings.max_concurrent_streams == 100
        assert settings.max_header_list_size == 32 * 1024
        assert settings.initial_window_size == STREAM_WINDOW_BYTES
        assert settings.initial_window_size >= 65_535, "RFC 9113 6.5.2: all count with it at first"
        works(session)
        assert session.h2.outbound_flow_control_window == CONNECTION_WINDOW_BYTES
        session.close()

    run_client(script)


def test_a_client_that_has_not_heard_the_settings_may_send_a_whole_window() -> None:
    """All at once: preface, head, and as much of a body as the protocol begins with."""

    def script(peer: Peer) -> None:
        client = H2Connection(H2Configuration(client_side=True))
        client.initiate_connection()
        head = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/length")]
        client.send_headers(1, head)
        for size in (16384, 16384, 16384, 16383):
            client.send_data(1, bytes(size), end_stream=size == 16383)
        answers: list[Event] = []
        with socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE) as sock:
            sock.sendall(client.data_to_send())
            while not any(isinstance(event, StreamEnded) for event in answers):
                data = sock.recv(65536)
                assert data, "the connection was ended"
                answers += client.receive_data(data)
        bodies = [event.data for event in answers if isinstance(event, DataReceived)]
        assert b"".join(bodies) == b"65535"

    run_client(script)


def _has(answer: H2Response, size: int) -> bool:
    return len(answer.data) >= size


def test_both_directions_flow_at_once() -> None:
    """The head comes before a byte of the body; each piece is echoed before the next is sent; the
    client's end ends the answer."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("POST", "/echo", {}, end=False)
        receive_until(session, lambda: answer.status)
        assert (answer.status, answer.headers["x-kind"]) == (200, "echo")
        assert "transfer-encoding" not in answer.headers
        for number in range(100):
            piece = b"piece %d" % number * 50
            session.send(answer, piece, end=False)
            receive_until(session, partial(_has, answer, len(piece)))
            assert answer.data == piece
            answer.data.clear()
        session.send(answer, b"", end=True)
        assert answer.read() == b"end"
        assert peer.next_end() == "done"
        works(session)
        session.close()

    run_client(script)


def test_twenty_megabytes_cross_in_both_directions() -> None:
    """Through windows of 256 KiB; neither side waits for the other to finish."""

    def script(peer: Peer) -> None:
        session = connect(peer, window=65535)
        answer = session.start("POST", "/echo", {}, end=False)
        session.send(answer, b"p" * 20_000_000, end=True)
        assert len(answer.read()) == 20_000_000 + len(b"end")
        session.close()

    run_client(script)


def test_a_request_may_end_long_before_its_answer() -> None:
    """The client's half is closed with the head; the answer goes on until the client cancels it,
    which ends the handler and nothing else."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("GET", "/endless", {}, end=True)
        other = session.start("GET", "/wait", {}, end=True)
        receive_until(session, lambda: len(answer.data) > 500_000)
        session.cancel(answer)
        assert peer.next_end() in ("cancelled", "closed")
        peer.go()
        assert other.read() == b"waited"
        session.close()

    run_client(script)


@pytest.mark.parametrize("path", ["/refuse", "/first"])
def test_an_answer_may_end_before_its_request(path: str) -> None:
    """The whole answer, a moment for the client to end, then RST_STREAM without an error; what is
    still under way of the body hurts nobody."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("POST", path, {"content-type": "x/y"}, end=False)
        session.h2.send_data(answer.stream_id, b"one")
        session.flush()
        receive_until(session, lambda: answer.ended and answer.reset is not None)
        assert answer.reset == ErrorCodes.NO_ERROR
        if path == "/refuse":
            assert answer.status == 400
            assert json.loads(answer.data)["code"] == "bad_header"
        else:
            assert answer.data == b"one"
        # A client that had not seen the reset yet goes on sending.
        frame = b"\x00\x00\x04\x00\x00" + answer.stream_id.to_bytes(4) + b"late"
        session.sock.sendall(frame * 10)
        works(session)
        assert len(peer.app.requests) == 2
        session.close()

    run_client(script, limits=TimeLimits(linger=0.3))


def test_a_client_that_ends_its_body_after_the_answer_is_not_reset() -> None:
    """It may send megabytes that nobody wants, for a moment; other requests go on."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("POST", "/refuse", {}, end=False)
        session.pump(lambda: answer.ended)
        assert answer.status == 400
        for _ in range(100):
            while session.h2.local_flow_control_window(answer.stream_id) < 16_000:
                session.receive()
            session.h2.send_data(answer.stream_id, b"x" * 16_000)
            session.flush()
        works(session)
        session.h2.end_stream(answer.stream_id)
        works(session)
        assert answer.reset is None
        session.close()

    run_client(script, limits=TimeLimits(linger=DEADLINE))


def test_exactly_a_hundred_requests_run_at_once() -> None:
    """One more is refused alone; when one has ended there is room again; all are answered."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        running = [session.start("GET", "/wait", {}, end=True) for _ in range(100)]
        more = session.start("GET", "/wait", {}, end=True)
        receive_until(session, lambda: more.reset is not None)
        assert more.reset == ErrorCodes.REFUSED_STREAM
        eventually(lambda: len(peer.app.requests) == 100)
        session.cancel(running.pop())
        works(session)
        peer.go()
        assert [answer.read() for answer in running] == [b"waited"] * 99
        works(session)
        session.close()

    run_client(script)


def test_a_body_that_nobody_reads_holds_back_its_own_stream_alone() -> None:
    """The client may send one window of it; others go on; once it is wanted all of it crosses."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        total = 3_000_000
        answer = session.start("POST", "/stall", {"content-length": str(total)}, end=False)
        receive_until(
            session,
            lambda: session.h2.local_flow_control_window(answer.stream_id) == STREAM_WINDOW_BYTES,
        )
        session.send(answer, b"x" * STREAM_WINDOW_BYTES, end=False)
        other = session.request("POST", "/length", {}, b"y" * 1_000_000)
        assert other.read() == b"1000000"
        assert session.h2.local_flow_control_window(answer.stream_id) == 0
        peer.go()
        session.send(answer, b"x" * (total - STREAM_WINDOW_BYTES), end=True)
        assert answer.read() == b"3000000"
        session.close()

    run_client(script)


def stalled(session: H2Session, streams: int) -> list[H2Response]:
    """Requests whose bodies nobody reads, each with as much of it as the client may send."""
    started = []
    for _ in range(streams):
        answer = session.start("POST", "/stall", {}, end=False)
        started.append(answer)
        room = session.h2.local_flow_control_window(answer.stream_id)
        session.send(answer, b"x" * room, end=False)
        works(session)  # it has told by now what else it takes
    return started


def taken_in(session: H2Session, streams: list[H2Response]) -> int:
    """Bytes of bodies that the client was allowed to send and is not allowed to send again."""
    windows = [session.h2.streams[one.stream_id].outbound_flow_control_window for one in streams]
    return sum(STREAM_WINDOW_BYTES - window for window in windows)


def test_bodies_that_nobody_reads_leave_the_window_of_their_connection_open() -> None:
    """Ninety of them, with many times what the connection's window takes, beside bodies that are
    read at once."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        works(session)
        waiting = stalled(session, 90)
        assert taken_in(session, waiting) > 60 * CONNECTION_WINDOW_BYTES
        for _ in range(5):
            assert session.request("POST", "/length", {}, b"y" * 1_000_000).read() == b"1000000"
        assert all(answer.status == 0 for answer in waiting)
        session.close()

    run_client(script)


def test_what_is_taken_in_of_bodies_that_nobody_reads_is_bounded() -> None:
    """By the bound of the process and a window for each connection, however many bodies there are;
    who sends no body goes on meanwhile; and bodies that are cancelled give their part back."""
    connections, bound = 4, 256 * 1024

    def script(peer: Peer) -> None:
        sessions = [connect(peer) for _ in range(connections)]
        for session in sessions:
            works(session)
        begun: list[list[H2Response]] = []
        for session in sessions:
            begun.append([])
            while session.h2.outbound_flow_control_window > 0 and len(begun[-1]) < 90:
                begun[-1] += stalled(session, 1)
        pairs = list(zip(sessions, begun, strict=True))
        assert all(len(streams) < 90 for streams in begun)
        taken = sum(taken_in(session, streams) for session, streams in pairs)
        assert bound <= taken <= bound + connections * CONNECTION_WINDOW_BYTES
        for session, streams in pairs:
            for answer in streams:
                session.cancel(answer)
        for session in sessions:
            assert session.request("POST", "/length", {}, b"y" * 1_000_000).read() == b"1000000"
            session.close()

    run_client(script, unread_bytes_max=bound)


def test_what_is_unread_goes_with_its_connection() -> None:
    """A client that is gone with bodies that nobody has read leaves the room to others."""
    bound = 256 * 1024

    def script(peer: Peer) -> None:
        for _ in range(4):
            session = connect(peer)
            works(session)
            waiting = stalled(session, 8)
            assert bound <= taken_in(session, waiting) <= bound + CONNECTION_WINDOW_BYTES
            session.close()
            assert {peer.next_end() for _ in range(17)} == {"done", "cancelled"}

    run_client(script, unread_bytes_max=bound)


def test_windows_grow_for_what_is_read_and_for_connections_that_send_fast() -> None:
    """So that a body does not cross in small steps."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        works(session)
        answer = session.start("POST", "/length", {}, end=False)
        stream = session.h2.streams[answer.stream_id]
        receive_until(
            session, lambda: stream.outbound_flow_control_window == STREAM_WINDOW_BYTES_READ
        )
        session.send(answer, b"y" * 4_000_000, end=False)
        receive_until(
            session,
            lambda: session.h2.outbound_flow_control_window >= CONNECTION_WINDOW_BYTES_FAST // 2,
        )
        session.send(answer, b"", end=True)
        assert answer.read() == b"4000000"
        session.close()

    run_client(script)


def test_a_window_that_stays_shut_holds_back_its_answer_alone() -> None:
    """The server makes one piece beyond the window and no more; other answers pass by; after the
    write deadline the stream is ended, and the connection is not."""

    def script(peer: Peer) -> None:
        session = connect(peer, window=10_000)
        session.h2.acknowledge_received_data = lambda *_: None  # type: ignore[method-assign]
        answer = session.start("GET", "/endless", {}, end=True)
        receive_until(session, lambda: len(answer.data) == 10_000)
        works(session)
        assert peer.app.produced_bytes == 100_000
        receive_until(session, lambda: answer.reset is not None)
        assert answer.reset == ErrorCodes.CANCEL
        assert len(answer.data) == 10_000
        assert [peer.next_end(), peer.next_end()] == ["done", "closed"]
        works(session)
        session.close()

    run_client(script, limits=TimeLimits(write=1.0))


def test_a_window_that_opens_byte_by_byte_does_not_hold_an_answer_for_ever() -> None:
    """The write deadline is for a whole slice, not for the next byte."""

    def script(peer: Peer) -> None:
        session = connect(peer, window=1)
        session.h2.acknowledge_received_data = lambda *_: None  # type: ignore[method-assign]
        answer = session.start("GET", "/endless", {}, end=True)
        end = time.monotonic() + DEADLINE
        while answer.reset is None:
            assert time.monotonic() < end
            receive_until(session, lambda: answer.data or answer.reset is not None)
            answer.data.clear()
            time.sleep(0.05)
            if answer.reset is None:
                session.h2.increment_flow_control_window(1, answer.stream_id)
                session.flush()
        session.close()

    run_client(script, limits=TimeLimits(write=1.0))


def test_a_client_that_reads_nothing_is_cut_off() -> None:
    """Its windows are wide open but it never reads from its socket."""

    def script(peer: Peer) -> None:
        session = H2Session("127.0.0.1", peer.port, window=2**31 - 1)
        session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        session.h2.increment_flow_control_window(2**31 - 1 - 65535)
        session.start("GET", "/endless", {}, end=True)
        assert peer.next_end() in ("cancelled", "closed")
        assert peer.app.produced_bytes < 30_000_000
        session.close()

    run_client(script, limits=TimeLimits(write=1.0))


def test_a_lost_connection_ends_everything_on_it() -> None:
    """A reset of the socket cancels waiting handlers, streams and unread bodies alike."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        for path in ("/wait", "/echo", "/endless", "/stall"):
            session.start("POST", path, {}, end=False)
        eventually(lambda: len(peer.app.requests) == 4)
        session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        session.close()
        ends = [peer.next_end() for _ in range(4)]
        assert set(ends) <= {"cancelled", "closed"}

    run_client(script)


def test_a_body_ends_with_its_trailers() -> None:
    """Which are ignored."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("POST", "/length", {}, end=False)
        session.send(answer, b"12345", end=False)
        session.h2.send_headers(answer.stream_id, [(b"x-sum", b"15")], end_stream=True)
        session.flush()
        assert answer.read() == b"5"
        session.close()

    run_client(script)


def test_padding_counts_against_the_window_and_not_as_data() -> None:
    """Megabytes of it come back to the client as window."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("POST", "/length", {}, end=False)
        for _ in range(6_000):
            while session.h2.local_flow_control_window(answer.stream_id) < 300:
                session.receive()
            session.h2.send_data(answer.stream_id, b"x", pad_length=255)
            session.flush()
        session.send(answer, b"", end=True)
        assert answer.read() == b"6000"
        session.close()

    run_client(script)


def test_a_client_that_asks_first_is_invited() -> None:
    """`Expect: 100-continue`: 100 comes when the body is wanted, not when the request is refused,
    and before the head of an answer that reads it."""

    def script(peer: Peer) -> None:
        for path, statuses in (
            ("/length", ["100"]),
            ("/echo", ["100", "200"]),
            ("/refuse", ["400"]),
        ):
            session = connect(peer)
            session.start("POST", path, {"expect": "100-continue"}, end=False)
            seen: list[str] = []
            while len(seen) < len(statuses):
                events = session.h2.receive_data(session.sock.recv(65536))
                seen += [
                    str(dict[Any, Any](event.headers)[":status"])
                    for event in events
                    if is_head(event)
                ]
                session.flush()
            assert seen == statuses
            session.close()

    run_client(script)


def test_a_client_that_takes_its_leave_is_still_answered() -> None:
    """GOAWAY from the client: what is under way ends properly, then the connection does."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("GET", "/wait", {}, end=True)
        session.sock.sendall(b"\x00\x00\x08\x07\x00" + bytes(12))
        eventually(lambda: len(peer.app.requests) == 1)
        peer.go()
        assert answer.read() == b"waited"
        receive_until(session, lambda: session.goaway)
        assert session.goaway is not None
        assert session.goaway.error_code == ErrorCodes.NO_ERROR
        session.close()

    run_client(script)


def test_answers_without_a_body() -> None:
    """HEAD has the length of what it leaves out; 204 has none."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        head = session.request("HEAD", "/some", {})
        assert (head.status, head.headers["content-length"], head.read()) == (200, "10", b"")
        empty = session.request("DELETE", "/empty", {})
        assert (empty.status, empty.read()) == (204, b"")
        assert "content-length" not in empty.headers
        assert "date" in empty.headers
        session.close()

    run_client(script)


METHOD, SCHEME, PATH, HOST = (
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/x"),
    (":authority", "x"),
)


@pytest.mark.parametrize(
    "fields",
    [
        [METHOD, SCHEME, HOST],
        [METHOD, PATH, HOST],
        [SCHEME, PATH, HOST],
        [METHOD, SCHEME, PATH],
        [METHOD, METHOD, SCHEME, PATH, HOST],
        [METHOD, SCHEME, PATH, PATH, HOST],
        [METHOD, SCHEME, PATH, HOST, HOST],
        [METHOD, SCHEME, PATH, HOST, (":status", "200")],
        [METHOD, SCHEME, PATH, HOST, (":protocol", "websocket")],
        [METHOD, SCHEME, ("x", "y"), PATH, HOST],
        [METHOD, SCHEME, PATH, HOST, ("host", "y")],
        [METHOD, SCHEME, PATH, HOST, ("X-Upper", "y")],
        [METHOD, SCHEME, PATH, HOST, ("", "y")],
        [METHOD, SCHEME, PATH, HOST, ("a b", "y")],
        [METHOD, SCHEME, PATH, HOST, ("a\r\nb", "y")],
        [METHOD, SCHEME, PATH, HOST, ("a", "b\r\nc: d")],
        [METHOD, SCHEME, PATH, HOST, ("a", "b\0")],
        [METHOD, SCHEME, PATH, HOST, ("a", " b")],
        [METHOD, SCHEME, PATH, HOST, ("a", "b\t")],
        [METHOD, SCHEME, PATH, HOST, ("connection", "close")],
        [METHOD, SCHEME, PATH, HOST, ("transfer-encoding", "chunked")],
        [METHOD, SCHEME, PATH, HOST, ("upgrade", "h2c")],
        [METHOD, SCHEME, PATH, HOST, ("te", "gzip")],
        [METHOD, SCHEME, PATH, HOST, ("authorization", "a"), ("authorization", "b")],
        [METHOD, SCHEME, PATH, HOST, ("content-type", "a/b"), ("content-type", "c/d")],
        [("x", "y"), METHOD, SCHEME, PATH, HOST],
        [METHOD, SCHEME, (":path", ""), HOST],
        [METHOD, SCHEME, (":path", "x"), HOST],
        [METHOD, SCHEME, (":path", "*"), HOST],
        [METHOD, SCHEME, (":path", "/a b"), HOST],
        [METHOD, SCHEME, (":path", "/a\r\n"), HOST],
        [METHOD, SCHEME, (":path", "http://x/y"), HOST],
        [METHOD, SCHEME, PATH, (":authority", "x y")],
        [METHOD, SCHEME, PATH, (":authority", "x/y")],
        [METHOD, SCHEME, PATH, (":authority", "u@x")],
        [(":method", ""), SCHEME, PATH, HOST],
        [(":method", "G T"), SCHEME, PATH, HOST],
        [(":method", "CONNECT"), HOST],
        [METHOD, SCHEME, PATH, HOST, *(("x", "y" * 4000),) * 9],
        [METHOD, SCHEME, (":path", "/" + "a" * 8190), HOST],
        [METHOD, SCHEME, (":path", "/a#b"), HOST],
        [METHOD, SCHEME, (":path", "/\u00e9"), HOST],
        [METHOD, SCHEME, (":path", "/a?b=\u00e9"), HOST],
    ],
    ids=lambda fields: repr(fields)[:60],
)
def test_a_bad_head_is_refused_alone(fields: list[tuple[str, str]]) -> None:
    """One refusal in JSON on its stream; no handler sees it; the connection goes on."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        stream_id = session.h2.get_next_available_stream_id()
        answer = session.responses[stream_id] = H2Response(session, stream_id)
        encoded = [(name.encode(), value.encode()) for name, value in fields]
        session.h2.send_headers(stream_id, encoded, end_stream=True)
        session.flush()
        large = sum(len(value) for _, value in fields) > 8190
        if large:
            status, code = (
                (414, "target_too_long") if len(fields) < 5 else (431, "headers_too_large")
            )
        else:
            status, code = 400, "bad_header"
        assert json.loads(answer.read())["code"] == code
        assert answer.status == status
        assert answer.headers["content-type"] == "application/json"
        assert peer.app.requests == []
        works(session)
        session.close()

    run_client(script)


@pytest.mark.parametrize(
    ("declared", "sent"),
    [("5", b"abc"), ("1", b"abc"), ("5", b""), ("0", b"x"), ("3", b"x" * 9000)],
)
def test_a_wrong_length_ends_its_stream_alone(declared: str, sent: bytes) -> None:
    """RST_STREAM with PROTOCOL_ERROR, no answer; a stream that waits beside it, and one that comes
    behind it, are answered."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        waits = session.start("GET", "/wait", {}, end=True)
        wrong = session.start("POST", "/stall", {"content-length": declared}, end=not sent)
        if sent:
            session.h2.send_data(wrong.stream_id, sent, end_stream=True)
            session.flush()
        behind = session.start("GET", "/behind", {}, end=True)
        receive_until(session, lambda: wrong.reset is not None or behind.ended)
        assert wrong.reset == ErrorCodes.PROTOCOL_ERROR, "nothing was told before the next answer"
        assert wrong.status == 0
        right = session.request("POST", "/echo", {"content-length": "5"}, b"right")
        assert right.read() == b"rightend"
        peer.go()
        assert waits.read() == b"waited"
        assert session.goaway is None
        works(session)
        session.close()

    run_client(script)


def test_the_preface_may_come_in_pieces() -> None:
    """Byte by byte, and the same port speaks HTTP/1.1 beside it."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        raw = socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE)
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0":
            raw.sendall(bytes([byte]))
        assert raw.recv(9)[3] == 4
        raw.close()
        plain = socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE)
        plain.sendall(b"GET /plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        received = b""
        while piece := plain.recv(65536):
            received += piece
        assert received.endswith(b"GET /plain")
        plain.close()
        works(session)
        session.close()

    run_client(script)


def test_an_idle_connection_is_closed_politely() -> None:
    """After the keep-alive time without a request; not while one is running."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("GET", "/wait", {}, end=True)
        eventually(lambda: len(peer.app.requests) == 1)
        time.sleep(0.6)
        peer.go()
        assert answer.read() == b"waited"
        receive_until(session, lambda: session.goaway)
        assert session.goaway is not None
        assert session.goaway.error_code == ErrorCodes.NO_ERROR
        while not session.closed:
            session.receive()
        session.close()

    run_client(script, limits=TimeLimits(keep_alive=0.3))


def test_a_stopping_server_finishes_what_has_begun() -> None:
    """GOAWAY names the last request that will be answered; a later one is refused, which the
    client may repeat elsewhere; the connection ends with the last answer."""

    def script(peer: Peer) -> None:
        session = connect(peer)
        answer = session.start("GET", "/wait", {}, end=True)
        eventually(lambda: len(peer.app.requests) == 1)
        peer.stop()
        receive_until(session, lambda: session.goaway)
        assert session.goaway is not None
        assert session.goaway.error_code == ErrorCodes.NO_ERROR
        assert session.goaway.last_stream_id == answer.stream_id
        # The library would not send a request on a connection that is going away.
        head = session.h2.encoder.encode([METHOD, SCHEME, PATH, HOST])
        late = answer.stream_id + 2
        session.sock.sendall(len(head).to_bytes(3) + b"\x01\x05" + late.to_bytes(4) + head)
        refused = b"\x00\x00\x04\x03\x00" + late.to_bytes(4) + b"\x00\x00\x00\x07"
        assert refused in session.sock.recv(65536)
        peer.go()
        received = b""
        while piece := session.sock.recv(65536):
            received += piece
        assert b"waited" in received
        session.close()

    run_client(script)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_both_protocols_are_spoken_over_tls(tmp_path: Path) -> None:
    """The client's offer (ALPN) chooses; the port is the same."""
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)

    def script(peer: Peer) -> None:
        for offered in ("h2", "http/1.1"):
            theirs = ssl.create_default_context(cafile=str(certificate))
            theirs.set_alpn_protocols([offered])
            plain = socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE)
            sock = theirs.wrap_socket(plain, server_hostname="127.0.0.1")
            assert sock.selected_alpn_protocol() == offered
            if offered == "h2":
                session = H2Session("127.0.0.1", peer.port, sock=sock)
                works(session)
                session.close()
            else:
                sock.sendall(b"GET /works HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                received = b""
                while piece := sock.recv(65536):
                    received += piece
                assert received.endswith(b"GET /works")
                sock.close()

    run_client(script, tls=ours)
