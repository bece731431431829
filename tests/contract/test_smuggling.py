"""Request smuggling: whatever could be read in two ways is refused, and what is accepted has one
meaning. Raw bytes over HTTP/1.1."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import Iterator

import pytest

from svc_cluster.http.http1_framing import CUTS_MAX
from svc_cluster.http.server import Server
from tests.contract.scripted_app import (
    DEADLINE,
    Peer,
    ScriptedApp,
    run_client,
    run_with_server,
)
from tests.contract.smuggling_vectors import (
    AFTER,
    Broken,
    Outcome,
    Refused,
    Taken,
    TakenAndClosed,
    TakenThenRefused,
    UpgradeDeclined,
    vectors,
)

VECTORS = vectors()
HEADERS_AFTER = [("host", "x"), ("connection", "close")]
"""Of the request behind each vector: nothing of another one's is among them."""


def test_there_are_enough_vectors() -> None:
    """The list does not shrink."""
    assert len(VECTORS) >= 300


Answer = tuple[int, dict[str, str], bytes]


def exchange(peer: Peer, sent: bytes, pieces: int) -> list[Answer]:
    """Every response until the server closes."""
    with socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE) as sock:
        size = -(-len(sent) // pieces)
        with contextlib.suppress(OSError):
            for place in range(0, len(sent), size):
                sock.sendall(sent[place : place + size])
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(65536):
                received += piece
    return list(parse(received))


def parse(received: bytes, *, cut: bool = False) -> Iterator[Answer]:
    """Status, headers and body of each response. Where it was `cut` the last may lack its end."""
    while received:
        head, end, received = received.partition(b"\r\n\r\n")
        if cut and not end:
            return
        assert end, "a response without an end"
        status_line, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers["content-length"])
        if cut and len(received) < size:
            return
        assert len(received) >= size
        yield int(status_line.split()[1]), headers, received[:size]
        received = received[size:]


def check(peer: Peer, sent: bytes, outcome: Outcome, pieces: int) -> None:
    peer.app.requests.clear()
    answers = exchange(peer, sent + AFTER, pieces)
    statuses = [status for status, _, _ in answers]
    paths = [request.raw_path for request in peer.app.requests]
    assert "/smuggled" not in paths
    match outcome:
        case Refused():
            assert (statuses, paths) == ([400], [])
        case Broken():
            # Whether a handler has seen the head depends on what has arrived with it.
            assert statuses in ([400], [431])
            assert len(paths) <= 1
        case Taken(size):
            assert (statuses, len(paths), paths[1:]) == ([200, 200], 2, ["/after"])
            if paths[0] == "/length":
                assert answers[0][2] == str(size).encode()
            assert peer.app.requests[1].headers == HEADERS_AFTER
        case TakenThenRefused():
            # When both arrive as one, neither is served.
            assert (statuses, len(paths)) in (([200, 400], 1), ([400], 0))
        case TakenAndClosed():
            assert (statuses, len(paths)) in (([200], 1), ([400], 0))
        case UpgradeDeclined():
            assert (statuses, len(paths)) == ([200], 1)
    for status, headers, body in answers:
        if status == 400:
            assert headers["content-type"] == "application/json"
            assert headers["connection"] == "close"
            assert headers["svc-side-effects"] == "none"
            assert json.loads(body)["code"] == "bad_header"


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "library"])
@pytest.mark.parametrize("part", range(16))
def test_every_vector_has_one_meaning(part: int, *, plain: bool) -> None:
    """In one piece, in two, and in many: the meaning does not depend on how the bytes arrive, nor
    on who serves plain requests."""

    def script(peer: Peer) -> None:
        wrong: list[str] = []
        for name, sent, outcome in VECTORS[part::16]:
            for pieces in (1, 2, 7):
                try:
                    check(peer, sent, outcome, pieces)
                except AssertionError as failure:
                    wrong.append(f"{name} in {pieces}: {outcome} {failure}")
        assert wrong == []

    run_client(script, plain=plain)


def after_the_first_answer(peer: Peer, first: bytes, rest: bytes) -> list[Answer]:
    """Every response, where `rest` is sent when the first response is there."""
    with socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE) as sock:
        sock.sendall(first)
        received = b""
        while b"\r\n\r\n" not in received:
            received += sock.recv(65536)
        with contextlib.suppress(OSError):
            sock.sendall(rest)
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(65536):
                received += piece
    return list(parse(received))


BEFORE = {
    "a head": b"GET /length HTTP/1.1\r\nhost: x\r\n\r\n",
    "a body": b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc",
    "chunks": b"POST /length HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n0\r\n\r\n",
    "chunks with empty lines": b"POST /length HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked"
    b"\r\n\r\n9\r\n\r\n\r\n\r\n\r\na\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
@pytest.mark.parametrize("line", [b"GET  /smuggled HTTP/1.1", b"GET /smuggled  HTTP/1.1"])
def test_a_line_whose_start_came_with_the_request_before_has_one_meaning(
    before: bytes, line: bytes
) -> None:
    """Wherever the line is cut in two; and written as it should be, it is served."""

    def script(peer: Peer) -> None:
        for place in range(len(line)):
            peer.app.requests.clear()
            answers = after_the_first_answer(
                peer, before + line[:place], line[place:] + b"\r\nhost: x\r\n\r\n" + AFTER
            )
            assert [status for status, _, _ in answers] == [200, 400], place
            assert [request.raw_path for request in peer.app.requests] == ["/length"], place
        good = b"GET /length HTTP/1.1"
        for place in range(len(good)):
            peer.app.requests.clear()
            answers = after_the_first_answer(
                peer, before + good[:place], good[place:] + b"\r\nhost: x\r\n\r\n" + AFTER
            )
            assert [status for status, _, _ in answers] == [200, 200, 200], place

    run_client(script)


def test_what_follows_a_body_cut_too_often_is_refused() -> None:
    """Where a body of chunks ends is looked for CUTS_MAX times in one piece; a request that came
    in the rest of it has a line that nobody has looked at."""
    carried = b"a\r\n\r\n" * (CUTS_MAX - 1)
    head = b"POST /length HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"

    def script(peer: Peer) -> None:
        for more, statuses in ((b"", [200, 200]), (b"a\r\n\r\n", [200, 400])):
            peer.app.requests.clear()
            body = carried + more
            chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            answers = after_the_first_answer(peer, BEFORE["a head"], head + chunks + AFTER)
            assert [status for status, _, _ in answers[1:]] == statuses
            paths = [request.raw_path for request in peer.app.requests]
            assert paths == ["/length", "/length", "/after"][: 1 + statuses.count(200)]

    run_client(script)


@pytest.mark.parametrize("behind", [b"", b"GET /smu"], ids=["nothing", "part of a head"])
def test_a_trailer_of_a_body_cut_too_often_is_nobodys_header(behind: bytes) -> None:
    """The connection ends with the answer: what comes next would be told the trailer as its own.
    Of two requests in the same piece as the body's end neither is served."""
    carried = b"a\r\n\r\n" * CUTS_MAX
    head = b"POST /length HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"%x\r\n%s\r\n0\r\nauthorization: Bearer x\r\n\r\n" % (len(carried), carried)

    def script(peer: Peer) -> None:
        answers = after_the_first_answer(peer, head + body + behind, AFTER)
        assert [status for status, _, _ in answers] == [200]
        assert [request.raw_path for request in peer.app.requests] == ["/length"]
        peer.app.requests.clear()
        two = b"GET /length HTTP/1.1\r\nhost: x\r\n\r\n" + AFTER
        answers = exchange(peer, BEFORE["a head"] + head + body + two, 1)
        assert [status for status, _, _ in answers] == [200, 200, 400]
        assert [request.raw_path for request in peer.app.requests] == ["/length", "/length"]

    run_client(script)


def test_random_bytes_get_an_answer_of_the_right_form_or_none() -> None:
    """A thousand damaged vectors with a fixed seed: bytes dropped, doubled, replaced or put in.
    Every answer is well-formed, every refusal JSON, and nothing is logged as an error."""

    def damaged(rng: random.Random) -> bytes:
        data = bytearray(rng.choice(VECTORS)[1][:3000] + AFTER)
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(data))
            what = rng.choice(
                [b"\r", b"\n", b"\0", b" ", b"\t", b":", b"0", b"\r\n", rng.randbytes(1)]
            )
            match rng.randrange(4):
                case 0:
                    del data[place]
                case 1:
                    data[place:place] = what
                case 2:
                    data[place : place + 1] = what
                case _:
                    data[place:place] = data[place : place + rng.randrange(20)]
        return bytes(data)

    async def one(port: int, sent: bytes) -> int:
        """Refusals among the answers. Silence is an answer too: what came is not yet a request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        received, cut = b"", False
        try:
            while piece := await asyncio.wait_for(reader.read(65536), 1.0):
                received += piece
        except (TimeoutError, ConnectionResetError):
            cut = True
        writer.transport.abort()
        refusals = 0
        for status, headers, body in parse(received, cut=cut):
            if status >= 400:
                refusals += 1
                assert headers["content-type"] == "application/json", sent
                assert json.loads(body)["code"], sent
        return refusals

    async def main(app: ScriptedApp, server: Server) -> None:
        rng = random.Random(9112)
        room = asyncio.Semaphore(100)

        async def bounded(sent: bytes) -> int:
            async with room:
                return await one(server.port, sent)

        refusals = await asyncio.gather(*[bounded(damaged(rng)) for _ in range(1000)])
        assert sum(refusals) > 500

    run_with_server(main)
