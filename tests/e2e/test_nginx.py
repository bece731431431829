"""Debian's nginx in front, with the configuration of `deploy/nginx`: events are not held back, both
directions of a session flow, names come through, and nothing can be smuggled past it."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.cli.local import free_ports
from tests.contract.client import Client, EventStream
from tests.contract.conftest import Server
from tests.contract.h2_client import H2Session
from tests.contract.scripted_app import DEADLINE, Peer, run_client
from tests.contract.smuggling_vectors import AFTER, vectors

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy/nginx/svc-cluster.conf"
BUILD = ROOT / "build/nginx"
FETCH_SECONDS = 240

MARK = "    proxy_set_header x-passed $request_id;"
MAIN = """
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/site.conf;
}}
"""


@functools.cache
def nginx() -> str:
    """Where it is, its package fetched where it is not installed."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is not None:
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("nginx is not installed and there is no apt-get to fetch its package by")
    command = [ROOT / "deploy/nginx/fetch.sh", BUILD]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"Debian's nginx package cannot be fetched: {done.stderr[-200:]}")
    return str(BUILD / "nginx")


class Proxy:
    """One nginx in the foreground; `port` speaks HTTP/1.1, `h2_port` HTTP/2."""

    def __init__(self, directory: Path, gateway_port: int) -> None:
        self.port, self.h2_port = free_ports(2)
        site = CONFIGURATION.read_text()
        for ours, theirs in (
            ("server 127.0.0.1:8080;", f"server 127.0.0.1:{gateway_port};"),
            ("listen 80;", f"listen 127.0.0.1:{self.port};"),
            ("listen 8081 http2;", f"listen 127.0.0.1:{self.h2_port} http2;"),
            # Marks what nginx takes for a request.
            ('proxy_set_header Connection "";', f'proxy_set_header Connection "";\n{MARK}'),
        ):
            assert site.count(f"    {ours}\n") == 1, ours
            site = site.replace(ours, theirs)
        directory.mkdir(exist_ok=True)
        (directory / "site.conf").write_text(site)
        (directory / "nginx.conf").write_text(MAIN.format(directory=directory))
        command = [nginx(), "-p", str(directory), "-c", str(directory / "nginx.conf")]
        self.log = directory / "output"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + DEADLINE
        while True:
            assert self._process.poll() is None, self.log.read_text()
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", self.h2_port)) == 0:
                    return
            assert time.monotonic() < end, "nginx does not listen"
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(DEADLINE)


@contextlib.contextmanager
def proxy(directory: Path, gateway_port: int) -> Iterator[Proxy]:
    running = Proxy(directory, gateway_port)
    try:
        yield running
    finally:
        running.stop()


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
