"""Open sessions and followers are bounded over both protocols, and a connection that is kept gives
back what its last answer took."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest

from tests.contract.client import Client
from tests.contract.conftest import Server, running
from tests.contract.session_client import Session

MAX = 16
SECONDS = 30.0
FREE_SECONDS_MAX = 8.0
"""Until what an answer held is free once it has ended."""

BASIN = "open-streams-1"
RECORDS = "/v1/streams/s/records"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets in the fewest streams that may be set."""
    server = Server(tmp_path_factory.mktemp("small"), 10.0, gateway={"streams_open_max": MAX})
    with running(server):
        with Client(f"http://127.0.0.1:{server.port}") as client:
            assert client.post("/v1/basins", {"basin": BASIN}).status == 201
            client.create_stream(BASIN, "s")
            assert client.append(BASIN, "s", "x" * 100_000).status == 200
        yield server


def gauge(client: Client, name: str) -> int:
    text = client.get("/metrics").body.decode()
    value = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return 0 if value is None else int(float(value[1]))


def until_open(client: Client, count: int) -> None:
    """Return once so many streams are open."""
    deadline = time.monotonic() + SECONDS
    while (found := gauge(client, "svc_http_streams_open")) != count:
        assert time.monotonic() < deadline, f"{found} are open"


@pytest.mark.parametrize("scheme", ["http", "h2c"])
def test_one_stream_more_is_refused_until_one_ends(small: Server, scheme: str) -> None:
    """Half of them append, half of them read; what is open is served meanwhile."""
    endpoint = f"{scheme}://127.0.0.1:{small.port}"
    with Client(endpoint) as client:
        until_open(client, 0)
        appending = [Session(endpoint, "POST", BASIN, RECORDS, {}) for _ in range(MAX // 2)]
        tail = f"{RECORDS}?tail_offset=0&clamp=true"
        reading = [Session(endpoint, "GET", BASIN, tail, {}) for _ in range(MAX // 2)]
        assert [each.status for each in appending + reading] == [200] * MAX
        with Session(endpoint, "GET", BASIN, tail, {}) as refused:
            assert refused.status == 503
            assert int(refused.headers["retry-after-ms"]) > 0
        with Session(endpoint, "POST", BASIN, RECORDS, {}) as refused:
            assert refused.status == 503
            assert refused.headers["svc-side-effects"] == "none"
        shed = gauge(client, 'svc_http_requests_shed_total{reason="streams"}')
        assert shed >= 2
        assert client.append(BASIN, "s", "y").status == 200
        appending.pop().__exit__()
        until_open(client, MAX - 1)
        appending.append(Session(endpoint, "POST", BASIN, RECORDS, {}))
        assert appending[-1].status == 200
        for each in appending + reading:
            each.__exit__()
        until_open(client, 0)


@pytest.mark.parametrize("more", ["", "te: trailers\r\n"], ids=["plain", "library"])
def test_a_connection_that_is_kept_keeps_nothing_of_its_answer(small: Server, more: str) -> None:
    """A follower that has had what it wanted, and a read: their connections stay open and idle, and
    what they held is free. So it is where the library serves what is of no plain shape."""
    with Client(f"http://127.0.0.1:{small.port}") as client:
        until_open(client, 0)
        for accept in ("text/event-stream", "application/json"):
            with socket.create_connection(("127.0.0.1", small.port), timeout=SECONDS) as sock:
                sock.sendall(
                    f"GET {RECORDS}?seq_num=0&count=1 HTTP/1.1\r\nhost: localhost\r\n"
                    f"svc-basin: {BASIN}\r\naccept: {accept}\r\n{more}\r\n".encode()
                )
                said = b""
                ends = b"[DONE]" if accept.startswith("text") else b"}}"
                while ends not in said[-40:]:
                    said += sock.recv(1 << 18)
                assert said.startswith(b"HTTP/1.1 200") and len(said) > 100_000
                until_open(client, 0)
                deadline = time.monotonic() + FREE_SECONDS_MAX
                while gauge(client, 'svc_memory_held_bytes{part="answers"}'):
                    assert time.monotonic() < deadline, "the answer is kept"
