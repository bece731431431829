"""What the shipped nginx sends to a second gateway when the first one ends without an answer, and
what `front` of docker-compose.yml makes of its configuration."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.cli.local.ports import HeldPorts
from tests.contract.client import Client
from tests.contract.scripted_app import DEADLINE
from tests.e2e.nginx_proxy import CONFIGURATION, ROOT, nginx, proxy

HEAD_MAX = 65_536
ROUNDS = 6
"""Requests of a kind: more than there are gateways, so that each of them is the first at times."""


class DyingGateway:
    """Reads each request to its end and closes the connection; or answers 204 with `answers`."""

    def __init__(self, *, answers: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answers = answers
        self.port: int = self._listener.getsockname()[1]
        self.heads: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(DEADLINE)
                received = b""
                while b"\r\n\r\n" not in received and len(received) < HEAD_MAX:
                    piece = connection.recv(HEAD_MAX)
                    if not piece:
                        break
                    received += piece
                if not received:
                    return
                head, _, body = received.partition(b"\r\n\r\n")
                size = re.search(rb"content-length: *([0-9]+)", head.lower())
                while size is not None and len(body) < int(size[1]):
                    piece = connection.recv(HEAD_MAX)
                    assert piece, "the body ended early"
                    body += piece
                self.heads.append(head.decode("latin-1"))
                if self._answers:
                    answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
                    connection.sendall(answer)

    def stop(self) -> None:
        """A connection without a request ends it."""
        socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE).close()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        self._listener.close()


@contextlib.contextmanager
def gateway(*, answers: bool = False) -> Iterator[DyingGateway]:
    running = DyingGateway(answers=answers)
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize("scheme", ["http", "h2c"])
@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST", "PATCH", "PROPFIND"])
@pytest.mark.parametrize("body", [b"", b"{}"])
def test_what_may_have_taken_effect_reaches_one_gateway(
    tmp_path: Path, scheme: str, method: str, body: bytes
) -> None:
    """Whether it has a body or not, over both protocols: each request is read by one of two
    gateways that die of it, with the method and path that it was sent with; the client is told that
    nobody knows whether it took effect; and the next one is sent to a gateway again."""
    with gateway() as one, gateway() as other, proxy(tmp_path, one.port, other.port) as front:
        port = front.h2_port if scheme == "h2c" else front.port
        with Client(f"{scheme}://127.0.0.1:{port}") as client:
            for number in range(ROUNDS):
                answer = client.request(method, f"/v1/a%2Fb/{number}?c=%20", body)
                assert (answer.status, answer.json["code"]) == (503, "unavailable")
                assert answer.json["may_have_taken_effect"] is True
                assert answer.headers["svc-side-effects"] == "possible"
        heads = one.heads + other.heads
        assert Counter(head.splitlines()[0] for head in heads) == {
            f"{method} /v1/a%2Fb/{number}?c=%20 HTTP/1.1": 1 for number in range(ROUNDS)
        }
        assert not [head for head in heads if "svc-cluster-method" in head.lower()]


def test_reads_are_tried_at_the_other_gateway(tmp_path: Path) -> None:
    with gateway() as one, gateway() as other, proxy(tmp_path, one.port, other.port) as front:
        with Client(f"http://127.0.0.1:{front.port}") as client:
            for number in range(ROUNDS):
                assert client.request("GET", f"/v1/{number}").status == 503
        wanted = [f"GET /v1/{number} HTTP/1.1" for number in range(ROUNDS)]
        assert [head.splitlines()[0] for head in one.heads] == wanted
        assert [head.splitlines()[0] for head in other.heads] == wanted


@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST", "GET"])
def test_a_gateway_that_refuses_connections_costs_no_request(tmp_path: Path, method: str) -> None:
    """As one does that is being restarted: nothing was sent, so the other one gets it, once."""
    held = HeldPorts(1)
    (nobody,) = held.numbers
    with gateway(answers=True) as alive, proxy(tmp_path, nobody, alive.port) as front:
        with Client(f"http://127.0.0.1:{front.port}") as client:
            for number in range(ROUNDS):
                assert client.request(method, f"/v1/{number}").status == 204
        wanted = [f"{method} /v1/{number} HTTP/1.1" for number in range(ROUNDS)]
        assert [head.splitlines()[0] for head in alive.heads] == wanted


def test_no_header_of_a_client_changes_its_method(tmp_path: Path) -> None:
    with gateway(answers=True) as alive, proxy(tmp_path, alive.port) as front:
        with Client(f"http://127.0.0.1:{front.port}") as client:
            for method in ("POST", "GET", "PUT"):
                headers = {"svc-cluster-method": "DELETE"}
                assert client.request(method, "/v1/x", b"", headers).status == 204
        assert [head.split()[0] for head in alive.heads] == ["POST", "GET", "PUT"]
        assert not [head for head in alive.heads if "svc-cluster-method" in head.lower()]


def test_front_of_compose_can_start(tmp_path: Path) -> None:
    """Its configuration as the image has it: nginx takes it, gateways are found by name, and what
    it opens is neither a file of a directory that the image lacks nor a port that needs root."""
    script = ROOT / "deploy/nginx/front.sed"
    done = subprocess.run(
        ["sed", "-f", script, CONFIGURATION], capture_output=True, text=True, check=True
    )
    site = done.stdout
    opened = re.findall(r"(?:access_log|error_log) +([^ ;]+)", site)
    assert sorted(opened) == ["/dev/null", "/dev/stdout"]
    assert re.findall(r"^    listen ([^;]+);", site, re.MULTILINE) == [
        "8080",
        "8081 http2",
        "127.0.0.1:8082",
    ]
    assert '" gateway:8080;' in site
    assert "upstream svc_cluster" not in site
    main = (ROOT / "deploy/nginx/nginx.conf").read_text()
    written = re.findall(r"/[a-z]+/[^ ;]*", main)
    assert {path.split("/")[1] for path in written} == {"tmp", "etc"}
    (tmp_path / "site.conf").write_text(site)
    here = main.replace(" /tmp/", f" {tmp_path}/")
    assert here.count("/etc/svc-cluster/svc-cluster.conf") == 1
    here = here.replace("/etc/svc-cluster/svc-cluster.conf", f"{tmp_path}/site.conf")
    (tmp_path / "nginx.conf").write_text(here)
    command = [nginx(), "-e", "stderr", "-t", "-c", str(tmp_path / "nginx.conf")]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert tried.returncode == 0, tried.stderr
    assert "test is successful" in tried.stderr
