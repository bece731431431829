"""`python -m tests.endurance.followers PORT BASIN STREAM COUNT`: so many followers of one stream.

They have a process of their own, so that what they read takes no time from whoever measures beside
them. It says when all of them have been answered; at the end of its input it prints one JSON object
of what they saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from dataclasses import dataclass
from typing import Final

RECORD: Final = b'"seq_num":'
"""Once for each record of an event, and once for the tail that each event names."""
TAIL: Final = b'"tail":'
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a head, or of one event: what is longer is none."""
READY: Final = "ready"
BEGIN_S_MAX: Final = 120.0
END_S_MAX: Final = 60.0
ADDRESSES: Final = 200
"""Of this machine, that connections come from: no limit of one address is what is measured."""


def address(number: int) -> str:
    return f"127.0.0.{2 + number % ADDRESSES}"


class Follower(asyncio.Protocol):
    """One connection, and the records that it was sent. A protocol: a stream's reader would take
    as much of a small machine as the gateway does."""

    def __init__(self, request: bytes) -> None:
        self.answered = asyncio.get_running_loop().create_future()
        self.records = 0
        self.gone = False
        self._request = request
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """A line that is not whole is kept until the rest of it is here."""
        data = self._rest + data
        assert len(data) <= LINE_BYTES_MAX, "neither the end of a head nor of an event"
        if not self.answered.done():
            if b"\r\n\r\n" not in data:
                self._rest = data
                return
            if not data.startswith(b"HTTP/1.1 200"):
                self.answered.set_exception(RuntimeError(data[:1000].decode(errors="replace")))
                return
            self.answered.set_result(None)
        # up to the last whole line: no name is cut
        whole, _, self._rest = data.rpartition(b"\n")
        self.records += whole.count(RECORD) - whole.count(TAIL)

    def connection_lost(self, cause: Exception | None) -> None:
        self.gone = True
        if not self.answered.done():
            self.answered.set_exception(cause or RuntimeError("ended before it was answered"))


async def main(port: int, basin: str, stream: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    request = (
        f"GET /v1/streams/{stream}/records?tail_offset=0 HTTP/1.1\r\nhost: localhost\r\n"
        f"svc-basin: {basin}\r\naccept: text/event-stream\r\n\r\n"
    ).encode()
    followers = []
    for number in range(count):  # one after the other: a listener's queue holds only so many
        _, follower = await loop.create_connection(
            lambda: Follower(request), "127.0.0.1", port, local_addr=(address(number), 0)
        )
        await follower.answered
        followers.append(follower)
    print(READY, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    gone = sum(follower.gone for follower in followers)
    records = [follower.records for follower in followers]
    print(json.dumps({"records": records, "gone": gone}), flush=True)


@dataclass(slots=True)
class Seen:
    """How many records followers were sent, each of them, and how many did not last."""

    records: list[int]
    gone: int


class Followers:
    """The process of so many followers, seen from outside."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def begun(cls, port: int, basin: str, stream: str, count: int) -> Followers:
        """Return when all of them have been answered."""
        process = await create_subprocess_exec(
            sys.executable,
            *("-m", __spec__.name, str(port), basin, stream, str(count)),
            stdin=PIPE,
            stdout=PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(BEGIN_S_MAX):
                assert (await process.stdout.readline()).decode().strip() == READY
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        return cls(process)

    async def end(self) -> Seen:
        """Raises TimeoutError if they do not end."""
        try:
            async with asyncio.timeout(END_S_MAX):
                out, _ = await self._process.communicate(b"")  # which closes its input
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            raise
        found = json.loads(out)
        return Seen(found["records"], found["gone"])


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
