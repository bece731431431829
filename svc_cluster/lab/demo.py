"""`make demo`: a million records through three leader kills, then every one of them verified.

Its own cluster in a temporary directory; the standard library's sources, repeated until there were
at least 60 s of load and 1,000,000 records; three basins with different leaders, several writers.
Each third of the run kills one basin's leader with SIGKILL at a moment drawn from a printed seed.
Ambiguous appends are retried under match_seq_num. At the end the SHA-256 of each stream's bodies
must equal that of its files in order. Exits with 0 only if all of that holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.tasks import Tasks
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.lab.corpus import SourceFile, batches, standard_library
from svc_cluster.lab.own_cluster import ClusterError, OwnCluster

_BASINS: Final = 3
_BASINS_TRIED_MAX: Final = 12
_WRITERS_A_BASIN: Final = 2
_SET_UP_S: Final = 30.0
_RETRY_S: Final = 0.02
_PROGRESS_S: Final = 5.0
_APPEND_S: Final = 8.0
_RECOVER_S: Final = 30.0


class DemoError(Exception):
    """The demonstration found something that may not be."""


@dataclass(slots=True)
class Writer:
    """The only writer of one stream. It always knows the stream's tail."""

    api: ApiClient
    basin: str
    stream: str
    files: list[SourceFile]
    clock: Clock
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    tail: int = 0
    body_bytes: int = 0
    ambiguous: int = 0
    refused: int = 0
    success_times: list[tuple[float, float]] = field(default_factory=list)  # begun, known

    def records(self, go_on: asyncio.Event) -> Iterator[AppendRecord]:
        """The files again and again until `go_on` is cleared; always whole files."""
        while go_on.is_set():
            for file in self.files:
                if not go_on.is_set():
                    return
                yield from file.records()

    async def run(self, go_on: asyncio.Event) -> None:
        for batch in batches(self.records(go_on)):
            await self._append(list(batch))
            for record in batch:
                self.digest.update(record.body)
                self.body_bytes += len(record.body)
            self.tail += len(batch)
        self.api.close()

    async def _append(self, batch: list[AppendRecord]) -> None:
        """Append once, whatever happens to the answers. Raises DemoError on a wrong tail."""
        doubtful = False
        while True:
            begun = self.clock.monotonic()
            try:
                answer = await self.api.append(
                    self.basin, self.stream, batch, match_seq_num=self.tail, timeout_s=_APPEND_S
                )
            except ConnectionLostError as error:
                doubtful |= error.sent
                self.ambiguous += error.sent
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.status == 200:
                start = answer.json()["start"]["seq_num"]
                if start != self.tail:
                    raise DemoError(f"{self.stream}: acknowledged at {start}, not {self.tail}")
                self.success_times.append((begun, self.clock.monotonic()))
                return
            if answer.status == 412:
                actual = answer.json().get("seq_num_mismatch")
                if doubtful and actual == self.tail + len(batch):
                    return
                raise DemoError(f"{self.stream}: the tail is {actual}, not {self.tail}")
            if answer.status < 500 and answer.status not in {408, 429}:
                raise DemoError(f"{self.stream}: {answer.status} {answer.body!r}")
            if answer.headers.get("svc-side-effects") == "none":
                self.refused += 1
            else:
                doubtful = True
                self.ambiguous += 1
            await asyncio.sleep(_RETRY_S)


@dataclass(slots=True)
class ReadBack:
    """What reading a stream back found."""

    records: int = 0
    missing: int = 0
    duplicates: int = 0
    equal: bool = False


async def verify(writer: Writer, url: str) -> ReadBack:
    """Read a stream to its tail. Records are compared one by one with the files in order; a record
    that is expected later (or was there before) shifts the rest, so only the first difference is
    certain, and the digest decides."""
    api = ApiClient(url)
    found = ReadBack()
    digest = hashlib.sha256()
    always = asyncio.Event()
    always.set()
    expected = writer.records(always)
    position = 0
    while True:
        query = f"seq_num={position}&count=1000"
        answer = await api.insist(
            writer.clock,
            lambda query=query: api.read(writer.basin, writer.stream, query),
            accept=frozenset({200, 416}),
            deadline_s=_RECOVER_S,
        )
        records = decode_batch(answer.body) if answer.status == 200 else []
        if not records:
            break
        for record in records:
            if record.seq_num != position:
                raise DemoError(f"{writer.stream}: a gap from {position} to {record.seq_num}")
            position += 1
            digest.update(record.body)
            wanted = next(expected)
            if record.body != wanted.body or tuple(record.headers) != wanted.headers:
                found.missing += 1
    api.close()
    found.records = position
    found.missing += max(0, writer.tail - position)
    found.duplicates = max(0, position - writer.tail)
    found.equal = digest.digest() == writer.digest.digest()
    return found


class Demo:
    """One run."""

    def __init__(
        self, directory: Path, seed: int, seconds: float, records_min: int, console: Console
    ) -> None:
        self.clock = SystemClock()
        self.cluster = OwnCluster(directory, clock=self.clock)
        self.seed = seed
        self.seconds = seconds
        self.records_min = records_min
        self.console = console
        self.rng = random.Random(seed)
        self.writers: list[Writer] = []
        self.failures: list[BaseException] = []
        self.writing = Tasks(self.failures.append)
        self.showing = Tasks(self.failures.append)
        self.go_on = asyncio.Event()
        self.began = 0.0
        self.gaps: list[float] = []

    def say(self, text: str) -> None:
        elapsed = f"{self.clock.monotonic() - self.began:6.1f} s  " if self.began else ""
        self.console.print(elapsed + text, highlight=False, soft_wrap=True)

    async def run(self) -> bool:
        """Whether everything held."""
        self.say(f"[bold]svc-cluster demo[/], seed {self.seed} (repeat with --seed {self.seed})")
        self.cluster.start()
        try:
            await self.cluster.wait_ready()
            self.say(f"three nodes and a gateway are ready at {self.cluster.url}")
            basins = await self._basins()
            await self._writers(basins)
            self.go_on.set()
            self.began = self.clock.monotonic()
            for writer in self.writers:
                self.writing.spawn(writer.run(self.go_on), writer.stream)
            self.showing.spawn(self._progress(), "progress")
            await self._kills(basins)
            await self._until(lambda: self._loaded() and self.records >= self.records_min)
            self.go_on.clear()
            await self._until(lambda: len(self.writing) == 0)
            load_s = self.clock.monotonic() - self.began
            return await self._report(load_s)
        finally:
            await self.showing.cancel_all()
            await self.writing.cancel_all()
            self.cluster.stop()

    @property
    def records(self) -> int:
        return sum(writer.tail for writer in self.writers)

    def _loaded(self) -> bool:
        return self.clock.monotonic() - self.began >= self.seconds

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._check()

    async def _check(self) -> None:
        """Pass a little time. Raises DemoError when a background task failed."""
        if self.failures:
            raise DemoError(str(self.failures[0])) from self.failures[0]
        await asyncio.sleep(_RETRY_S)

    async def _basins(self) -> list[str]:
        """Three basins, led by three nodes if that can be had within a dozen tries."""
        api = ApiClient(self.cluster.url)
        chosen: dict[int, str] = {}
        others: list[str] = []
        for number in range(_BASINS_TRIED_MAX):
            basin = f"demo-basin-{number}"
            await api.make(self.clock, basin, None, _SET_UP_S)
            leader = await self.cluster.wait_leader(basin)
            if leader in chosen:
                others.append(basin)
            else:
                chosen[leader] = basin
            if len(chosen) == _BASINS:
                break
        api.close()
        basins = (list(chosen.values()) + others)[:_BASINS]
        self.say(f"basins {', '.join(basins)}, led by nodes {sorted(chosen)}")
        return basins

    async def _writers(self, basins: list[str]) -> None:
        files = standard_library()
        lines = sum(len(file.records()) for file in files)
        self.say(f"{len(files)} source files, {lines} records a round")
        count = len(basins) * _WRITERS_A_BASIN
        for number in range(count):
            basin = basins[number % len(basins)]
            stream = f"stdlib/{number}"
            api = ApiClient(self.cluster.url)
            await api.make(self.clock, basin, stream, _SET_UP_S)
            share = files[number::count]
            self.writers.append(Writer(api, basin, stream, share, self.clock))

    async def _progress(self) -> None:
        while self.go_on.is_set():
            await asyncio.sleep(_PROGRESS_S)
            mib = sum(writer.body_bytes for writer in self.writers) / 2**20
            doubts = sum(writer.ambiguous for writer in self.writers)
            self.say(f"{self.records:>9,} records  {mib:7.1f} MiB  {doubts} ambiguous")

    async def _kills(self, basins: list[str]) -> None:
        """One kill in each third of the load, at a moment drawn from the seed."""
        third = self.seconds / 3
        for number, basin in enumerate(basins):
            moment = self.began + third * (number + self.rng.uniform(0.15, 0.7))
            while self.clock.monotonic() < moment:
                await self._check()
            await self.cluster.wait_ready()
            leader = await self.cluster.wait_leader(basin)
            killed = self.clock.monotonic()
            pid = self.cluster.kill_node(leader)
            self.say(f"[red]SIGKILL[/] to node {leader} (process {pid}), leader of {basin}")
            ours = [writer for writer in self.writers if writer.basin == basin]
            deadline = killed + _RECOVER_S
            while True:
                first = min(
                    (known for w in ours for begun, known in w.success_times if begun > killed),
                    default=None,
                )
                if first is not None:
                    break
                if self.clock.monotonic() > deadline:
                    raise DemoError(f"no append to {basin} for {_RECOVER_S} s after the kill")
                await self._check()
            self.gaps.append(first - killed)
            self.say(f"first append to {basin} {first - killed:.2f} s after the kill")

    async def _report(self, load_s: float) -> bool:
        self.say("reading everything back")
        results = await asyncio.gather(*(verify(w, self.cluster.url) for w in self.writers))
        body_bytes = sum(writer.body_bytes for writer in self.writers)
        ambiguous = sum(writer.ambiguous for writer in self.writers)
        missing = sum(found.missing for found in results)
        duplicates = sum(found.duplicates for found in results)
        for writer, found in zip(self.writers, results, strict=True):
            verdict = "equal" if found.equal else "[red]DIFFERENT[/]"
            self.say(
                f"{writer.basin}/{writer.stream}: {found.records} records, sha256 "
                f"{writer.digest.hexdigest()[:16]}... {verdict}"
            )
        self.console.print()
        rows = {
            "records": f"{self.records:,}",
            "bytes": f"{body_bytes:,}",
            "MiB/s": f"{body_bytes / load_s / 2**20:.2f}",
            "seconds of load": f"{load_s:.1f}",
            "refused without effect": f"{sum(writer.refused for writer in self.writers)}",
            "ambiguous outcomes": f"{ambiguous}",
            "without a leader": ", ".join(f"{gap:.2f} s" for gap in self.gaps),
            "missing": f"{missing}",
            "duplicates": f"{duplicates}",
        }
        for name, value in rows.items():
            self.console.print(f"  {name:<24}{value}", highlight=False)
        held = all(found.equal for found in results) and missing == 0 and duplicates == 0
        if ambiguous == 0:
            self.console.print("[red]no outcome was ambiguous: the kills hit nothing[/]")
        return held and ambiguous > 0


def demo(
    seed: Annotated[
        int | None, typer.Option(help="When the kills happen; drawn if absent.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=3.0, help="Least seconds of load.")] = 60.0,
    records: Annotated[int, typer.Option(min=1, help="Least number of records.")] = 1_000_000,
) -> None:
    """Load a cluster of its own, kill leaders, and verify every record."""
    console = Console()
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "big")
    with tempfile.TemporaryDirectory(prefix="svc-cluster-demo-") as directory:
        run = Demo(Path(directory) / "cluster", seed, seconds, records, console)
        try:
            held = uvloop.run(run.run())
        except (DemoError, ClusterError) as error:
            console.print(f"[red]failed:[/] {error}")
            held = False
    console.print("[green]all held[/]" if held else "[red]FAILED[/]")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    typer.run(demo)
