"""A small blocking HTTP/2 client: prior knowledge, cleartext, names and values exactly as given."""

from __future__ import annotations

import socket

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes

SECONDS = 60.0


class H2Headers(dict[str, str]):
    """By lower-case name; None for what is absent, as http.client's are."""

    def __missing__(self, name: str) -> str | None:
        return None


class H2Response:
    """One response as it arrives."""

    def __init__(self, session: H2Session, stream_id: int) -> None:
        self._session = session
        self.stream_id = stream_id
        self.status = 0
        self.headers = H2Headers()
        self.data = bytearray()
        self.ended = False
        self.reset: ErrorCodes | int | None = None

    def read(self) -> bytes:
        self._session.pump(lambda: self.ended)
        data = bytes(self.data)
        self.data.clear()
        return data

    def readline(self) -> bytes:
        """Empty at the end."""
        self._session.pump(lambda: self.ended or b"\n" in self.data)
        end = self.data.find(b"\n") + 1 or len(self.data)
        line = bytes(self.data[:end])
        del self.data[:end]
        return line

    def close(self) -> None:
        self._session.cancel(self)


class H2Session:
    """One connection."""

    def __init__(
        self, host: str, port: int, *, window: int = 1 << 20, sock: socket.socket | None = None
    ) -> None:
        """`sock`: an open connection, for instance over TLS."""
        self.authority = f"{host}:{port}"
        self.sock = sock or socket.create_connection((host, port), timeout=SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.h2 = H2Connection(
            H2Configuration(
                client_side=True,
                header_encoding="latin-1",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.h2.initiate_connection()
        self.h2.update_settings(
            {SettingCodes.INITIAL_WINDOW_SIZE: window, SettingCodes.ENABLE_PUSH: 0}
        )
        self.goaway: ConnectionTerminated | None = None
        self.closed = False
        self.responses: dict[int, H2Response] = {}
        self.flush()

    def request(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | list[tuple[str, str]],
        body: bytes | None = None,
        *,
        end: bool = True,
    ) -> H2Response:
        """Send a request; the response's head has come when this returns, unless the body goes
        on (`end` false)."""
        response = self.start(method, path, headers, end=end and body is None)
        if body is not None:
            self.send(response, body, end=end)
        if end:
            self.pump(lambda: bool(response.status))
        return response

    def start(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | list[tuple[str, str]],
        *,
        end: bool,
    ) -> H2Response:
        stream_id = self.h2.get_next_available_stream_id()
        response = self.responses[stream_id] = H2Response(self, stream_id)
        given = headers.items() if isinstance(headers, dict) else headers
        fields = [
            (":method", method),
            (":scheme", "http"),
            (":authority", self.authority),
            (":path", path),
            *((name.lower(), value.strip(" \t")) for name, value in given),
        ]
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in fields]
        self.h2.send_headers(stream_id, encoded, end_stream=end)
        self.flush()
        return response

    def send(self, response: H2Response, data: bytes, *, end: bool) -> None:
        """As the server's windows allow; gives up when the answer is complete before the body."""
        stream_id = response.stream_id
        sent = 0
        while sent < len(data):
            if response.ended or response.reset is not None:
                return
            room = min(
                self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size
            )
            if room == 0:
                self.receive()
                continue
            piece = data[sent : sent + room]
            sent += len(piece)
            self.h2.send_data(stream_id, piece, end_stream=end and sent == len(data))
            self.flush()
        if end and not data:
            self.h2.end_stream(stream_id)
            self.flush()

    def cancel(self, response: H2Response) -> None:
        if not response.ended and response.reset is None and not self.closed:
            response.reset = ErrorCodes.CANCEL
            self.h2.reset_stream(response.stream_id, ErrorCodes.CANCEL)
            self.flush()

    def pump(self, done: object) -> None:
        """Receive until `done()`."""
        assert callable(done)
        while not done():
            assert not self.closed, self.goaway
            self.receive()

    def receive(self) -> None:
        """Wait for bytes and take the events in them."""
        data = self.sock.recv(65536)
        if not data:
            self.closed = True
            return
        for event in self.h2.receive_data(data):
            self._take(event)
        self.flush()

    def _take(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self.goaway = event
            return
        response = self.responses.get(getattr(event, "stream_id", None) or 0)
        if response is None:
            return
        if isinstance(event, ResponseReceived):
            fields = [(str(name), str(value)) for name, value in event.headers or []]
            response.headers = H2Headers(fields)
            response.status = int(response.headers.pop(":status"))
        elif isinstance(event, DataReceived):
            response.data += event.data or b""
            self.h2.acknowledge_received_data(event.flow_controlled_length or 0, response.stream_id)
        elif isinstance(event, StreamEnded):
            response.ended = True
        elif isinstance(event, StreamReset):
            response.reset = event.error_code
            if response.ended:
                return
            raise ConnectionResetError(f"stream reset: {event.error_code}")

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.sock.sendall(data)

    def close(self) -> None:
        self.closed = True
        self.sock.close()
