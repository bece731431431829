"""Copies from S2's own server to this one and back: S2_CLI=PATH, or `s2` on the PATH."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.client.client_errors import AwayError
from svc_cluster.client.definite_append import DefiniteAppender, RetryPatience
from svc_cluster.client.service_client import ServerAddress, ServiceClient
from svc_cluster.client.stream_reading import StreamBounds, StreamStart, read_pages
from svc_cluster.client.wire_records import AppendRecord, ReadRecord
from tests.contract.conftest import Server
from tests.integration.processes import in_loop

S2 = os.environ.get("S2_CLI") or shutil.which("s2")
BASIN, BACK = "lite-basin-one", "lite-basin-two"
STREAMS = ("one", "two")
RECORDS = 6000
KILLS = 6
END_S = 60.0

pytestmark = pytest.mark.skipif(S2 is None, reason="S2's command is not here (S2_CLI=PATH)")


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def lite(directory: Path, port: int) -> Iterator[str]:
    """S2's server, with its data in `directory`; killed at the end."""
    assert S2 is not None
    command = [S2, "lite", "--port", str(port), "--local-root", str(directory)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[ServiceClient]:
    client = ServiceClient(ServerAddress(url=url))
    try:
        yield client
    finally:
        client.close()


def patience() -> RetryPatience:
    return RetryPatience(SystemClock(), random.Random(1), END_S)


async def answers(client: ServiceClient) -> None:
    async with asyncio.timeout(END_S):
        while True:
            try:
                await client.call("GET", "/v1/basins")
            except AwayError:
                await asyncio.sleep(0.05)
            else:
                return


async def filled(client: ServiceClient, stream: str, first: int) -> None:
    numbers = random.Random()
    appender = DefiniteAppender(
        client, BASIN, stream, patience(), lambda: f"{numbers.getrandbits(100):x}"
    )
    for begin in range(first, first + RECORDS, 500):
        await appender.append(
            [
                AppendRecord(b"%d \x00\xff" % n * 20, ((b"k", b"%d" % n),))
                for n in range(begin, begin + 500)
            ]
        )


async def content(url: str, basin: str, stream: str) -> list[ReadRecord]:
    async with client_of(url) as client:
        pages = read_pages(
            client, basin, stream, StreamStart("seq_num", 0), StreamBounds(), patience()
        )
        return [record async for page in pages for record in page]


def copy(source: str, target: str, *rest: str) -> subprocess.Popen[str]:
    arguments = ["--from", source, "--to", target, "--patience", "30", *rest]
    return subprocess.Popen(
        [sys.executable, "-m", "svc_cluster", "copy", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def killed_and_repeated(rng: random.Random, source: str, target: str, *rest: str) -> str:
    """Copy; the command dies by SIGKILL some times, each a little later, before it may end. What
    the last one said."""
    killed = 0
    for number in range(KILLS):
        process = copy(source, target, *rest)
        try:
            process.wait(rng.uniform(0.2, 0.5) + 0.3 * number)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        said, _ = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), said
    assert killed >= 2, "the copies were done before they could be killed"
    process = copy(source, target, *rest)
    said, _ = process.communicate(timeout=END_S)
    assert process.returncode == 0, said
    return said


@in_loop
async def test_what_is_copied_from_lite_and_back_is_the_same(tmp_path: Path) -> None:
    """Streams of S2's server come here by commands that are killed, and go back into another
    basin of it, while that server is killed too: positions, timestamps, headers and bodies of
    every record are the same three times; what came meanwhile is brought by one copy more."""
    rng = random.Random(5)
    port = free_port()
    (tmp_path / "ours").mkdir()
    (tmp_path / "lite").mkdir()
    ours = Server(tmp_path / "ours", 10.0)
    own_url = f"http://127.0.0.1:{ours.port}"
    try:
        with lite(tmp_path / "lite", port) as url:
            async with client_of(url) as client:
                await answers(client)
                await client.call("PUT", f"/v1/basins/{BASIN}")
                for stream in STREAMS:
                    await client.call("PUT", f"/v1/streams/{stream}", basin=BASIN)
                    await filled(client, stream, 0)
            await asyncio.to_thread(killed_and_repeated, rng, url, own_url)
            there = {stream: await content(url, BASIN, stream) for stream in STREAMS}
            assert [len(each) for each in there.values()] == [RECORDS, RECORDS]
            for stream in STREAMS:
                assert await content(own_url, BASIN, stream) == there[stream]
            async with client_of(url) as client:
                await filled(client, "two", RECORDS)
            said = await asyncio.to_thread(killed_and_repeated, rng, url, own_url)
            assert f"{2 * RECORDS} compared" in said
            back = copy(own_url, url, "--basin", BACK, BASIN)
            await asyncio.to_thread(_wait_shortly, back)
            assert back.poll() is None, "the copy was done before the server could be killed"
        with lite(tmp_path / "lite", port) as url:
            async with client_of(url) as client:
                await answers(client)
            await asyncio.to_thread(back.communicate, timeout=END_S)
            assert back.returncode in (0, 1)
            await asyncio.to_thread(killed_and_repeated, rng, own_url, url, "--basin", BACK, BASIN)
            for stream, count in zip(STREAMS, (RECORDS, 2 * RECORDS), strict=True):
                found = await content(url, BACK, stream)
                assert len(found) == count
                assert found == await content(own_url, BASIN, stream)
    finally:
        ours.stop()


def _wait_shortly(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(0.7)
    except subprocess.TimeoutExpired:
        return
