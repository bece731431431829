"""Servers for the suite, spoken to only over their sockets.

`endpoint` is the base URL of a gateway; `slow_header_endpoint` is one with a short header deadline.
Nothing in the tests knows what is behind them. Every test that asks for `endpoint`, or for `client`
and what is made with it, runs over HTTP/1.1 and over HTTP/2 on the same port.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.cli.local.ports import HeldPorts
from tests.contract.access import ROOT_SECRET, Account
from tests.contract.client import Client
from tests.log_lines import whole_lines

HEADER_SECONDS_SHORT = 0.3
PLAIN_REQUESTS = os.environ.get("SVC_CLUSTER_PLAIN_REQUESTS") != "false"
"""Whether plain requests are served without the HTTP library; with `false` in the environment it
serves them in the whole suite, and both have to pass it."""


ALSO_BY_LIBRARY = pytest.mark.parametrize(
    "endpoint", ["http", "h2c", "library"], indirect=True, scope="module"
)
"""The mark of a module whose tests run once more where the HTTP library serves all of HTTP/1.1."""


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
            json.dumps({"plain_requests": PLAIN_REQUESTS, **(gateway or {})}),
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
        lines = whole_lines(self.log)[self._seen :]
        self._seen += len(lines)
        found = []
        for line in lines:
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


BASINS_SHARED_MAX = 24
"""A server that has as many basins is given to no further module: each is a Raft group of its own,
and as many cost as much processor time in half a minute as a server's start."""


class Shared:
    """The server that modules of this process take in turn, until it has many basins.

    No module gets one that it has had before, so that the names it gives to what it makes are free:
    a module comes again where another process leaves the rest of its tests to this one.
    """

    def __init__(
        self, new_directory: Callable[[str], Path], basins_max: int = BASINS_SHARED_MAX
    ) -> None:
        """`new_directory` makes one with this beginning of a name."""
        self._new_directory = new_directory
        self._basins_max = basins_max
        self._running = ExitStack()
        self._server: Server | None = None
        self._taken_by: set[str] = set()

    def taken(self, module: str) -> Server:
        """The server, for this module."""
        if self._server is None or module in self._taken_by or self._is_full(self._server):
            self.end()
            made = Server(self._new_directory("contract"), 10.0)
            self._server = self._running.enter_context(running(made))
        self._taken_by.add(module)
        return self._server

    def end(self) -> None:
        self._server = None
        self._taken_by.clear()
        self._running.close()

    def _is_full(self, server: Server) -> bool:
        with Client(f"http://127.0.0.1:{server.port}") as client:
            page = client.get(f"/v1/basins?limit={self._basins_max}").json
        return len(page["basins"]) == self._basins_max


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """It ends with this suite: idle, it would go on to take a twentieth of a core beside others."""
    made = Shared(tmp_path_factory.mktemp)
    yield made
    made.end()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Server(tmp_path_factory.mktemp("contract"), 10.0)) as made:
        yield made


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Server:
    """The one that modules share; its own for one that says `OWN_SERVER = True`, because its tests
    look at what all basins of a server, or all requests to it, have in common."""
    if getattr(request.module, "OWN_SERVER", False):
        own: Server = request.getfixturevalue("own_server")
        return own
    every: Shared = request.getfixturevalue("shared")
    return every.taken(request.module.__name__)


@pytest.fixture(scope="module")
def slow_header_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Server(tmp_path_factory.mktemp("contract"), HEADER_SECONDS_SHORT)) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """A server that asks for access tokens. It is the module's own: how often an address may fail
    to show one is counted for the server."""
    made = Server(tmp_path_factory.mktemp("contract"), 10.0, ROOT_SECRET)
    with running(made), Account(f"http://127.0.0.1:{made.port}", made.directory) as account:
        yield account


@pytest.fixture(scope="module")
def library_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its gateway leaves every request over HTTP/1.1 to the HTTP library."""
    made = Server(tmp_path_factory.mktemp("contract"), 10.0, gateway={"plain_requests": False})
    with running(made):
        yield made


@pytest.fixture(scope="module", params=["http", "h2c"])
def endpoint(request: pytest.FixtureRequest) -> str:
    """Over one of the two protocols, or, as `library`, over HTTP/1.1 without plain requests."""
    way = request.param
    of = "library_server" if way == "library" else "server"
    server: Server = request.getfixturevalue(of)
    return f"{'http' if way == 'library' else way}://127.0.0.1:{server.port}"


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
