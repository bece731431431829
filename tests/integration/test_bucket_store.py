"""Backups in a bucket: a real server of S3's language, over a line that fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError, ObjectStoreError
from svc_cluster.backup.bucket_store import BucketPatience, BucketStore
from svc_cluster.backup.objects import StoreBounds
from svc_cluster.backup.prune import BackupRetention, prune
from svc_cluster.backup.vault import found_vault, vault_file
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import StreamId
from svc_cluster.cli.backup.backup_places import open_vault, vault_to_write
from tests.integration.bucket_server import (
    bucket_server,
    environment,
    failing_line,
    s3s_command,
    s3s_server,
)
from tests.unit.backup.scene import Scene
from tests.unit.backup.test_create import group, same_but_the_place

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "kept"
PLACE = f"s3://{BUCKET}/some/folder"


@pytest.fixture(scope="module", params=["moto", "s3s-fs"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of two makes; the second one looks at signatures."""
    if request.param == "moto":
        with bucket_server(BUCKET) as url:
            yield url
        return
    if s3s_command() is None:
        pytest.skip(
            "the crate s3s-fs is not here (S3S_FS=PATH): buckets were tried with moto alone"
        )
    with s3s_server(BUCKET, tmp_path_factory.mktemp("s3s")) as url:
        yield url


@pytest.fixture(autouse=True)
def told(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks, and where."""
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)


def place_of(request: pytest.FixtureRequest) -> str:
    """A folder of the bucket that no other test has."""
    return f"{PLACE}/{re.sub('[^a-z0-9]', '-', request.node.name.lower())}"


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    return place_of(request)


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(work)


def test_an_object_that_is_larger_than_any_is_not_read(place: str) -> None:
    """Its size is told before its content; a place with too many objects is not listed on."""

    async def main() -> None:
        every = BucketStore(place)
        assert await every.put_new("hostile", bytes(3 * 1024 * 1024))
        for number in range(4):
            assert await every.put_new(f"chunks/{number}", b"x")
        store = BucketStore(place, bounds=StoreBounds(object_bytes_max=1024 * 1024, names_max=3))
        with pytest.raises(DamagedError, match="hostile"):
            await store.get("hostile")
        assert await store.get("chunks/0") == b"x"
        with pytest.raises(ObjectStoreError, match="more than 3 objects"):
            await store.list("chunks/")
        # what prunes has to see them all the same
        pages = [page async for page in store.pages("chunks/")]
        assert sorted(each.name for page in pages for each in page) == [
            f"chunks/{number}" for number in range(4)
        ]

    run(main())


def test_what_is_put_is_there_once(place: str) -> None:
    """Listed with size and time, by any beginning of its name; not put again over what is there;
    gone when it is deleted, and deleting it again is no error."""

    async def main() -> None:
        store = BucketStore(place)
        assert await store.get("chunks/ab") is None
        assert await store.put_new("chunks/ab", b"first")
        assert not await store.put_new("chunks/ab", b"second")
        assert await store.put_new("chunks/ac", b"")
        assert await store.put_new("chunk", b"x")
        assert await store.get("chunks/ab") == b"first"
        assert await store.get("chunks/ac") == b""
        listed = {each.name: each.size for each in await store.list("")}
        assert listed == {"chunks/ab": 5, "chunks/ac": 0, "chunk": 1}
        assert [each.name for each in await store.list("chunks/")] == ["chunks/ab", "chunks/ac"]
        assert [each.name for each in await store.list("chunks/ac")] == ["chunks/ac"]
        assert await store.list("parts/") == []
        now_ms = SystemClock().wall_ms()
        for each in await store.list(""):
            assert abs(each.modified_at_ms - now_ms) < 60_000
        assert await BucketStore(PLACE + "/elsewhere").list("") == []
        await store.delete("chunks/ab")
        await store.delete("chunks/ab")
        assert await store.get("chunks/ab") is None
        await store.close()

    run(main())


@pytest.mark.parametrize(
    "wrong",
    ["s3://", "s3://A/b", "s3://kept/../other", "s3://kept//x", "s3://kept/x?y", "gs://kept"],
)
def test_what_is_no_place_is_refused(wrong: str, tmp_path: Path) -> None:
    """In one sentence that names the form, before anything is asked."""
    with pytest.raises(BackupError, match="s3://BUCKET/FOLDER"):
        run(_opened(wrong, tmp_path))


async def _opened(place: str, directory: Path) -> None:
    await open_vault(place, directory / "key")


@pytest.mark.parametrize("server", ["moto"], indirect=True)  # the other one has empty ones at once
def test_a_bucket_that_is_not_there_is_named(tmp_path: Path) -> None:
    """For reading and for writing; nothing is taken for an empty place, and no key is made."""

    async def main() -> None:
        with pytest.raises(ObjectStoreError, match="s3://nowhere-at-all"):
            await BucketStore("s3://nowhere-at-all/x").get("vault")
        with pytest.raises(ObjectStoreError, match="s3://nowhere-at-all"):
            await open_vault("s3://nowhere-at-all/x", tmp_path / "key")
        with pytest.raises(ObjectStoreError, match="credentials"):
            await vault_to_write("s3://nowhere-at-all/x", tmp_path / "key", "main", plain=False)

    run(main())
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize("server", ["moto"], indirect=True)  # the other one has the header signed
def test_a_store_that_puts_over_what_is_there_is_refused(
    server: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything of a backup is put: two backups could mix there."""

    async def main() -> None:
        async with failing_line(server) as (url, line):
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            line.hides = b"if-none-match"
            store = BucketStore(place)
            with pytest.raises(ObjectStoreError, match="puts over objects"):
                await store.put_new("vault", b"x")
            line.hides = b""
            assert await store.list("") == []

    run(main())


def test_lost_answers_and_refusals_are_asked_again(
    server: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole backup, a second one, a prune and a restore, of which the store's answers to each
    kind of request are lost or are 503: whole, and nothing doubled or left."""

    async def main() -> None:
        async with failing_line(server) as (url, line):
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            scene = Scene()
            scene.clock.now_ms = SystemClock().wall_ms()
            basin = scene.filled()
            scene.store = BucketStore(place)
            made = await scene.create()
            # deletions are asked for with POST: several at a time
            for method in (b"PUT", b"GET", b"POST"):
                for fault in ("loses_answers_to", "refuses"):
                    setattr(line, fault, partial(begins_with, method))
                    line.failures_left = 3
                    basin.append(StreamId(1), method * 50, count=1, at_ms=40_000)
                    made = await scene.create()
                    setattr(line, fault, never)
            vault = await scene.vault()
            assert await vault.numbers() == [1, 2, 3, 4, 5, 6, 7]
            line.loses_answers_to = partial(begins_with, b"POST")
            line.failures_left = 3
            done = await prune(vault, scene.clock, BackupRetention(1, None), 0)
            assert (done.backups, done.is_whole) == ((1, 2, 3, 4, 5, 6), True)
            assert len(line.failed) >= 3 * 3 * 2
            assert {each.split()[0] for each in line.failed} == {b"PUT", b"GET", b"POST"}
            line.refuses = partial(begins_with, b"GET")
            line.failures_left = 3
            assert await scene.look(made) == []
            (restored,) = await scene.restore(made)
            same_but_the_place(restored.groups[group(scene)], basin.rows)
            names = {each.name.partition("/")[0] for each in await vault.store.list("")}
            assert names == {"vault", "manifests", "parts", "chunks"}

    run(main())


def test_a_store_that_is_away_is_waited_for_as_long_as_was_said(
    server: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time ends the attempts, not their number; then the place is named, and nothing else of what
    the library knows."""

    async def main() -> None:
        async with failing_line(server) as (url, line):
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            line.refuses = partial(begins_with, b"GET")
            line.failures_left = 60
            assert await BucketStore(place, BucketPatience(30, 0.001, 0.01)).get("vault") is None
            assert (line.failures_left, len(line.failed)) == (0, 60)
            line.failures_left = 1_000_000
            with pytest.raises(ObjectStoreError) as caught:
                await BucketStore(place, BucketPatience(0.2, 0.001, 0.01)).get("vault")
            assert f"vault in {place}: " in str(caught.value)
            assert "Debug source" not in str(caught.value)

    run(main())


def test_what_users_get_is_two_minutes() -> None:
    """As the page for operators has it."""
    assert BucketPatience() == BucketPatience(120.0, 0.1, 5.0)
    page = (ROOT / "docs" / "operations" / "backup.md").read_text()
    assert "Requests that fail are repeated for two minutes." in page


def begins_with(method: bytes, head: bytes) -> bool:
    return head.startswith(method)


def never(head: bytes) -> bool:
    return False


def test_two_first_backups_at_a_time_found_one_vault(place: str) -> None:
    """Whoever comes second uses what the first has put."""

    async def main() -> None:
        stores = [BucketStore(place) for _ in range(6)]
        files = await asyncio.gather(*(found_vault(each, "main", "") for each in stores))
        assert len({each.vault_id for each in files}) == 1
        assert await vault_file(BucketStore(place)) == files[0]

    run(main())
