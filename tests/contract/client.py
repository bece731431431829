"""A small HTTP client that hides nothing: paths and headers go out exactly as given.

An endpoint `http://…` is spoken to in HTTP/1.1, one `h2c://…` in HTTP/2 with prior knowledge.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.contract.h2_client import H2Response, H2Session


def b64(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)


class Http2Connection:
    """What http.client's connection is for HTTP/1.1: opened when needed, and anew after its end."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._session: H2Session | None = None
        self._response: H2Response | None = None

    @property
    def sock(self) -> socket.socket | None:
        return None if self._session is None else self._session.sock

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Any = None
    ) -> None:
        session = self._session
        if session is None or session.closed or session.goaway is not None:
            session = self._session = H2Session(*self._address)
        given = dict(headers or {})
        if body is not None and "content-length" not in {name.lower() for name in given}:
            given["content-length"] = str(len(body))
        self._response = session.request(method, path, given, body)

    def getresponse(self) -> H2Response:
        assert self._response is not None
        return self._response

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class Client:
    """One keep-alive connection, opened anew when the server closed it."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        self.address = (parts.hostname, parts.port or 80)
        self.connection: http.client.HTTPConnection | Http2Connection
        if parts.scheme == "h2c":
            self.connection = Http2Connection(*self.address)
        else:
            self.connection = http.client.HTTPConnection(*self.address, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        self.connection.request(method, path, body=body, headers=headers or {})
        response = self.connection.getresponse()
        data = response.read()
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, found, data)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.request("GET", path, None, headers)

    def delete(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.request("DELETE", path, None, headers)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request(
            "POST", path, data, {"content-type": "application/json", **(headers or {})}
        )

    def create_stream(self, basin: str, stream: str) -> str:
        """With every default. Returns its name."""
        answer = self.post("/v1/streams", {"stream": stream}, {"svc-basin": basin})
        assert answer.status == 201, answer
        return stream

    def append(
        self, basin: str, stream: str, *bodies: bytes | str, headers: Any = None, **conditions: Any
    ) -> Answer:
        """Append one record a body, base64, to an unencoded stream name."""
        body = {"records": [{"body": b64(data)} for data in bodies], **conditions}
        return self.post(
            f"/v1/streams/{stream}/records", body, {"svc-basin": basin, **(headers or {})}
        )

    def read(self, basin: str, stream: str, query: str = "", **headers: str) -> Answer:
        path = f"/v1/streams/{stream}/records" + (f"?{query}" if query else "")
        return self.get(path, {"svc-basin": basin, **headers})

    def tail(self, basin: str, stream: str) -> int:
        answer = self.get(f"/v1/streams/{stream}/records/tail", {"svc-basin": basin})
        assert answer.status == 200, answer
        seq_num: int = answer.json["tail"]["seq_num"]
        return seq_num


@dataclass
class Event:
    name: str | None
    id: str | None
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class EventStream:
    """Server-sent events of a read, one by one."""

    def __init__(
        self, endpoint: str, basin: str, path: str, headers: dict[str, str] | None = None
    ) -> None:
        """In the seed dialect, unless `headers` name the basin as S2's clients do."""
        self._client = Client(endpoint)
        sent = {"accept": "text/event-stream", **(headers or {})}
        if "s2-basin" not in sent:
            sent["svc-basin"] = basin
        self._client.connection.request("GET", path, headers=sent)
        self.response = self._client.connection.getresponse()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._client.connection.close()

    def __iter__(self) -> Iterator[Event]:
        name = event_id = None
        data: list[str] = []
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if not text:
                yield Event(name, event_id, "\n".join(data))
                name = event_id = None
                data = []
                continue
            key, _, value = text.partition(": ")
            if key == "event":
                name = value
            elif key == "id":
                event_id = value
            elif key == "data":
                data.append(value)

    def next(self, name: str) -> Event:
        """The next event of that name; pings in between are passed over."""
        for event in self:
            if event.name == name:
                return event
            assert event.name == "ping", event
        raise AssertionError(f"the stream ended before a {name} event")


def raw_exchange(endpoint: str, data: bytes, *, seconds: float = 5.0) -> bytes:
    """Send bytes and read until the server closes; fails when it does not in time."""
    parts = urlsplit(endpoint)
    with socket.create_connection((parts.hostname, parts.port), timeout=seconds) as sock:
        sock.sendall(data)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
        return received
