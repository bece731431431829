"""What an append crosses: `python -m tests.benchmarks.append_path`.

Nodes and a gateway run in this process, with real links, files and syncs between them, and every
Python call of every thread is traced while one append after another is made over HTTP/1.1.
Printed is a JSON object with, for the gateway's room, the HTTP library below it, both together and
the whole package: the files and the Python calls that every one of the appends has, and how many
frames of the room stand on each other at the deepest. While one is
under way the event loop's clock stands still, and the package's with it: no heartbeat, ping or
gauge is among what is traced, and nobody finds that the loop is late.
`--files` lists the files and the functions with their calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, Final

import svc_cluster
from svc_cluster.base import clock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.gateway_links import GatewayLinks
from svc_cluster.cli.processes.gateway_process import start_gateway
from svc_cluster.cli.processes.node_process import RunningNode
from svc_cluster.settings import GatewaySettings, NodeSettings

APPENDS: Final = 30
WARM_UP: Final = 20
SETTLE_SECONDS: Final = 0.05
BETWEEN_SECONDS: Final = 0.1
READY_SECONDS: Final = 60.0
ROOT: Final = str(Path(svc_cluster.__file__).parent) + "/"
ROOMS: Final = {
    "gateway": ("gateway/",),
    "http": ("http/",),
    "gateway and http": ("gateway/", "http/"),
    "whole": ("",),
}


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be stopped, and with it every timer."""

    def __init__(self) -> None:
        self._stopped_at: float | None = None
        self._behind = 0.0
        super().__init__()

    def time(self) -> float:
        if self._stopped_at is not None:
            return self._stopped_at
        return super().time() - self._behind

    def lend_clock(self) -> None:
        """From now on what the package takes for monotonic time is this loop's: a gateway whose
        loop seems to lag behind its clock refuses requests."""
        vars(clock)["time"] = SimpleNamespace(monotonic=self.time, time_ns=time.time_ns)

    def stop_clock(self) -> None:
        self._stopped_at = self.time()

    def go_on(self) -> None:
        """The time that passed meanwhile is left out."""
        assert self._stopped_at is not None, "the clock stands still"
        self._behind = super().time() - self._stopped_at
        self._stopped_at = None

    async def settle(self) -> None:
        """Return when what is under way, with its syncs, has had the time to end."""
        await self.run_in_executor(None, time.sleep, SETTLE_SECONDS)


class Trace:
    """What is called in the package, by any thread."""

    def __init__(self) -> None:
        self._is_on = False
        self._calls: Counter[CodeType] = Counter()
        self._depths: dict[str, int] = {}
        self._file_of: dict[CodeType, str | None] = {}

    def start(self) -> None:
        """This thread is looked at, and those that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def begin(self) -> None:
        """Forget what was called so far; from now on calls are noted."""
        self._calls, self._depths = Counter(), dict.fromkeys(ROOMS, 0)
        self._is_on = True

    def end(self) -> tuple[Counter[CodeType], dict[str, int]]:
        """The calls by function since `begin`, and the deepest stack of each room."""
        self._is_on = False
        return self._calls, self._depths

    def file(self, code: CodeType) -> str | None:
        """The path inside the package; None: it is not of the package."""
        if code not in self._file_of:
            name = code.co_filename
            ours = name.startswith(ROOT) and "/_pb/" not in name
            self._file_of[code] = name.removeprefix(ROOT) if ours else None
        return self._file_of[code]

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if not self._is_on or event != "call" or self.file(frame.f_code) is None:
            return
        self._calls[frame.f_code] += 1
        depths = dict.fromkeys(ROOMS, 0)
        at: FrameType | None = frame
        while at is not None:
            file = self.file(at.f_code)
            if file is not None:
                for room, beginnings in ROOMS.items():
                    depths[room] += file.startswith(beginnings)
            at = at.f_back
        for room, depth in depths.items():
            self._depths[room] = max(self._depths[room], depth)


def summary(
    trace: Trace, taken: list[tuple[Counter[CodeType], dict[str, int]]], *, files: bool
) -> dict[str, Any]:
    """What each of the appends has at least."""
    calls = taken[0][0]
    for others, _ in taken[1:]:
        calls &= others
    by_file: Counter[str] = Counter()
    for code, count in calls.items():
        file = trace.file(code)
        assert file is not None, "only the package is traced"
        by_file[file] += count
    told: dict[str, Any] = {}
    for room, beginnings in ROOMS.items():
        within = {file: count for file, count in by_file.items() if file.startswith(beginnings)}
        told[room] = {
            "files": len(within),
            "calls": sum(within.values()),
            "depth": min(depths[room] for _, depths in taken),
        }
    if files:
        told["files"] = dict(sorted(by_file.items()))
        ever = {trace.file(code) or "" for others, _ in taken for code in others}
        told["files of any"] = sorted(ever)
        told["functions"] = {
            f"{trace.file(code)}:{code.co_qualname}": count
            for code, count in sorted(
                calls.items(), key=lambda each: (trace.file(each[0]) or "", each[0].co_firstlineno)
            )
        }
    return told


class Cluster:
    """Nodes and a gateway in this process, as the commands start them."""

    def __init__(self, directory: Path, nodes: int, traces_endpoint: str | None = None) -> None:
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32) + "\n")
        secret.chmod(0o600)
        self._held = HeldPorts(2 * nodes + 1)
        ports = self._held.numbers
        self.port = ports[-1]
        addresses = {str(i + 1): f"127.0.0.1:{ports[i]}" for i in range(nodes)}
        cluster_id = secrets.token_hex(16)
        self._nodes = []
        for i in range(nodes):
            (directory / f"node-{i + 1}").mkdir(mode=0o700)
            self._nodes.append(
                RunningNode(
                    NodeSettings(
                        cluster_id=cluster_id,
                        node_id=i + 1,
                        data_dir=str(directory / f"node-{i + 1}"),
                        nodes=addresses,
                        secret_file=str(secret),
                        admin_address=f"127.0.0.1:{ports[nodes + i]}",
                        replication_factor=min(nodes, 3),
                        disk_reserve_mib=1,
                        traces_endpoint=traces_endpoint,
                    )
                )
            )
        self._settings = GatewaySettings(
            cluster_id=cluster_id,
            nodes=addresses,
            secret_file=str(secret),
            port=self.port,
            traces_endpoint=traces_endpoint,
        )

    async def __aenter__(self) -> Cluster:
        for node in self._nodes:
            await node.start()
        sessions = GatewayLinks(self._settings, random.SystemRandom()).sessions
        self._gateway = await start_gateway(self._settings, sessions)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._gateway.close()
        for node in self._nodes:
            await node.close()


class Client:
    """HTTP/1.1 over one connection, with nothing of the package."""

    async def connect(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)

    async def request(
        self, method: str, path: str, basin: str | None, body: bytes, *headers: str
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. `headers` are lines."""
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n"
        if basin is not None:
            head += f"svc-basin: {basin}\r\n"
        head += "".join(f"{line}\r\n" for line in headers)
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = answer.partition("content-length:")[2].partition("\r\n")[0]
        return int(answer.split()[1]), await self._reader.readexactly(int(length or "0"))

    async def until_done(self, *request: Any) -> None:
        """Ask until it is answered with success."""
        async with asyncio.timeout(READY_SECONDS):
            while (await self.request(*request))[0] >= 300:
                await asyncio.sleep(0.1)

    def close(self) -> None:
        self._writer.close()


async def measure(
    directory: Path,
    *,
    nodes: int,
    files: bool,
    traces_endpoint: str | None = None,
    headers: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Trace the appends of one connection to one stream, when all is warm. `headers`: lines that
    each of them has; `traces_endpoint`: where the cluster sends spans to."""
    trace = Trace()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop), "its clock can be stopped"
    loop.lend_clock()
    # the threads of the disk and of the state store start with the cluster
    trace.start()
    try:
        async with Cluster(directory, nodes, traces_endpoint) as cluster:
            client = Client()
            await client.connect(cluster.port)
            basin = "append-path"
            await client.until_done("PUT", f"/v1/basins/{basin}", None, b"{}")
            await client.until_done("PUT", "/v1/streams/traced", basin, b"{}")
            batch = json.dumps({"records": [{"body": "aGVsbG8="}]}).encode()
            append: tuple[Any, ...] = ("POST", "/v1/streams/traced/records", basin, batch, *headers)
            for _ in range(WARM_UP):
                await client.until_done(*append)
            taken: list[Any] = []
            refused = 0
            while len(taken) < APPENDS:
                loop.stop_clock()
                await loop.settle()
                trace.begin()
                status, answer = await client.request(*append)
                await loop.settle()  # the slower follower has it too
                path = trace.end()
                if status == 503 and refused < APPENDS:
                    refused += 1  # the machine has so much else to do that the gateway sheds
                else:
                    assert status == 200, f"the append was made: {status} {answer.decode()}"
                    taken.append(path)
                loop.go_on()
                await asyncio.sleep(BETWEEN_SECONDS)
            client.close()
    finally:
        trace.stop()
    return summary(trace, taken, files=files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3, help="1 or 3; the default is 3")
    parser.add_argument("--files", action="store_true", help="list files and functions too")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        asyncio.Runner(loop_factory=Loop) as runner,
    ):
        told = runner.run(measure(Path(directory), nodes=arguments.nodes, files=arguments.files))
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
