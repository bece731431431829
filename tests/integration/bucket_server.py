"""Stores of S3's language in processes of their own, and a line to them that fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

from svc_cluster.base.clock import SystemClock

MOTO = Path(sys.executable).parent / "moto_server"
REGION = "us-east-1"
START_LINES_MAX = 50
START_S = 20.0
ACCESS_KEY, SECRET_KEY = "nobody", "nothing"

Head = Callable[[bytes], bool]


def s3s_command() -> str | None:
    """The server of the crate s3s-fs, where S3S_FS or PATH lead to it."""
    return os.environ.get("S3S_FS") or shutil.which("s3s-fs")


class MortalStore:
    """A server of the crate s3s-fs that may be killed, and comes back with what it has."""

    def __init__(self, bucket: str, directory: Path) -> None:
        self._directory = directory
        (directory / bucket).mkdir()
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self._port = held.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        command = s3s_command()
        assert command is not None and self._process is None
        keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]
        place = ["--host", "127.0.0.1", "--port", str(self._port), str(self._directory)]
        self._process = subprocess.Popen(
            [command, *keys, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _wait_for(self._port)

    def kill(self) -> None:
        """By SIGKILL, whatever it does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None


@contextlib.contextmanager
def s3s_server(bucket: str, directory: Path) -> Iterator[str]:
    """The address of one that keeps its buckets in `directory` and checks signatures."""
    store = MortalStore(bucket, directory)
    try:
        yield store.url
    finally:
        store.kill()


def _wait_for(port: int) -> None:
    end = SystemClock().monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), START_S).close()
        except ConnectionRefusedError:
            assert SystemClock().monotonic() < end, "it does not listen"
        else:
            return


@contextlib.contextmanager
def bucket_server(bucket: str) -> Iterator[str]:
    """The address of one that has this bucket."""
    command = [str(MOTO), "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        try:
            found = None
            for line in itertools.islice(lines, START_LINES_MAX):
                found = re.search(r"http://127\.0\.0\.1:\d+", line)
                if found is not None:
                    break
            assert found is not None, "it does not say where it listens"
            # what it says of each request is let go, or it would wait for a reader
            silent = Thread(target=deque, args=(lines, 0), daemon=True)
            silent.start()
            urlopen(Request(f"{found[0]}/{bucket}", method="PUT"), timeout=10).close()
            yield found[0]
        finally:
            process.terminate()
            process.wait(10)
        silent.join(10)


def environment(url: str) -> dict[str, str]:
    """What tells a client where the store is, and who it is."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


@dataclass
class FailingLine:
    """What stands between client and store. Each exchange goes over a connection of its own."""

    url: str
    """The store's."""
    loses_answers_to: Head = lambda head: False
    """The store has done what was asked, and the client never hears of it."""
    refuses: Head = lambda head: False
    """It is answered 503 without the store."""
    hides: bytes = b""
    """A header, in lower case, that the store is not told."""
    failures_left: int = 0
    failed: list[bytes] = field(default_factory=list)
    """The first lines of what has failed."""

    async def exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            body = await reader.readexactly(0 if length is None else int(length[1]))
            fails = self.failures_left > 0 and (self.refuses(head) or self.loses_answers_to(head))
            if fails:
                self.failures_left -= 1
                self.failed.append(head.partition(b"\r\n")[0])
            if fails and self.refuses(head):
                writer.write(b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n")
            else:
                answer = await self._passed_on(head, body)
                if not fails:
                    writer.write(answer)
            await writer.drain()
        writer.close()

    async def _passed_on(self, head: bytes, body: bytes) -> bytes:
        host, _, port = self.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for header in (b"connection", self.hides):
            head = re.sub(rb"(?i)\r\n%b: [^\r]*" % (header or b"-"), b"", head)
        writer.write(head[:-2] + b"connection: close\r\n\r\n" + body)
        answer = await reader.read()
        writer.close()
        return answer


@contextlib.asynccontextmanager
async def failing_line(url: str) -> AsyncIterator[tuple[str, FailingLine]]:
    """An address that leads to the store, and what spoils the way."""
    line = FailingLine(url)
    server = await asyncio.start_server(line.exchange, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", line
    finally:
        server.close()
