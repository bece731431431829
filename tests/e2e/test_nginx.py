"""Debian's nginx in front, with the configuration of `deploy/nginx`: events are not held back, both
directions of a session flow, names come through, and nothing can be smuggled past it."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

from tests.contract.client import Client, EventStream
from tests.contract.conftest import Server
from tests.contract.h2_client import H2Session
from tests.contract.scripted_app import DEADLINE, Peer, run_client
from tests.contract.smuggling_vectors import AFTER, vectors
from tests.e2e.nginx_proxy import proxy


def test_requests_and_events_come_through(tmp_path: Path) -> None:
    """Over both protocols: an append, a read, a name with a slash, and a follower that is told
    at once, first that it has reached the tail and then of a record appended meanwhile. Without
    its gateway, nginx answers in JSON too."""
    server = Server(tmp_path, 10.0)
    try:
        with proxy(tmp_path / "nginx", server.port) as front:
            for number, url in enumerate(
                (f"http://127.0.0.1:{front.port}", f"h2c://127.0.0.1:{front.h2_port}")
            ):
                basin = f"behind-nginx-{number}"
                with Client(url) as client:
                    assert client.post("/v1/basins", {"basin": basin}).status == 201
                    named = client.post("/v1/streams", {"stream": "a/b c"}, {"svc-basin": basin})
                    assert named.status == 201
                    assert client.append(basin, "a%2Fb%20c", b"first").status == 200
                    path = "/v1/streams/a%2Fb%20c/records"
                    with EventStream(url, basin, path) as events:
                        assert next(iter(events)).name == "batch"
                        assert next(iter(events)).name == "ping"
                        assert client.append(basin, "a%2Fb%20c", b"second").status == 200
                        assert events.next("batch").json["records"][0]["seq_num"] == 1
                    assert client.tail(basin, "a%2Fb%20c") == 2
                    refused = client.post("/v1/basins", b"x" * 9_000_000)
                    assert (refused.status, refused.json["code"]) == (413, "payload_too_large")
            server.stop()
            with Client(f"http://127.0.0.1:{front.port}") as client:
                alone = client.get("/v1/basins")
                assert (alone.status, alone.json["code"]) == (503, "unavailable")
    finally:
        if server.running:
            server.stop()


def test_nothing_that_is_logged_has_a_ticket(tmp_path: Path) -> None:
    """The path is logged, the query is not: of what is answered, of what is malformed, and of what
    no gateway answers."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", 10.0)
    ticket = "svcr_planted-in-the-query"
    try:
        with proxy(tmp_path / "nginx", server.port) as front:
            url = f"http://127.0.0.1:{front.port}"
            path = f"/v1/basins/nowhere-1/streams/s/read?ticket={ticket}&wait=1"
            with Client(url) as client:
                assert client.get(path).status == 404
            with socket.create_connection(("127.0.0.1", front.port), timeout=DEADLINE) as sock:
                sock.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n".encode())
                assert b" 400 " in sock.recv(1 << 16)
            server.stop()
            with Client(url) as client:
                assert client.get(path).status == 503
        written = {each.name: each.read_text() for each in (tmp_path / "nginx").glob("*.log")}
        written["output"] = front.log.read_text()
        lines = written["site.log"].splitlines()
        assert [line.split('"')[1] for line in lines].count(
            "GET /v1/basins/nowhere-1/streams/s/read HTTP/1.1"
        ) == 3
        assert not [name for name, text in written.items() if ticket in text or "wait=1" in text]
    finally:
        if server.running:
            server.stop()


def test_both_directions_of_a_session_flow(tmp_path: Path) -> None:
    """The answer's head comes before the body, and each piece is echoed before the next is sent,
    over both protocols."""

    def script(peer: Peer) -> None:
        with proxy(tmp_path / "nginx", peer.port) as front:
            with socket.create_connection(("127.0.0.1", front.port), timeout=DEADLINE) as sock:
                sock.sendall(
                    b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                answer = sock.makefile("rb")
                while answer.readline() != b"\r\n":
                    pass
                for number in range(20):
                    piece = b"piece %02d" % number
                    sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                    assert int(answer.readline(), 16) == len(piece)
                    assert answer.readline() == piece + b"\r\n"
                sock.sendall(b"0\r\n\r\n")
                assert answer.read(len(b"3\r\nend\r\n0\r\n\r\n")) == b"3\r\nend\r\n0\r\n\r\n"
                answer.close()
            session = H2Session("127.0.0.1", front.h2_port)
            echo = session.start("POST", "/echo", {}, end=False)
            session.pump(lambda: bool(echo.status))
            for number in range(20):
                piece = b"piece %02d" % number
                session.send(echo, piece, end=False)
                session.pump(lambda: len(echo.data) >= 8)
                assert echo.data == piece
                echo.data.clear()
            session.send(echo, b"", end=True)
            assert echo.read() == b"end"
            session.close()

    run_client(script)


def test_nothing_is_smuggled_past_nginx(tmp_path: Path) -> None:
    """Every vector of the contract suite through nginx: what the gateway takes for a request is
    what nginx took for one and marked (it is laxer in what it takes), and each has its answer;
    refusals are JSON."""

    def script(peer: Peer) -> None:
        with proxy(tmp_path / "nginx", peer.port) as front:
            marks: set[str] = set()
            for name, sent, _ in vectors():
                peer.app.requests.clear()
                answers = _exchange(front.port, sent + AFTER)
                for request in peer.app.requests:
                    (mark,) = [value for key, value in request.headers if key == "x-passed"]
                    assert mark not in marks, name
                    marks.add(mark)
                assert len(peer.app.requests) <= len(answers), name
                for head, body in answers:
                    if head.startswith(b"HTTP/1.1 400"):
                        assert json.loads(body)["code"] == "bad_header", name

    run_client(script)


def _exchange(port: int, sent: bytes) -> list[tuple[bytes, bytes]]:
    """Heads and bodies of the answers until the connection ends or is silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=1.0) as sock:
        received = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            sock.sendall(sent)
            while piece := sock.recv(65536):
                received += piece
    found = []
    while received.startswith(b"HTTP/1.1 "):
        head, _, received = received.partition(b"\r\n\r\n")
        size = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        found.append((head, received[:size]))
        received = received[size:]
    return found
