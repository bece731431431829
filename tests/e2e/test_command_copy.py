"""Copies of streams between two servers: whole, resumed, and refused where they would be none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from svc_cluster.client.copy_end import CopyError
from svc_cluster.client.wire_records import AppendRecord
from tests.e2e.copy_scene import (
    BASIN,
    CLIENT_TIMES,
    Both,
    Scene,
    StoppedError,
    numbered,
    two_servers,
)
from tests.integration.processes import in_loop


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with two_servers(lambda: tmp_path_factory.mktemp("copy")) as servers:
        yield servers


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
                    raise StoppedError

            try:
                result = await scene.copy(stop_behind_the_first)
            except StoppedError:
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
    """A destination with records of its own is not appended to."""
    async with Scene(both, "other") as scene:
        await scene.append(scene.source, *numbered(20))
        stream = b'{"timestamping":{"mode":"client-require","uncapped":true}}'
        await scene.target.call("PUT", "/v1/streams/other", basin=BASIN, body=stream)
        await scene.append(scene.target, AppendRecord(b"mine", timestamp=1))
        with pytest.raises(CopyError, match="holds 1 records that are not the first ones"):
            await scene.copy()
        assert [record.body for record in await scene.read(scene.target)] == [b"mine"]


@pytest.mark.parametrize("what", ["body", "headers", "timestamp"])
@in_loop
async def test_what_differs_in_the_middle_is_no_copy(both: Both, what: str) -> None:
    """By its body, its headers or its timestamp: the first record that differs is named, and
    nothing is appended."""
    async with Scene(both, f"spoilt-{what}") as scene:
        body = msgspec.json.encode(CLIENT_TIMES)
        for client in (scene.source, scene.target):
            await client.call("PUT", f"/v1/streams/{scene.stream}", basin=BASIN, body=body)
        records = [replace(each, timestamp=1000 + 10 * n) for n, each in enumerate(numbered(20))]
        await scene.append(scene.source, *records, AppendRecord(b"behind", timestamp=2000))
        seventh = records[7]
        records[7] = {
            "body": replace(seventh, body=b"flipped"),
            "headers": replace(seventh, headers=((b"k", b"v"),)),
            "timestamp": replace(seventh, timestamp=1075),
        }[what]
        await scene.append(scene.target, *records)
        with pytest.raises(CopyError, match="record 7 of the source is another than record 7"):
            await scene.copy()
        assert len(await scene.read(scene.target)) == 20


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
