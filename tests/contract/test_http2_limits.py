"""HTTP/2 clients that mean harm, frame by frame: each is bounded, told why, and cut off, while
others are served."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator

import pytest
from h2.errors import ErrorCodes
from hpack import Encoder

from svc_cluster.http.connection import TimeLimits
from tests.contract.h2_client import H2Session
from tests.contract.scripted_app import DEADLINE, Peer, run_client

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4


def frame(kind: int, flags: int = 0, stream_id: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream_id.to_bytes(4) + payload


HELLO = PREFACE + frame(SETTINGS)


def head(path: str = "/wait", method: str = "GET") -> bytes:
    """A block of headers that leaves the compression's state as it is."""
    fields = [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
    ]
    encoder = Encoder()
    encoder.header_table_size = 0
    # The change of size is of this encoder alone.
    return bytes(encoder.encode(fields)).lstrip(b"\x20")


class Raw:
    """A socket that speaks in frames."""

    def __init__(self, peer: Peer, hello: bytes = HELLO) -> None:
        self.sock = socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE)
        self.left = b""
        self.send(hello)

    def send(self, data: bytes) -> None:
        """What the server no longer wants is nobody's loss."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream, payload, until the server closes."""
        while True:
            while len(self.left) >= 9 and len(self.left) >= 9 + int.from_bytes(self.left[:3]):
                size = int.from_bytes(self.left[:3])
                found, self.left = self.left[: 9 + size], self.left[9 + size :]
                yield found[3], found[4], int.from_bytes(found[5:9]), found[9:]
            try:
                piece = self.sock.recv(65536)
            except ConnectionResetError:
                return
            if not piece:
                return
            self.left += piece

    def goaway(self) -> int | None:
        """The code of the GOAWAY with which the server ends the connection."""
        codes = [int.from_bytes(data[4:8]) for kind, _, _, data in self.frames() if kind == GOAWAY]
        self.sock.close()
        assert len(codes) <= 1
        return codes[0] if codes else None

    def until(self, kind: int, flags: int = 0) -> bytes:
        """The payload of the next frame of that kind with those flags."""
        for found, found_flags, _, payload in self.frames():
            assert found != GOAWAY, payload
            if found == kind and found_flags & flags == flags:
                return payload
        raise AssertionError("the server closed")


def serves(peer: Peer) -> None:
    session = H2Session("127.0.0.1", peer.port)
    assert session.request("GET", "/works", {}).read() == b"GET /works"
    session.close()


CALM = ErrorCodes.ENHANCE_YOUR_CALM


def test_a_rapid_reset_is_ended_after_a_hundred() -> None:
    """CVE-2023-44487: requests cancelled as fast as they are made. Their handlers are cancelled,
    the connection ends, and others are served."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        block, reset = head(), (8).to_bytes(4)
        for stream_id in range(1, 20_001, 2):
            raw.send(
                frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block)
                + frame(RST, 0, stream_id, reset)
            )
        assert raw.goaway() == CALM
        ended = [peer.next_end() for _ in peer.app.requests]
        assert set(ended) <= {"cancelled"}
        assert len(ended) <= 101
        serves(peer)

    run_client(script)


def test_cancelling_is_free_for_those_who_let_requests_end() -> None:
    """300 answers and 350 cancellations are no attack."""

    def script(peer: Peer) -> None:
        session = H2Session("127.0.0.1", peer.port)
        for number in range(350):
            if number % 7:
                assert session.request("GET", "/x", {}).read() == b"GET /x"
            session.cancel(session.start("GET", "/wait", {}, end=True))
        assert session.request("GET", "/x", {}).read() == b"GET /x"
        session.close()

    run_client(script)


def test_resets_that_the_server_is_made_to_send_count_too() -> None:
    """A window that overflows ends its stream: the server's RST_STREAM is the client's doing."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        block = head()
        overflow = (2**31 - 1).to_bytes(4)
        for stream_id in range(1, 2_001, 2):
            raw.send(
                frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block)
                + frame(WINDOW, 0, stream_id, overflow)
            )
        assert raw.goaway() == CALM
        serves(peer)

    run_client(script)


def test_streams_beyond_the_limit_are_refused_and_then_the_connection_is() -> None:
    """A thousand at once: at most a hundred handlers ever run."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        block = head()
        for stream_id in range(1, 2_001, 2):
            raw.send(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block))
        assert raw.goaway() == CALM
        assert len(peer.app.requests) <= 100
        serves(peer)

    run_client(script)


def test_eight_continuations_are_taken_and_nine_are_not() -> None:
    """A block of headers in many frames is bounded by their number, empty ones included."""

    def script(peer: Peer) -> None:
        block = head("/some/longer/path")
        for count, empty in ((8, False), (9, False), (9, True)):
            raw = Raw(peer)
            pieces = [b""] * count if empty else [bytes([byte]) for byte in block[1 : count + 1]]
            rest = block[1:] if empty else block[count + 1 :]
            raw.send(frame(HEADERS, END_STREAM, 1, block[:1]))
            pieces[-1] += rest
            for place, piece in enumerate(pieces):
                last = END_HEADERS if place == count - 1 else 0
                raw.send(frame(CONTINUATION, last, 1, piece))
            if count == 8:
                assert raw.until(DATA, END_STREAM) == b"GET /some/longer/path"
                raw.sock.close()
            else:
                assert raw.goaway() == CALM
        serves(peer)

    run_client(script)


def test_a_continuation_flood_is_not_kept() -> None:
    """CVE-2024-27316: full frames without an end."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        raw.send(frame(HEADERS, 0, 1, head("/x")))
        for _ in range(500):
            raw.send(frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\xff\x7e" + b"x" * 16_000))
        assert raw.goaway() == CALM
        serves(peer)

    run_client(script)


def test_a_compression_bomb_is_not_unpacked() -> None:
    """A few kilobytes that stand for tens of megabytes: a long entry of the dynamic table, named
    in one byte, over and over."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        entry = b"\x40\x01a\x7f" + bytes([0x80 | (3900 - 127) % 128, (3900 - 127) // 128])
        block = head("/x") + entry + b"x" * 3900 + b"\xbe" * 10_000
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
        assert raw.goaway() == CALM
        assert peer.app.requests == []
        serves(peer)

    run_client(script)


FLOODS = {
    "settings": frame(SETTINGS),
    "settings with values": frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff"),
    "pings": frame(PING, 0, 0, b"12345678"),
    "empty data": frame(DATA, 0, 1),
    "data of padding alone": frame(DATA, 0x8, 1, b"\x03\0\0\0"),
    "window updates": frame(WINDOW, 0, 0, b"\0\0\0\1"),
    "window updates of a stream": frame(WINDOW, 0, 1, b"\0\0\0\1"),
    "priorities": frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"),
    "unknown frames": frame(0xBB, 0, 0, b"what"),
    "farewells": frame(GOAWAY, 0, 0, bytes(8)),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_frames_is_ended(flood: bytes) -> None:
    """Frames that cost the client nothing and the server something, while a request waits; fifty
    of any kind are nobody's concern."""

    def script(peer: Peer) -> None:
        for count in (50, 20_000):
            raw = Raw(peer)
            raw.send(frame(HEADERS, END_HEADERS, 1, head("/stall", "POST")))
            raw.send(flood * count)
            if count == 50:
                raw.send(frame(PING, 0, 0, b"still on"))
                while raw.until(PING, ACK) != b"still on":
                    pass
                raw.sock.close()
            else:
                assert raw.goaway() == CALM
        serves(peer)

    run_client(script)


def test_a_client_that_takes_window_for_what_it_was_sent_is_not_flooding() -> None:
    """Eight updates for each frame of a long download."""

    def script(peer: Peer) -> None:
        session = H2Session("127.0.0.1", peer.port)
        answer = session.start("GET", "/endless", {}, end=True)
        seen = 0
        while seen < 10_000_000:
            before = len(answer.data)
            session.receive()
            frames = (len(answer.data) - before) // 16_384
            for _ in range(4 * frames):
                session.h2.increment_flow_control_window(1, answer.stream_id)
                session.h2.increment_flow_control_window(1)
            session.flush()
            seen += len(answer.data)
            answer.data.clear()
        session.close()

    run_client(script)


def test_our_memory_of_headers_is_ours_to_bound() -> None:
    """A client that allows a compression table of 4 GiB does not make the server fill it."""

    def script(peer: Peer) -> None:
        raw = Raw(peer, PREFACE + frame(SETTINGS, 0, 0, b"\x00\x01\xff\xff\xff\xff"))
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head("/x")))
        block = raw.until(HEADERS)
        # The last size that the server announces for its table, before any header.
        sizes = []
        while block[0] & 0xE0 == 0x20:
            size, place = block[0] & 0x1F, 1
            if size == 0x1F:
                shift = 0
                while True:
                    size += (block[place] & 0x7F) << shift
                    shift += 7
                    place += 1
                    if not block[place - 1] & 0x80:
                        break
            sizes.append(size)
            block = block[place:]
        assert not sizes or sizes[-1] <= 4096
        raw.sock.close()

    run_client(script)


def test_an_answer_ends_although_its_window_has_become_negative() -> None:
    """The client lowers its initial window behind what it was sent: the end needs no room."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head("/hold")))
        assert raw.until(DATA) == b"x" * 1000
        raw.send(frame(SETTINGS, 0, 0, b"\x00\x04\0\0\0\0") + frame(PING, 0, 0, b"is it so"))
        raw.until(PING, ACK)
        peer.go()
        assert raw.until(DATA, END_STREAM) == b""
        raw.sock.close()

    run_client(script)


@pytest.mark.parametrize(
    "sent",
    [
        PREFACE[:10],
        PREFACE,
        PREFACE + frame(SETTINGS)[:5],
        HELLO + frame(HEADERS, 0, 1, head("/x")),
        HELLO + frame(HEADERS, END_HEADERS, 1, head("/x"))[:-1],
        HELLO + frame(HEADERS, END_HEADERS, 1, head("/x"))[:9],
        HELLO + frame(HEADERS, END_HEADERS, 1, head("/x"))[:4],
    ],
    ids=["preface", "no settings", "settings", "unended", "cut", "no payload", "frame"],
)
def test_a_slow_head_is_closed_at_the_deadline(sent: bytes) -> None:
    """Whatever part of a preface or of headers has come."""

    def script(peer: Peer) -> None:
        begun = time.monotonic()
        raw = Raw(peer, sent)
        raw.goaway()
        assert time.monotonic() - begun >= 0.2
        serves(peer)

    run_client(script, limits=TimeLimits(header=0.3, keep_alive=2 * DEADLINE))


def test_a_trickled_head_does_not_extend_the_deadline() -> None:
    """It runs from the first byte of the headers, whatever comes after; an idle connection has no
    such deadline."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        raw.sock.settimeout(1.0)
        with pytest.raises(TimeoutError):
            for _ in raw.frames():
                pass
        block = frame(HEADERS, END_HEADERS | END_STREAM, 1, head("/x"))
        raw.sock.settimeout(0.05)
        kinds: list[int] = []
        for byte in block[:-1] * 1000:
            raw.send(bytes([byte]))
            try:
                kinds += [kind for kind, _, _, _ in raw.frames()]
                break
            except TimeoutError:
                continue
        assert GOAWAY in kinds
        raw.sock.close()
        assert peer.app.requests == []

    run_client(script, limits=TimeLimits(header=0.3, keep_alive=2 * DEADLINE))


WRONG = {
    "data on no stream": (frame(DATA, 0, 0, b"x"), 1),
    "data on an idle stream": (frame(DATA, 0, 5, b"x"), 1),
    "a request with an even number": (frame(HEADERS, 5, 2, head()), 1),
    "a request on no stream": (frame(HEADERS, 5, 0, head()), 1),
    "a frame that is too long": (frame(DATA, 0, 1, bytes(16_385)), 6),
    "a farewell that is too long": (frame(GOAWAY, 0, 0, bytes(16_385)), 6),
    "a short window update": (frame(WINDOW, 0, 0, b"x"), 6),
    "a window update of nothing": (frame(WINDOW, 0, 0, bytes(4)), 1),
    "a window that overflows": (frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff"), 3),
    "settings of a wrong length": (frame(SETTINGS, 0, 0, b"x"), 6),
    "an acknowledgement with values": (frame(SETTINGS, 1, 0, b"\0\4\0\0\0\1"), 6),
    "settings out of range": (frame(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"), 3),
    "settings on a stream": (frame(SETTINGS, 0, 1), 1),
    "a push": (frame(PUSH, END_HEADERS, 1, bytes(4) + head()), 1),
    "headers that do not unpack": (frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff"), 9),
    "headers of an unknown entry": (frame(HEADERS, 5, 1, b"\xfe"), 9),
    "a continuation of nothing": (frame(CONTINUATION, 4, 1, head()), 1),
    "another frame inside headers": (frame(HEADERS, 0, 1, head()) + frame(PING, 0, 0, bytes(8)), 1),
    "a short ping": (frame(PING, 0, 0, b"x"), 6),
    "a reset of an idle stream": (frame(RST, 0, 9, bytes(4)), 1),
    "padding beyond the frame": (frame(HEADERS, 5, 1, head()) + frame(DATA, 8, 1, b"\xff"), 1),
    "not HTTP/2 at all": (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", None),
}


@pytest.mark.parametrize(("sent", "code"), WRONG.values(), ids=WRONG)
def test_a_breach_of_the_protocol_ends_the_connection(sent: bytes, code: int | None) -> None:
    """With the code of RFC 9113, or that for any breach; nothing is logged as an error."""

    def script(peer: Peer) -> None:
        raw = Raw(peer)
        raw.send(sent)
        found = raw.goaway()
        assert found is not None
        if code is not None:
            assert found in (code, ErrorCodes.PROTOCOL_ERROR), ErrorCodes(found)
        serves(peer)

    run_client(script)


def test_random_frames_never_surprise_the_server() -> None:
    """Five hundred conversations of well-framed nonsense with a fixed seed: each is answered or
    ended, nothing escapes the adapter, and the server goes on."""

    def script(peer: Peer) -> None:
        rng = random.Random(9113)
        blocks = [head("/x"), head("/length", "POST"), head("/echo", "POST"), head("/endless")]
        for _ in range(500):
            sent = b""
            for _ in range(rng.randrange(1, 12)):
                kind = rng.choice([*range(10), 1, 1, 0, 0, 8, rng.randrange(256)])
                payload = rng.choice(
                    [
                        rng.choice(blocks),
                        rng.randbytes(rng.choice([0, 4, 5, 6, 8, 8, 30])),
                        rng.randrange(2**20).to_bytes(4),
                    ]
                )
                flags = rng.choice([0, 1, 4, 5, 5, 5, 8, 0x20, rng.randrange(256)])
                sent += frame(kind, flags, rng.choice([0, 1, 1, 1, 3, 5, 2, 2**31 - 1]), payload)
            cut = rng.choice([0, 0, 0, 1, 5])
            raw = Raw(peer, HELLO + sent[: len(sent) - cut])
            if not cut:
                raw.send(frame(PING, 0, 0, b"are you "))
                for kind, flags, _, _ in raw.frames():
                    if kind == GOAWAY or (kind == PING and flags & ACK):
                        break
            raw.sock.close()
        serves(peer)

    run_client(script)
