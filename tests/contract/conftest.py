"""One server for the whole suite, spoken to only over its socket.

`endpoint` is the base URL of a gateway; `slow_header_endpoint` is one with a short header deadline.
Nothing in the tests knows what is behind them. Every test that asks for `endpoint`, or for `client`
and what is made with it, runs over HTTP/1.1 and over HTTP/2 on the same port.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.cli.local import free_ports
from tests.contract.client import Client

HEADER_SECONDS_SHORT = 0.3


class Server:
    """A node and a gateway in a process of their own: the engine's clock is the process's, and a
    simulation in this one must not share it."""

    def __init__(self, directory: Path, header_seconds: float) -> None:
        self.port = free_ports(1)[0]
        self.log = directory / "server.log"
        self._seen = 0
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.contract.server"),
                    *(str(directory), str(self.port), str(header_seconds)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self.log.read_text()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0, self.log.read_text()[-4000:]

    def new_errors(self) -> list[str]:
        """Log lines of level error since the last call, and lines that are no log lines."""
        text = self.log.read_text()[self._seen :]
        self._seen += len(text)
        found = []
        for line in text.splitlines():
            try:
                if json.loads(line)["level"] == "error":
                    found.append(line)
            except (ValueError, KeyError, TypeError):
                found.append(line)
        return found


def _server(factory: pytest.TempPathFactory, header_seconds: float) -> Iterator[Server]:
    server = Server(factory.mktemp("contract"), header_seconds)
    _SERVERS.append(server)
    yield server
    _SERVERS.remove(server)
    server.stop()


_SERVERS: list[Server] = []


# One for each module: every test makes a basin, and a server with hundreds of groups is slow.
@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _server(tmp_path_factory, 10.0)


@pytest.fixture(scope="module")
def slow_header_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _server(tmp_path_factory, HEADER_SECONDS_SHORT)


@pytest.fixture(scope="module", params=["http", "h2c"])
def endpoint(server: Server, request: pytest.FixtureRequest) -> str:
    return f"{request.param}://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def slow_header_endpoint(slow_header_server: Server) -> str:
    return f"http://127.0.0.1:{slow_header_server.port}"


@pytest.fixture(autouse=True)
def no_error_log() -> Iterator[None]:
    """Nothing that a client does may make the server log an error."""
    yield
    for server in _SERVERS:
        assert server.new_errors() == []


_NUMBERS = itertools.count()


@pytest.fixture
def client(endpoint: str) -> Iterator[Client]:
    with Client(endpoint) as opened:
        yield opened


@pytest.fixture
def basin(client: Client) -> str:
    """A fresh basin without streams."""
    name = f"contract-{next(_NUMBERS):05d}"
    answer = client.post("/v1/basins", {"basin": name})
    assert answer.status == 201, answer
    return name


@pytest.fixture
def stream(client: Client, basin: str) -> str:
    """A fresh stream named `s` in `basin`."""
    answer = client.post("/v1/streams", {"stream": "s"}, {"svc-basin": basin})
    assert answer.status == 201, answer
    return "s"
