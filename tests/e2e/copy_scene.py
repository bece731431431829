"""Two servers and a stream on both, which is copied from the one to the other."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from svc_cluster.base.clock import SystemClock
from svc_cluster.client.copy_end import CopyEnd
from svc_cluster.client.definite_append import DefiniteAppender, RetryPatience
from svc_cluster.client.service_client import SECONDS_MAX, ServerAddress, ServiceClient
from svc_cluster.client.stream_copy import CopiedStream, StreamCopy
from svc_cluster.client.stream_reading import StreamBounds, StreamStart, read_pages
from svc_cluster.client.wire_records import AppendRecord, ReadRecord, stream_path
from svc_cluster.http.client import HttpResponse
from tests.contract.conftest import Server

BASIN = "copied-basin"
CLIENT_TIMES = {"timestamping": {"mode": "client-require", "uncapped": True}}


def unheard(*_: object) -> None:
    """What is told of a copy that nobody listens to."""


UNHEARD = (unheard, unheard)
"""What is told on the way, and what is left to do."""


@dataclass
class Both:
    """Two servers, the second of which begins empty."""

    first: str
    second: str


@contextmanager
def two_servers(new_directory: Callable[[], Path]) -> Iterator[Both]:
    """Until the block ends."""
    servers = [Server(new_directory(), 10.0) for _ in range(2)]
    yield Both(*(f"http://127.0.0.1:{server.port}" for server in servers))
    for server in servers:
        server.stop()


async def nothing(_method: str, _path: str) -> None:
    """Hook of a client that nobody meddles with."""


class WatchedClient(ServiceClient):
    """A client of a real server, whose calls a test sees, and may hold up or let fail."""

    def __init__(self, url: str) -> None:
        super().__init__(ServerAddress(url=url))
        self.asked: list[tuple[str, str]] = []
        self.before: Callable[[str, str], Awaitable[None]] = nothing
        self.behind: Callable[[str, str], Awaitable[None]] = nothing

    async def call(
        self,
        method: str,
        path: str,
        *,
        basin: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = SECONDS_MAX,
    ) -> HttpResponse:
        self.asked.append((method, path))
        await self.before(method, path)
        answer = await super().call(
            method, path, basin=basin, body=body, headers=headers, timeout_s=timeout_s
        )
        await self.behind(method, path)
        return answer


def patience() -> RetryPatience:
    return RetryPatience(SystemClock(), random.Random(1), 20.0)


def tokens() -> Callable[[], str]:
    numbers = random.Random()
    return lambda: f"{numbers.getrandbits(100):x}"


class Scene:
    """One stream on both servers."""

    def __init__(self, both: Both, stream: str) -> None:
        self.source = WatchedClient(both.first)
        self.target = WatchedClient(both.second)
        self.stream = stream

    async def __aenter__(self) -> Scene:
        for client in (self.source, self.target):
            await client.call("PUT", f"/v1/basins/{BASIN}")
        arrival = b'{"timestamping":{"mode":"arrival"},"retention_policy":{"infinite":{}}}'
        await self.source.call("PUT", stream_path(self.stream), basin=BASIN, body=arrival)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.source.close()
        self.target.close()

    async def append(self, client: ServiceClient, *records: AppendRecord) -> None:
        appender = DefiniteAppender(client, BASIN, self.stream, patience(), tokens())
        for begin in range(0, len(records), 1000):
            await appender.append(records[begin : begin + 1000])

    async def read(self, client: ServiceClient, start: int = 0) -> list[ReadRecord]:
        pages = read_pages(
            client, BASIN, self.stream, StreamStart("seq_num", start), StreamBounds(), patience()
        )
        return [record async for page in pages for record in page]

    async def config(self, client: ServiceClient) -> bytes:
        return (await client.call("GET", stream_path(self.stream), basin=BASIN)).body

    @property
    def ends(self) -> tuple[CopyEnd, CopyEnd]:
        return (
            CopyEnd(self.source, BASIN, self.stream, patience()),
            CopyEnd(self.target, BASIN, self.stream, patience()),
        )

    async def copy(
        self,
        told: Callable[[str, int, int], None] = unheard,
        left: Callable[[str], None] = unheard,
    ) -> CopiedStream:
        return await StreamCopy(*self.ends, tokens(), told, left).run()

    async def copy_a_page(self) -> None:
        """Copy the first page, and be stopped behind it."""
        try:
            await self.copy(stop_behind_a_page)
        except StoppedError:
            return
        raise AssertionError("nothing was copied")


class StoppedError(Exception):
    """The copier ends here."""


def stop_behind_a_page(what: str, _place: int, _end: int) -> None:
    if what == "copied":
        raise StoppedError


def numbered(count: int) -> list[AppendRecord]:
    return [AppendRecord(b"%d \x00\xff" % n, ((b"k", b"%d" % n),)) for n in range(count)]


def trim(place: int, timestamp: int | None = None) -> AppendRecord:
    return AppendRecord(place.to_bytes(8, "big"), ((b"", b"trim"),), timestamp)
