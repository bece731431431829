"""Where a copy goes on that was interrupted: only where that is certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from svc_cluster.client.copy_end import CopyError
from svc_cluster.client.wire_records import AppendRecord, stream_path
from tests.e2e.copy_scene import BASIN, CLIENT_TIMES, Both, Scene, numbered, trim, two_servers
from tests.integration.processes import in_loop


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with two_servers(lambda: tmp_path_factory.mktemp("copy")) as servers:
        yield servers


async def with_client_times(scene: Scene) -> None:
    body = msgspec.json.encode(CLIENT_TIMES)
    await scene.source.call("PUT", stream_path(scene.stream), basin=BASIN, body=body)


def alike(count: int, body: bytes = b"tick") -> list[AppendRecord]:
    """Records that nothing tells apart."""
    return [AppendRecord(body, (), 1000) for _ in range(count)]


async def is_refused_and_left(scene: Scene, told: str) -> None:
    """What is there stays: neither a record nor the configuration changes."""
    before = await scene.read(scene.target), await scene.config(scene.target)
    with pytest.raises(CopyError, match=told) as refused:
        await scene.copy()
    assert "copy to another stream, or delete this one" in str(refused.value)
    assert (await scene.read(scene.target), await scene.config(scene.target)) == before


@in_loop
async def test_a_source_that_is_trimmed_further_is_gone_on_with(both: Both) -> None:
    """The shift is that of the first run; it is found by the records that both still have."""
    async with Scene(both, "further") as scene:
        await with_client_times(scene)
        records = [replace(each, timestamp=1000 + n // 7) for n, each in enumerate(numbered(3500))]
        await scene.append(scene.source, *records, trim(700, 2000))
        await scene.copy_a_page()
        assert len(await scene.read(scene.target)) == 1000
        await scene.append(scene.source, trim(1650, 2001))
        source = await scene.read(scene.source)
        assert source[0].seq_num == 1650
        result = await scene.copy()
        assert (result.shift, result.resumed_at, result.copied) == (700, 1000, 1802)
        # each of the records that the source holds was compared
        assert result.compared == len(source) == 3502 - 1650
        target = await scene.read(scene.target)  # which was trimmed as the source was
        assert [(r.seq_num + 700, r.timestamp) for r in target] == [
            (r.seq_num, r.timestamp) for r in source
        ]
        assert [r.body for r in target[:-2]] == [r.body for r in source[:-2]]


@in_loop
async def test_a_source_that_has_lost_all_that_was_copied_is_not_gone_on_with(both: Both) -> None:
    """Nothing is left by which it could be told where to go on."""
    async with Scene(both, "lost") as scene:
        await scene.append(scene.source, *numbered(3500))
        await scene.append(scene.source, trim(700))
        await scene.copy_a_page()
        await scene.append(scene.source, trim(1700))
        await is_refused_and_left(scene, "holds 1000 records, the last of which is none")


@in_loop
async def test_one_equal_record_is_not_enough(both: Both) -> None:
    """The destination's last record stands in the source where it would without a shift too; what
    is ahead of it says which of the two it is."""
    async with Scene(both, "two-places") as scene:
        await with_client_times(scene)
        records = [AppendRecord(b"%d" % n, (), 1000) for n in range(2500)]
        records[999] = records[1002]
        await scene.append(scene.source, *records, trim(3, 1000))
        await scene.copy_a_page()
        result = await scene.copy()
        assert (result.shift, result.resumed_at, result.copied) == (3, 1000, 1498)
        assert [r.body for r in (await scene.read(scene.target))[:-1]] == [
            r.body for r in (await scene.read(scene.source))[:-1]
        ]


@pytest.mark.parametrize("trimmed", [7, 201])
@in_loop
async def test_records_that_nothing_tells_apart_are_not_copied_twice(
    both: Both, trimmed: int
) -> None:
    """Every shift would do: it is refused, few or many as they are. Where the source has its first
    record there is no shift, and it goes on."""
    async with Scene(both, f"alike-{trimmed}") as scene:
        await with_client_times(scene)
        await scene.append(scene.source, *alike(1500), AppendRecord(b"end", (), 2000))
        await scene.copy_a_page()
        result = await scene.copy()
        assert (result.shift, result.resumed_at, result.copied) == (0, 1000, 501)
    async with Scene(both, f"alike-trimmed-{trimmed}") as scene:
        await with_client_times(scene)
        await scene.append(scene.source, *alike(3000), trim(trimmed, 1000))
        await scene.copy_a_page()
        del scene.source.asked[:]
        await is_refused_and_left(scene, "holds 1000 records, and where they end in the source")
        assert len(scene.source.asked) < 100, "not everything is compared by each"


@in_loop
async def test_the_same_record_again_is_none_that_was_copied(both: Both) -> None:
    """All of what was copied has gone from the source, and its first record of now is the same as
    the last that was copied, of the same millisecond: what lies between them is not left out."""
    async with Scene(both, "again") as scene:
        await with_client_times(scene)
        others = [AppendRecord(b"%d" % n, (), 1000) for n in range(999)]
        await scene.append(scene.source, *alike(1000), *others, *alike(1), *others)
        await scene.copy_a_page()
        await scene.append(scene.source, trim(1999, 1000))
        await is_refused_and_left(scene, "it begins at record 1999 now")


@in_loop
async def test_a_destination_without_records_goes_on_where_the_source_begins(both: Both) -> None:
    """Both have removed the same: positions are kept. Elsewhere it is refused, also where the
    source holds nothing."""
    async with Scene(both, "both-empty") as scene:
        await scene.append(scene.source, *numbered(8))
        await scene.copy()
        for client in (scene.source, scene.target):
            await scene.append(client, trim(9))
        result = await scene.copy()
        assert (result.resumed_at, result.copied, result.compared) == (9, 0, 0)
        await scene.append(scene.source, AppendRecord(b"later"))
        result = await scene.copy()
        assert (result.shift, result.resumed_at, result.copied) == (0, 9, 1)
        assert [r.seq_num for r in await scene.read(scene.target)] == [9]
        await scene.append(scene.target, trim(11))
        await scene.append(scene.source, *numbered(2), trim(13))
        await is_refused_and_left(scene, "has had 11 records and holds none of them")
    async with Scene(both, "source-empty") as scene:
        await scene.append(scene.source, *numbered(8))
        await scene.copy()
        await scene.append(scene.source, trim(9))
        await is_refused_and_left(scene, "holds 8 records, the last of which is none")


@pytest.mark.parametrize("page", [1, 2])
@in_loop
async def test_what_the_source_removes_while_it_is_compared_is_left_out(
    both: Both, page: int
) -> None:
    """Behind the look at its first record, and between two pages: a good copy is one all the
    same, and each record that is left is compared."""
    async with Scene(both, f"race-{page}") as scene:
        await scene.append(scene.source, *numbered(3500))
        to = 1700 * page
        reads = 0
        is_compared = False

        def told(_what: str, place: int, end: int) -> None:
            nonlocal is_compared
            is_compared = is_compared or place == end

        async def trim_once(method: str, path: str) -> None:
            nonlocal reads
            if is_compared and method == "GET" and "/records?" in path:
                reads += 1
                if reads == page + 1:
                    scene.source.before = scene.target.before
                    await scene.append(scene.source, trim(to))

        scene.source.before = trim_once
        result = await scene.copy(told)
        assert (await scene.read(scene.source))[0].seq_num == to
        skipped = to - 1000 * (page - 1)
        assert (result.copied, result.compared) == (3500, 3500 - skipped)
