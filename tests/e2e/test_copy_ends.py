"""How a copy ends that does not go well: nothing is lost, left behind, or kept from the others."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from svc_cluster.base.tasks import start_task
from svc_cluster.client.client_errors import AwayError
from svc_cluster.client.copy_end import CopyEnd, CopyError
from svc_cluster.client.stream_copy import StreamCopy
from svc_cluster.client.wire_records import AppendRecord, ReadRecord, records_path, stream_path
from svc_cluster.http.client import HttpResponse
from tests.e2e.copy_scene import (
    BASIN,
    UNHEARD,
    Both,
    Scene,
    WatchedClient,
    numbered,
    patience,
    tokens,
    trim,
    two_servers,
)
from tests.integration.processes import in_loop

CIPHER = b'{"config":{"stream_cipher":"aes-256-gcm"}}'


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with two_servers(lambda: tmp_path_factory.mktemp("copy")) as servers:
        yield servers


def command(home: Path, *arguments: str) -> tuple[int, list[str], str]:
    """Status, lines of the standard output, and the standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster", "copy", *arguments],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()


class _NoTokens(WatchedClient):
    """A server that knows no request tokens, and loses the answer to its first append."""

    lost = False

    async def call(self, method: str, path: str, **more: object) -> HttpResponse:
        answer = await super().call(method, path, **more)  # type: ignore[arg-type]
        if path == "/version":
            return replace(answer, body=b'{"name":"another","version":"1"}')
        if method == "POST" and not self.lost:
            self.lost = True
            raise AwayError("the answer was lost", sent=True)
        return answer


@in_loop
async def test_an_append_whose_answer_is_lost_is_not_repeated(both: Both) -> None:
    """The server knows no request tokens: its tail tells that the records are there."""
    async with Scene(both, "lost-answer") as scene:
        scene.target.close()
        scene.target = _NoTokens(both.second)
        await scene.append(scene.source, *numbered(2500))
        result = await scene.copy()
        assert (result.copied, result.compared) == (2500, 2500)
        assert len(await scene.read(scene.target)) == 2500


@in_loop
async def test_nothing_is_appended_behind_what_others_append(both: Both) -> None:
    """Somebody appends to the destination between two pages: it is said, with nothing behind it."""
    async with Scene(both, "others") as scene:
        await scene.append(scene.source, *numbered(2500))
        other = WatchedClient(both.second)
        pages = 0

        async def append_between(method: str, _path: str) -> None:
            nonlocal pages
            pages += method == "POST"
            if pages == 2:
                scene.target.before = other.before
                await scene.append(other, AppendRecord(b"other", timestamp=1 << 41))

        scene.target.before = append_between
        with pytest.raises(CopyError, match=r"somebody else appends to .*: its tail is not 1000"):
            await scene.copy()
        assert [r.body for r in (await scene.read(scene.target))[1000:]] == [b"other"]
        other.close()


@in_loop
async def test_records_that_the_source_removes_meanwhile_are_not_passed_over(both: Both) -> None:
    """Between two pages: it is said which they are, and nothing is appended behind the gap."""
    async with Scene(both, "gap") as scene:
        await scene.append(scene.source, *numbered(4500))
        other = WatchedClient(both.first)
        reads = 0

        async def trim_between(method: str, path: str) -> None:
            nonlocal reads
            reads += method == "GET" and "count=" in path and "count=1&" not in path
            if reads == 2:
                scene.source.before = other.before
                await scene.append(other, trim(1500))

        scene.source.before = trim_between
        with pytest.raises(CopyError, match="has removed its records 1000 to 1499 meanwhile"):
            await scene.copy()
        assert len(await scene.read(scene.target)) == 1000
        other.close()


@in_loop
async def test_a_refused_append_ends_one_copy_and_not_the_next_one(both: Both) -> None:
    """The next page is being read when an append is refused: that has ended when the copy has, and
    the same connection serves the next stream."""
    async with Scene(both, "refused") as scene, Scene(both, "behind-it") as behind:
        await scene.append(scene.source, *numbered(3500))
        await behind.append(behind.source, *numbered(3))
        reads_on, ended = asyncio.Event(), asyncio.Event()

        async def hold_the_second(method: str, path: str) -> None:
            if method == "GET" and "seq_num=1000&count=2500" in path:
                reads_on.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(0)  # as a connection that is closed takes its time
                    ended.set()

        async def refuse(method: str, _path: str) -> None:
            if method == "POST":
                await reads_on.wait()
                raise CopyError("refused")

        scene.source.before, scene.target.before = hold_the_second, refuse
        with pytest.raises(CopyError, match=r"^refused$"):
            await scene.copy()
        assert ended.is_set()
        ends = [replace(end, client=scene.source) for end in behind.ends[:1]]
        result = await StreamCopy(ends[0], behind.ends[1], tokens(), *UNHEARD).run()
        assert (result.copied, result.compared) == (3, 3)


@in_loop
async def test_however_a_copy_ends_the_configuration_is_what_it_was(both: Both) -> None:
    """Cancelled in an append, as by Ctrl-C, and by a fault of whichever kind: a stream that was
    there has its own configuration again, and a new one has the source's."""
    async with Scene(both, "cancelled") as scene:
        await scene.append(scene.source, *numbered(2500))
        own = b'{"retention_policy":{"age":86400},"delete_on_empty":{"min_age_secs":77}}'
        await scene.target.call("PUT", stream_path(scene.stream), basin=BASIN, body=own)
        before = await scene.config(scene.target)
        for fault in (None, RuntimeError("a fault")):
            appends = asyncio.Event()

            async def end_here(
                method: str,
                _path: str,
                fault: Exception | None = fault,
                appends: asyncio.Event = appends,
            ) -> None:
                if method == "POST":
                    appends.set()
                    if fault is not None:
                        raise fault
                    await asyncio.Event().wait()

            scene.target.before = end_here
            copying = start_task(scene.copy(), "copy")
            await appends.wait()
            if fault is None:
                copying.cancel()
            with pytest.raises(asyncio.CancelledError if fault is None else RuntimeError):
                await copying
            assert await scene.config(scene.target) == before
    async with Scene(both, "new-one") as scene:
        await scene.append(scene.source, *numbered(2500))
        await scene.copy_a_page()
        assert await scene.config(scene.target) == await scene.config(scene.source)


@in_loop
async def test_a_configuration_that_cannot_be_put_back_is_said(both: Both) -> None:
    """The server is away from an append on: what is left to do stands in the sentence."""
    async with Scene(both, "away") as scene:
        await scene.append(scene.source, *numbered(10))
        is_away = False

        async def go_away(method: str, _path: str) -> None:
            nonlocal is_away
            is_away = is_away or method == "POST"
            if is_away:
                raise CopyError("it is away")

        scene.target.before = go_away
        with pytest.raises(CopyError, match=r"^it is away; and the configuration of .* could not "):
            await scene.copy()


@in_loop
async def test_the_final_configuration_comes_behind_the_comparison(both: Both) -> None:
    """Until then nobody else can append to the destination without timestamps."""
    async with Scene(both, "order") as scene:
        await scene.append(scene.source, *numbered(10))
        await scene.copy()
        kept = [call for call in scene.target.asked if "/streams" in call[1]]
        assert kept[-1] == ("PATCH", stream_path(scene.stream))
        assert [method for method, _ in kept].count("PATCH") == 1
        assert kept[-2][0] == "GET"
        assert kept[-2][1].startswith(records_path(scene.stream) + "?")


@in_loop
async def test_an_encrypted_stream_is_refused_and_the_others_are_copied(
    both: Both, tmp_path: Path
) -> None:
    """Without its key here, or there: the option that names it is said, nothing is left behind at
    the destination, and the other streams are copied."""
    key = {"s2-encryption-key": base64.b64encode(bytes(32)).decode()}
    async with Scene(both, "unused") as scene:
        source, target = scene.source, scene.target
        await source.call("PUT", "/v1/basins/cipher-basin", body=CIPHER)
        await source.call("PUT", "/v1/basins/plainer-basin")
        await target.call("PUT", "/v1/basins/plainer-basin", body=CIPHER)
        for basin, stream in (("cipher-basin", "sealed"), ("plainer-basin", "plain")):
            await source.call("PUT", stream_path(stream), basin=basin)
            body = b'{"records":[{"body":"hidden"}]}'
            path = records_path(stream)
            await source.call("POST", path, basin=basin, body=body, headers=key)
        await scene.append(source, *numbered(3))
        servers = ("--from", both.first, "--to", both.second)
        names = ("cipher-basin/sealed", "plainer-basin/plain", f"{BASIN}/unused")
        status, said, failed = await asyncio.to_thread(command, tmp_path, *servers, *names)
        advice = "; name the file that holds the stream's key with"
        assert [line.split(": not copied: ")[0] for line in said] == [
            "cipher-basin/sealed",
            "plainer-basin/plain",
            f"{BASIN}/unused: 3 records copied, 3 compared",
        ]
        assert said[0].endswith(f"{advice} --from-key-file")
        assert said[1].endswith(
            f"the records of {both.second} plainer-basin/plain are to be encrypted{advice} "
            "--to-key-file"
        )
        assert status == 1
        assert failed.startswith("svc-cluster: 2 streams were not copied")
        for basin in ("cipher-basin", "plainer-basin"):
            found = (await target.call("GET", "/v1/streams", basin=basin)).body
            assert msgspec.json.decode(found)["streams"] == [], "nothing is left behind there"


@in_loop
async def test_a_stream_is_not_copied_onto_itself(both: Both, tmp_path: Path) -> None:
    """By another spelling of the server, or by the basin's own name: refused by name, and its
    configuration is its own. So it is where lists cannot be asked for."""
    async with Scene(both, "itself") as scene:
        await scene.append(scene.source, *numbered(3))
        before = await scene.config(scene.source), await scene.read(scene.source)
        other = both.first.replace("127.0.0.1", "localhost")
        for more in (("--to", other), ("--to", both.first, "--basin", BASIN)):
            status, said, _ = await asyncio.to_thread(
                command, tmp_path, "--from", both.first, *more, f"{BASIN}/itself"
            )
            assert status == 1
            assert "are the same stream: name another server, or a --basin" in said[0]
            assert (await scene.config(scene.source), await scene.read(scene.source)) == before
        calls = WatchedClient(both.first)
        copy = StreamCopy(
            scene.ends[0],
            CopyEnd(calls, BASIN, "itself", patience()),
            tokens(),
            *UNHEARD,
        )
        with pytest.raises(CopyError, match="are the same stream"):
            await copy.run()
        # no producer was ever asked for a timestamp
        assert [method for method, _ in calls.asked if method != "GET"] == ["PATCH", "PATCH"]
        calls.close()


class _Lossy(CopyEnd):
    """An end that answers without its record 7."""

    async def pages(self, seq_num: int, end: int) -> AsyncGenerator[list[ReadRecord], None]:
        async for page in CopyEnd.pages(self, seq_num, end):
            yield [record for record in page if record.seq_num != 7]


@in_loop
async def test_a_record_that_is_missing_and_was_not_removed_is_a_difference(both: Both) -> None:
    """Here or there: it is named."""
    async with Scene(both, "lossy") as scene:
        await scene.append(scene.source, *numbered(20))
        await scene.copy()
        for lossy in range(2):
            ends = [
                (_Lossy if number == lossy else CopyEnd)(
                    end.client, end.basin, end.stream, end.patience
                )
                for number, end in enumerate(scene.ends)
            ]
            with pytest.raises(CopyError, match="record 7 of the source is another than record 7"):
                await StreamCopy(ends[0], ends[1], tokens(), *UNHEARD).run()


class _NoLists(CopyEnd):
    """An end whose token may not list streams, as that of a restored cluster with equal times: it
    says nothing by which two streams differ."""

    async def created_at(self) -> str | None:
        return None


@in_loop
async def test_streams_that_nothing_tells_apart_are_tried(both: Both) -> None:
    """Two streams are two, however they look: the copy goes on, and the configuration is right."""
    async with Scene(both, "two") as scene:
        await scene.append(scene.source, *numbered(3))
        ends = [_NoLists(end.client, end.basin, end.stream, end.patience) for end in scene.ends]
        for copied in (3, 0):
            result = await StreamCopy(ends[0], ends[1], tokens(), *UNHEARD).run()
            assert (result.copied, result.compared) == (copied, 3)
            assert await scene.config(scene.target) == await scene.config(scene.source)
