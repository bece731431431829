"""Sessions over a socket, in HTTP/1.1 and in HTTP/2: both directions at once, frame by frame."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.session_frame import Compression, FrameDecoder, SessionFrame, encode_frame
from tests.contract.h2_client import H2Session

SECONDS = 60.0
_PIECE = 65536


class _Exchange(Protocol):
    """One request whose body may go on while its answer comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def send(self, data: bytes) -> None: ...

    def half_close(self) -> None: ...

    def receive(self) -> bytes:
        """Empty at the end of the answer."""
        ...

    def close(self) -> None: ...


class _Http1:
    def __init__(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str]
    ) -> None:
        self.sock = socket.create_connection(address, timeout=SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._chunked = method == "POST"
        if self._chunked:
            lines.append("transfer-encoding: chunked")
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        self._response = http.client.HTTPResponse(self.sock, method=method)
        self._response.begin()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}

    def send(self, data: bytes) -> None:
        self.sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def half_close(self) -> None:
        self.sock.sendall(b"0\r\n\r\n")

    def receive(self) -> bytes:
        return self._response.read1(_PIECE)

    def close(self) -> None:
        self._response.close()
        self.sock.close()


class _Http2:
    def __init__(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str]
    ) -> None:
        self._session = H2Session(*address)
        self._response = self._session.start(method, path, headers, end=method != "POST")
        self._session.pump(lambda: bool(self._response.status))
        self.status = self._response.status
        self.headers = self._response.headers

    def send(self, data: bytes) -> None:
        self._session.send(self._response, data, end=False)

    def half_close(self) -> None:
        self._session.send(self._response, b"", end=True)

    def receive(self) -> bytes:
        response = self._response
        self._session.pump(lambda: bool(response.data) or response.ended)
        data = bytes(response.data)
        response.data.clear()
        return data

    def close(self) -> None:
        self._session.close()


class Session:
    """An append session (POST) or a read session (GET), its answer's head received."""

    def __init__(
        self, endpoint: str, method: str, basin: str, path: str, headers: dict[str, str]
    ) -> None:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        kind = headers.pop("content-type", "svcs/proto")
        family = "svc" if kind == "svcs/proto" else "s2"
        named = {f"{family}-basin": basin, "content-type": kind, **headers}
        place = (parts.hostname, parts.port or 80)
        self._exchange: _Exchange
        if parts.scheme == "h2c":
            self._exchange = _Http2(place, method, path, named)
        else:
            self._exchange = _Http1(place, method, path, named)
        self.status = self._exchange.status
        self.headers = self._exchange.headers
        self._decoder = FrameDecoder()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.close()

    def send(self, *frames: bytes) -> None:
        self._exchange.send(b"".join(frames))

    def half_close(self) -> None:
        self._exchange.half_close()

    def frame(self) -> SessionFrame | None:
        """The next one; None at the end of the answer."""
        while (frame := self._decoder.next_frame()) is None:
            data = self._exchange.receive()
            if not data:
                self._decoder.finish()
                return None
            self._decoder.feed(data)
        return frame

    def rest(self) -> list[SessionFrame]:
        found = []
        while (frame := self.frame()) is not None:
            found.append(frame)
        return found

    def text(self) -> bytes:
        """The body of a plain answer."""
        found = b""
        while data := self._exchange.receive():
            found += data
        return found

    def ack(self) -> tuple[int, int]:
        """The next frame as an acknowledgement: first sequence number, and the one behind."""
        frame = self.frame()
        assert frame is not None, "the session ended"
        return ack_of(frame)

    def batch(self) -> tuple[list[int], int | None]:
        """The next frame as a ReadBatch: sequence numbers, and its tail's where it has one."""
        frame = self.frame()
        assert frame is not None, "the session ended"
        return batch_of(frame)


def append_session(endpoint: str, basin: str, stream: str, **headers: str) -> Session:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Session(endpoint, "POST", basin, f"/v1/streams/{stream}/records", named)


def read_session(
    endpoint: str, basin: str, stream: str, query: str = "", **headers: str
) -> Session:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Session(endpoint, "GET", basin, f"/v1/streams/{stream}/records?{query}", named)


def append_input(*bodies: bytes, **conditions: Any) -> bytes:
    message = pb.AppendInput(**conditions)
    for body in bodies:
        message.records.add(body=body)
    return message.SerializeToString()


def input_frame(
    *bodies: bytes, compression: Compression = Compression.NONE, **conditions: Any
) -> bytes:
    return encode_frame(append_input(*bodies, **conditions), compression)


def ack_of(frame: SessionFrame) -> tuple[int, int]:
    assert not frame.is_terminal, frame
    ack = pb.AppendAck.FromString(frame.message())
    assert ack.tail.seq_num >= ack.end.seq_num
    return ack.start.seq_num, ack.end.seq_num


def batch_of(frame: SessionFrame) -> tuple[list[int], int | None]:
    assert not frame.is_terminal, frame
    batch = pb.ReadBatch.FromString(frame.message())
    tail = batch.tail.seq_num if batch.HasField("tail") else None
    return [record.seq_num for record in batch.records], tail
