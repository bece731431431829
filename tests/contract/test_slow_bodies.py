"""Many bodies that come slowly: they hold a bounded part of memory, wait, and are refused in the
end; whoever sends at once is served meanwhile."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Iterator

import pytest

from svc_cluster.http.http2_library import CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES
from tests.contract.client import Client
from tests.contract.conftest import Server, new_basin, running
from tests.contract.h2_client import H2Response, H2Session

MIB_IN_FLIGHT = 16
HOLDERS = 4
"""Bodies of BODY_BYTES each, which is more than there is room for."""
CONNECTIONS = 300
CONNECTIONS_MAX = 400
BODY_BYTES = 8 * 1024 * 1024
SECONDS = 60.0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the smallest budget that there can be."""
    server = Server(
        tmp_path_factory.mktemp("small"),
        10.0,
        gateway={"body_mib_in_flight": MIB_IN_FLIGHT, "connections_max": CONNECTIONS_MAX},
    )
    with running(server):
        yield server


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the smallest budget, where a body waits as long as it takes and is not called
    slow: what is proved by it does not depend on who gets the processor."""
    server = Server(
        tmp_path_factory.mktemp("patient"),
        10.0,
        gateway={"body_mib_in_flight": MIB_IN_FLIGHT},
        patience={"wait_seconds": 10 * SECONDS, "slow_seconds": 10 * SECONDS},
    )
    with running(server):
        yield server


class Sender:
    """A connection that sends a large body as fast as it is let, up to `most` bytes."""

    def __init__(self, port: int, basin: str, most: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.sendall(
            f"POST /v1/streams/s/records HTTP/1.1\r\nhost: localhost\r\nsvc-basin: {basin}\r\n"
            f"content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n".encode()
        )
        self.sock.setblocking(False)
        self.left = most
        self.answer = b""
        self.is_over = False

    def go_on(self) -> None:
        if self.is_over:
            return
        readable, writable, _ = select.select([self.sock], [self.sock], [], 0)
        try:
            if writable and self.left:
                self.left -= self.sock.send(b" " * min(self.left, 16 * 1024))
            if readable:
                data = self.sock.recv(65536)
                self.answer += data
                self.is_over = not data
        except BlockingIOError:
            return
        except OSError:
            self.is_over = True

    @property
    def status(self) -> int:
        return int(self.answer[9:12]) if self.answer else 0


def gauge(client: Client, name: str) -> int:
    text = client.get("/metrics").body.decode()
    value = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert value is not None
    return int(float(value[1]))


def body_bytes(client: Client) -> int:
    """That are held."""
    return gauge(client, "svc_http_body_bytes_in_flight")


def test_slow_bodies_wait_and_are_refused_while_others_are_served(small: Server) -> None:
    """300 connections want to send 100 KiB each, twice what there is room for: what is held stays
    within the budget, appends are served throughout, and those refused are told that nothing
    happened."""
    with Client(f"http://127.0.0.1:{small.port}") as client:
        basin = new_basin(client)
        client.create_stream(basin, "s")
        senders = [Sender(small.port, basin, 100 * 1024) for _ in range(CONNECTIONS)]
        try:
            appended = most_held = 0
            deadline = time.monotonic() + SECONDS
            while not any(sender.status for sender in senders):
                assert time.monotonic() < deadline, "nobody was refused"
                for sender in senders:
                    sender.go_on()
                assert client.append(basin, "s", "x" * 1000).status == 200
                appended += 1
                most_held = max(most_held, body_bytes(client))
            # one piece of each may come on top
            assert most_held <= (MIB_IN_FLIGHT << 20) + CONNECTIONS * 32 * 1024
            refused = next(sender for sender in senders if sender.status)
            while b"\r\n\r\n" not in refused.answer and not refused.is_over:
                refused.go_on()
            assert refused.status == 502
            assert b"svc-side-effects: none" in refused.answer
        finally:
            for sender in senders:
                sender.sock.close()
        while body_bytes(client):
            assert time.monotonic() < deadline, "what they held is given back"
        assert client.tail(basin, "s") == appended


def start_large(session: H2Session, path: str, headers: dict[str, str], part: int) -> H2Response:
    """A request with as much of its body as may be sent now, up to `part` bytes of it."""
    assert session.request("GET", "/health", {}).status == 200
    response = session.start("POST", path, headers, end=False)
    while part and not response.status:
        assert session.request("GET", "/health", {}).status == 200  # it has said what it takes
        room = min(part, session.h2.local_flow_control_window(response.stream_id))
        if not room:
            break
        session.send(response, b" " * room, end=False)
        part -= room
    return response


def test_a_connection_of_http2_goes_on_behind_a_body_that_was_refused(small: Server) -> None:
    """120 connections send 150 KiB each of a large body and then nothing: what is held stays within
    the budget; those refused are told, and their connections carry other requests."""
    connections, part = 120, 150 * 1024
    with Client(f"http://127.0.0.1:{small.port}") as client:
        basin = new_basin(client)
        client.create_stream(basin, "s")
        sessions = [H2Session("127.0.0.1", small.port) for _ in range(connections)]
        headers = {
            "svc-basin": basin,
            "content-type": "application/json",
            "content-length": str(BODY_BYTES),
        }
        try:
            responses = []
            for session in sessions:
                path = "/v1/streams/s/records"
                responses.append(start_large(session, path, headers, part))
                assert body_bytes(client) <= (MIB_IN_FLIGHT << 20) + connections * 64 * 1024
                unread = gauge(client, "svc_http_unread_body_bytes")
                assert unread <= (2 << 20) + connections * CONNECTION_WINDOW_BYTES
            assert client.append(basin, "s", "x").status == 200
            refused = None
            deadline = time.monotonic() + SECONDS
            while refused is None:
                assert time.monotonic() < deadline, "nobody was refused"
                ready, _, _ = select.select([session.sock for session in sessions], [], [], 1.0)
                for session, response in zip(sessions, responses, strict=True):
                    if session.sock in ready:
                        session.receive()
                        if response.status:
                            refused = session, response
            session, response = refused
            assert response.status == 502
            assert response.headers["svc-side-effects"] == "none"
            assert session.request("GET", "/health", {}).status == 200
        finally:
            for session in sessions:
                session.close()
        while body_bytes(client):
            assert time.monotonic() < deadline, "what they held is given back"


def send_what_is_taken(session: H2Session, response: H2Response) -> None:
    """Of a body that has no end, as much as may be sent now."""
    assert session.request("GET", "/health", {}).status == 200  # it has said what it takes
    if room := session.h2.local_flow_control_window(response.stream_id):
        session.send(response, b" " * room, end=False)


def test_a_body_that_waits_for_room_holds_back_its_own_stream_alone(patient: Server) -> None:
    """One of a connection's streams waits, its window shut; twenty others are answered before it
    goes on, bodies and all. What was taken in of it is bounded by its window, and once there is
    room the rest is asked for."""
    size = 1024 * 1024
    content = b'{"records":[{"body":"eA=="}]}'.rjust(size)
    path = "/v1/streams/s/records"
    with Client(f"http://127.0.0.1:{patient.port}") as client:
        basin = new_basin(client)
        headers = {"svc-basin": basin, "content-type": "application/json"}
        client.create_stream(basin, "s")
        session = H2Session("127.0.0.1", patient.port)
        assert session.request("GET", "/health", {}).status == 200
        holders = [H2Session("127.0.0.1", patient.port) for _ in range(HOLDERS)]
        try:
            deadline = time.monotonic() + SECONDS
            announced = {**headers, "content-length": str(BODY_BYTES)}
            held = [each.start("POST", path, announced, end=False) for each in holders]
            # All of them: none has a turn that it could give up, so there is no room until they go.
            while gauge(client, "svc_http_bodies_waiting") < HOLDERS:
                assert time.monotonic() < deadline, "there is room for some of them"
                for holder, response in zip(holders, held, strict=True):
                    send_what_is_taken(holder, response)
            for holder in holders:
                assert holder.request("GET", "/health", {}).status == 200  # all has arrived
            unread = gauge(client, "svc_http_unread_body_bytes")
            large = {**headers, "content-length": str(size)}
            waiting = session.start("POST", path, large, end=False)
            session.send(waiting, content[:STREAM_WINDOW_BYTES], end=False)
            for _ in range(20):
                small_one = {**headers, "content-length": str(len(content.strip()))}
                answer = session.request("POST", path, small_one, content.strip())
                assert answer.status == 200
            assert waiting.status == 0
            assert session.h2.streams[waiting.stream_id].outbound_flow_control_window == 0
            assert session.h2.outbound_flow_control_window > 0
            assert gauge(client, "svc_http_unread_body_bytes") - unread == STREAM_WINDOW_BYTES
        finally:
            for holder in holders:
                holder.close()
        session.send(waiting, content[STREAM_WINDOW_BYTES:], end=True)
        session.pump(lambda: waiting.status)
        assert waiting.status == 200
        session.close()
        while body_bytes(client) or gauge(client, "svc_http_unread_body_bytes"):
            assert time.monotonic() < deadline, "what they held is given back"
        assert client.tail(basin, "s") == 21


def test_one_connection_too_many_is_closed_at_once(small: Server) -> None:
    """Those that are open go on, whatever they have sent; when they are closed others are taken."""

    def is_closed(sock: socket.socket) -> bool:
        try:
            return sock.recv(1) == b""
        except ConnectionResetError:
            return True

    with Client(f"http://127.0.0.1:{small.port}") as client:
        assert client.get("/health").status == 200
        opened = [
            socket.create_connection(("127.0.0.1", small.port), timeout=SECONDS)
            for _ in range(CONNECTIONS_MAX + 20)
        ]
        try:
            closed = 0
            while closed < 21:
                ready, _, _ = select.select(opened, [], [], SECONDS)
                assert ready, "none too many was closed"
                for sock in ready:
                    assert is_closed(sock)
                    opened.remove(sock)
                    sock.close()
                    closed += 1
            assert client.get("/health").status == 200
        finally:
            for sock in opened:
                sock.close()
        deadline = time.monotonic() + SECONDS
        while True:
            assert time.monotonic() < deadline, "there is room again"
            with socket.create_connection(("127.0.0.1", small.port), timeout=SECONDS) as sock:
                sock.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                try:
                    if sock.recv(12) == b"HTTP/1.1 200":
                        break
                except ConnectionResetError:
                    continue
