"""Copies of streams between two servers: whole, resumed, and refused where they would be none."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.client.definite_append import DefiniteAppender, RetryPatience
from svc_cluster.client.service_client import ServerAddress, ServiceClient
from svc_cluster.client.stream_copy import CopiedStream, CopyEnd, CopyError, StreamCopy
from svc_cluster.client.stream_reading import StreamBounds, StreamStart, read_pages
from svc_cluster.client.wire_records import AppendRecord, ReadRecord
from tests.contract.conftest import Server
from tests.integration.processes import in_loop

BASIN = "copied-basin"


@dataclass
class Both:
    """Two servers, the second of which begins empty."""

    first: str
    second: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    servers = [Server(tmp_path_factory.mktemp("copy"), 10.0) for _ in range(2)]
    yield Both(*(f"http://127.0.0.1:{server.port}" for server in servers))
    for server in servers:
        server.stop()


def patience() -> RetryPatience:
    return RetryPatience(SystemClock(), random.Random(1), 20.0)


def tokens() -> Callable[[], str]:
    numbers = random.Random()
    return lambda: f"{numbers.getrandbits(100):x}"


class Scene:
    """One stream on both servers."""

    def __init__(self, both: Both, stream: str) -> None:
        self.source = ServiceClient(ServerAddress(url=both.first))
        self.target = ServiceClient(ServerAddress(url=both.second))
        self.stream = stream

    async def __aenter__(self) -> Scene:
        for client in (self.source, self.target):
            await client.call("PUT", f"/v1/basins/{BASIN}")
        arrival = b'{"timestamping":{"mode":"arrival"},"retention_policy":{"infinite":{}}}'
        await self.source.call("PUT", f"/v1/streams/{self.stream}", basin=BASIN, body=arrival)
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

    async def copy(self, told: Callable[[str, int, int], None] = lambda *_: None) -> CopiedStream:
        source = CopyEnd(self.source, BASIN, self.stream, patience())
        target = CopyEnd(self.target, BASIN, self.stream, patience())
        return await StreamCopy(source, target, tokens(), told).run()


def numbered(count: int) -> list[AppendRecord]:
    return [AppendRecord(b"%d \x00\xff" % n, ((b"k", b"%d" % n),)) for n in range(count)]


class _Stopped(Exception):
    """The copier ends here, as by a kill: what it has sent is there, what it knows is not."""


@in_loop
async def test_a_copy_has_all_and_goes_on_where_it_was(both: Both) -> None:
    """Records, headers, timestamps, positions, command records and the configuration; stopped
    behind each page, it appends the rest and nothing twice; what comes later is copied later."""
    async with Scene(both, "whole") as scene:
        await scene.append(scene.source, *numbered(3500), AppendRecord(b"w", ((b"", b"fence"),)))
        begun: list[int] = []
        result = None
        while result is None:
            first = True

            def stop_behind_the_first(what: str, place: int, _end: int) -> None:
                nonlocal first
                if what == "copied" and first:
                    first = False
                    begun.append(place)
                    raise _Stopped

            try:
                result = await scene.copy(stop_behind_the_first)
            except _Stopped:
                continue
        assert begun == [1000, 2000, 3000, 3501]
        assert (result.copied, result.resumed_at, result.shift) == (0, 3501, 0)
        assert result.compared == 3501
        assert await scene.read(scene.target) == await scene.read(scene.source)
        configs = [
            (await client.call("GET", "/v1/streams/whole", basin=BASIN)).body
            for client in (scene.source, scene.target)
        ]
        assert configs[0] == configs[1]
        assert b'"arrival"' in configs[1]
        await scene.append(scene.source, AppendRecord(b"later"))
        again = await scene.copy()
        assert (again.copied, again.resumed_at, again.tail) == (1, 3501, 3502)
        assert (await scene.read(scene.target))[-1].body == b"later"


@in_loop
async def test_a_trimmed_start_is_numbered_from_0_and_said(both: Both) -> None:
    """The trim in it moves with the positions, so that it removes nothing more; it can be resumed
    all the same."""
    async with Scene(both, "trimmed") as scene:
        await scene.append(scene.source, *numbered(1200))
        trim = AppendRecord((700).to_bytes(8, "big"), ((b"", b"trim"),))
        await scene.append(scene.source, trim, AppendRecord(b"end"))
        source = await scene.read(scene.source)
        assert source[0].seq_num == 700
        result = await scene.copy()
        assert (result.shift, result.copied, result.compared) == (700, 502, 502)
        target = await scene.read(scene.target)
        assert [record.seq_num + 700 for record in target] == [r.seq_num for r in source]
        assert [record.timestamp for record in target] == [r.timestamp for r in source]
        assert target[500].body == bytes(8)
        assert [r.body for r in target if not r.is_command] == [
            r.body for r in source if not r.is_command
        ]
        await scene.append(scene.source, AppendRecord(b"later"))
        again = await scene.copy()
        assert (again.shift, again.copied, again.resumed_at) == (700, 1, 502)


@in_loop
async def test_what_holds_something_else_is_left_alone(both: Both) -> None:
    """A destination with records of its own is not appended to; one that differs in the middle is
    no copy, and the first record that differs is named."""
    async with Scene(both, "other") as scene:
        await scene.append(scene.source, *numbered(20))
        stream = b'{"timestamping":{"mode":"client-require","uncapped":true}}'
        await scene.target.call("PUT", "/v1/streams/other", basin=BASIN, body=stream)
        await scene.append(scene.target, AppendRecord(b"mine", timestamp=1))
        with pytest.raises(CopyError, match="holds 1 records that are not the first ones"):
            await scene.copy()
        assert [record.body for record in await scene.read(scene.target)] == [b"mine"]
    async with Scene(both, "spoilt") as scene:
        await scene.append(scene.source, *numbered(20))
        await scene.target.call("PUT", "/v1/streams/spoilt", basin=BASIN, body=stream)
        records = [
            AppendRecord(record.body, record.headers, record.timestamp)
            for record in await scene.read(scene.source)
        ]
        records[7] = AppendRecord(b"flipped", records[7].headers, records[7].timestamp)
        await scene.append(scene.target, *records)
        with pytest.raises(CopyError, match="record 7 of the source is another than record 7"):
            await scene.copy()


@in_loop
async def test_an_empty_stream_is_copied(both: Both) -> None:
    """With its configuration, and nothing to compare."""
    async with Scene(both, "empty") as scene:
        result = await scene.copy()
        assert (result.copied, result.compared, result.tail) == (0, 0, 0)
        assert await scene.read(scene.target) == []


@in_loop
async def test_a_stream_in_use_keeps_its_configuration(both: Both) -> None:
    """The copy was finished and others append to it now: asked for once more, it is refused, and
    the stream is as it was. So is one of which everything was trimmed, while the source has it."""
    async with Scene(both, "in-use") as scene:
        await scene.append(scene.source, *(AppendRecord(body=b"%d" % n) for n in range(5)))
        await scene.copy()
        await scene.append(scene.target, AppendRecord(body=b"of a producer"))
        path = f"/v1/streams/{scene.stream}"
        before = (await scene.target.call("GET", path, basin=BASIN)).body
        with pytest.raises(CopyError):
            await scene.copy()
        assert (await scene.target.call("GET", path, basin=BASIN)).body == before
        assert len(await scene.read(scene.target)) == 6
    async with Scene(both, "all-trimmed") as scene:
        await scene.append(scene.source, *(AppendRecord(body=b"%d" % n) for n in range(9)))
        await scene.target.call("PUT", f"/v1/streams/{scene.stream}", basin=BASIN)
        trim = AppendRecord(headers=((b"", b"trim"),), body=(4).to_bytes(8, "big"))
        others = [AppendRecord(body=b"other") for _ in range(3)]
        await scene.append(scene.target, *others, trim)
        with pytest.raises(CopyError):
            await scene.copy()
