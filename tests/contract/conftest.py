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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.cli.local.ports import HeldPorts
from tests.contract.access import ROOT_SECRET, Account
from tests.contract.client import Client

HEADER_SECONDS_SHORT = 0.3


class Server:
    """A node and a gateway in a process of their own: the engine's clock is the process's, and a
    simulation in this one must not share it."""

    def __init__(
        self,
        directory: Path,
        header_seconds: float,
        root_secret: str = "",
        node: dict[str, Any] | None = None,
        gateway: dict[str, Any] | None = None,
        patience: dict[str, float] | None = None,
    ) -> None:
        """With `root_secret` requests need an access token, and this is the root's. `node`,
        `gateway` and `patience` (with bodies): what they have that is not usual."""
        root_token = ""
        if root_secret:
            root_token = str(directory / "root-token")
            Path(root_token).write_text(root_secret)
        self._more = [
            str(header_seconds),
            root_token,
            json.dumps({"basins_max": 10_000, **(node or {})}),
            json.dumps(gateway or {}),
            json.dumps(patience or {}),
        ]
        self._held = HeldPorts(1)
        self.port = self._held.numbers[0]
        self.directory = directory
        self.log = directory / "server.log"
        self._seen = 0
        self._process: subprocess.Popen[bytes]
        self._start()

    def restart(self) -> None:
        """With what it has on its disk, on the same port."""
        self.stop()
        self._start()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.contract.server"),
                    *(str(self.directory), str(self.port), *self._more),
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


_SERVERS: list[Server] = []


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Until it is stopped; its log is looked at after each test meanwhile."""
    _SERVERS.append(server)
    try:
        yield server
    finally:
        _SERVERS.remove(server)
        server.stop()


# One for each module: every test makes a basin, and a server with hundreds of groups is slow.
@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Server(tmp_path_factory.mktemp("contract"), 10.0)) as made:
        yield made


@pytest.fixture(scope="module")
def slow_header_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Server(tmp_path_factory.mktemp("contract"), HEADER_SECONDS_SHORT)) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """A server that asks for access tokens."""
    made = Server(tmp_path_factory.mktemp("contract"), 10.0, ROOT_SECRET)
    with running(made), Account(f"http://127.0.0.1:{made.port}", made.directory) as account:
        yield account


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


def new_basin(client: Client) -> str:
    name = f"contract-{next(_NUMBERS):05d}"
    answer = client.post("/v1/basins", {"basin": name})
    assert answer.status == 201, answer
    return name


@pytest.fixture(scope="module")
def shared_basin(endpoint: str) -> str:
    """A basin is a Raft group of its own, and costs several times what a stream does."""
    with Client(endpoint) as opened:
        return new_basin(opened)


def _shares_a_basin(request: pytest.FixtureRequest) -> bool:
    """Whether the module says `SHARES_A_BASIN = True`: its tests look at nothing but their own
    streams."""
    return bool(getattr(request.module, "SHARES_A_BASIN", False))


@pytest.fixture
def basin(request: pytest.FixtureRequest, client: Client) -> str:
    """A fresh basin without streams, or the module's."""
    if _shares_a_basin(request):
        shared: str = request.getfixturevalue("shared_basin")
        return shared
    return new_basin(client)


@pytest.fixture
def stream(request: pytest.FixtureRequest, client: Client, basin: str) -> str:
    """A fresh stream in `basin`, named `s` where the basin is not shared."""
    name = f"s-{next(_NUMBERS)}" if _shares_a_basin(request) else "s"
    return client.create_stream(basin, name)
