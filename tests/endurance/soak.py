"""`python -m tests.endurance.soak --hours 2 [--record]`: mixed load and faults in one piece.

Writers that know what the streams must hold, watchers of their tails, readers and followers that
compare what they are sent, while nodes are killed, frozen for some seconds and sent away in order,
and the gateway is killed. Every acknowledged record is read back in the end. One node is never
killed, and the gateway only in the first half, so that a process is there that may grow: its
memory, descriptors, threads and disk are held against what they were. A process that ends without
being told to is a fault. Prints p99.9 and the longest stall.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, running
from tests.e2e.load import StreamWriter, quantile, set_up
from tests.endurance.readers import Findings, follow, read_ranges
from tests.endurance.sampling import SPARE, growth, sample
from tests.reliability import RunLog

BASIN: Final = "soak-basin"
WRITERS: Final = 6
FOLLOWERS: Final = 3
PAUSE_S: Final = 0.05
"""Of a writer between appends: what it keeps to compare with must fit its memory for hours."""
GROWN_S_MIN: Final = 600.0
"""A shorter run says nothing of growth: nodes that have just started fill their caches, and each
of their first segments of the log is a leap on the disk."""
STALL_S_MAX: Final = 20.0
"""No writer waits longer for its append, whatever has died."""
WHOLE_S: Final = 60.0
BYTES_FOR_ONE: Final = 2.0
"""On the disk for each byte that is kept: levels hold what compaction has not yet merged."""
SPARED: Final = 1
"""The node that lives as long as the run. It is frozen like any other."""
SAMPLES_MIN: Final = 30
"""Fewer say nothing of growth, and that is a fault."""
FAULTS: Final = ("kill node", "kill leader", "stop leader", "freeze node", "kill gateway")


@dataclass(slots=True)
class Soak:
    """One run; `play` gives the row of the record."""

    cluster: OwnCluster
    rng: random.Random
    seconds: float
    fault_pause_s: float
    sample_s: float
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kept: dict[str, list[float]] = field(default_factory=dict)
    """Samples of the spared node, and of the gateway since it is spared."""
    found: Findings = field(default_factory=Findings)
    begun: float = 0.0
    pids: dict[str, int] = field(default_factory=dict)
    """Of every process, when all of them were last known to be whole."""
    written: list[float] = field(default_factory=list)
    """MiB of bodies that were acknowledged, at each sample of the disk."""

    async def play(self) -> dict[str, Any]:
        load = Load(self.cluster.url, BASIN, writers=WRITERS, seed=self.rng.randrange(2**31))
        for writer in load.writers:
            writer.pause_s = PAUSE_S
        await set_up(self.cluster.url, BASIN, [writer.stream for writer in load.writers])
        load.start()
        await load.acknowledged(5, WHOLE_S)
        self.pids = self._pids()
        stop = asyncio.Event()
        self.begun = time.monotonic()
        parts = [read_ranges(load.writers, self.rng, self.found, stop)]
        parts += [follow(writer, self.found, stop) for writer in load.writers[:FOLLOWERS]]
        beside = [asyncio.create_task(each) for each in [*parts, self._watch(load.writers, stop)]]
        while (left := self.seconds - (time.monotonic() - self.begun)) > 0:
            await asyncio.sleep(min(left, self.rng.uniform(0.5, 1.5) * self.fault_pause_s))
            if time.monotonic() - self.begun < self.seconds:
                self._judge_pids("")
                hit = await self._fault()
                await self._whole(load, hit)
                self._judge_pids(hit)
            for task in beside:
                if task.done():
                    task.result()
        seconds = time.monotonic() - self.begun
        self._judge_pids("")
        stop.set()
        await asyncio.gather(*beside)
        await load.acknowledged(3, WHOLE_S)
        await load.stop()
        verdict = await load.verify()
        if not verdict.clean:
            self.wrong.append(str(verdict))
        waits = self._waits(load.writers)
        if seconds >= GROWN_S_MIN:
            self._grown()
        self.wrong += self.found.wrong
        return {
            "hours": round(seconds / 3600, 4),
            "appends": len(waits),
            "reads": self.found.reads,
            "read_records": self.found.records,
            "followed_records": self.found.followed,
            "p50_ms": round(1000 * quantile(waits, 0.5), 1),
            "p999_ms": round(1000 * quantile(waits, 0.999), 1),
            "stall_ms": round(1000 * max(waits)),
            "lost": verdict.missing,
            "doubled": verdict.duplicates,
            "written_mib": round(self.written[-1]) if self.written else 0,
            "injected": dict(sorted(self.faults.items())),
            "held": {name: _ends(values) for name, values in sorted(self.kept.items())},
            "faults": self.wrong,
        }

    def broken(self, error: BaseException) -> dict[str, Any]:
        """The row of a run that did not come to its end: it counts as a fault."""
        return {
            "hours": round((time.monotonic() - self.begun) / 3600, 4) if self.begun else 0.0,
            "appends": 0,
            "p999_ms": 0.0,
            "stall_ms": 0,
            "lost": 0,
            "injected": dict(sorted(self.faults.items())),
            "faults": [*self.wrong, *self.found.wrong, f"broken off: {error!r}"],
        }

    def _waits(self, writers: list[StreamWriter]) -> list[float]:
        """How long each append took, from its first attempt to the answer that settled it: from the
        end of the one before, without the pause."""
        waits: list[float] = []
        for writer in writers:
            known = None
            for outcome in writer.outcomes:
                begun = outcome.begun if known is None else min(outcome.begun, known + PAUSE_S)
                waits.append(max(0.0, outcome.known - begun))
                known = outcome.known
        if max(waits) > STALL_S_MAX:
            self.wrong.append(f"a writer waited {max(waits):.1f} s")
        return waits

    async def _watch(self, writers: list[StreamWriter], stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._sample(sum(writer.bytes_acknowledged for writer in writers) / 2**20)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.sample_s)

    def _sample(self, written_mib: float) -> None:
        found = [("node", sample(self.pids[f"node {SPARED}"], self._directory(SPARED)))]
        if self._gateway_is_spared():
            found.append(("gateway", sample(self.pids["gateway"], None)))
        for kind, seen in found:
            if seen is None:
                continue  # it has gone: its process id says so too
            for name in SPARE:
                self.kept.setdefault(f"{kind} {name}", []).append(getattr(seen, name))
            if kind == "node":
                self.written.append(written_mib)

    def _directory(self, node: int) -> Path:
        return self.cluster.directory / f"node-{node}"

    def _gateway_is_spared(self) -> bool:
        return time.monotonic() - self.begun > self.seconds / 2

    def _grown(self) -> None:
        """A process that is spared grows, or too little is known of it."""
        written = _warm(self.written)
        third = len(written) // 3
        more = statistics.median(written[-third:] or [0.0])
        more -= statistics.median(written[:third] or [0.0])
        for kind in ("node", "gateway"):
            for measure, spare in SPARE.items():
                values = _warm(self.kept.get(f"{kind} {measure}", []))
                if len(values) < SAMPLES_MIN:
                    self.wrong.append(f"{kind} {measure} was measured {len(values)} times")
                allowed = more * BYTES_FOR_ONE if measure == "disk_mib" else 0.0
                if grown := growth(values, spare, allowed):
                    self.wrong.append(f"{kind} {measure} grows from {grown}")

    def _pids(self) -> dict[str, int]:
        found = self.cluster.file()
        nodes = {f"node {node['id']}": int(node["pid"]) for node in found["nodes"]}
        return {"gateway": int(found["gateway"]["pid"]), **nodes}

    def _judge_pids(self, hit: str) -> None:
        """All processes are those that they were, but for the one that was `hit`."""
        now = self._pids()
        for name, pid in self.pids.items():
            if name != hit and now[name] != pid:
                self.wrong.append(f"{name} ended and nobody had told it to")
        self.pids = now

    async def _fault(self) -> str:
        """Strike once; returns which process is another one behind it, if any."""
        kind = self.rng.choice(FAULTS)
        if kind == "kill gateway" and self._gateway_is_spared():
            kind = "freeze node"
        cluster = self.cluster
        leader = await cluster.wait_leader(BASIN, WHOLE_S)
        node = leader if kind.endswith("leader") else self.rng.choice((1, 2, 3))
        if node == SPARED and kind != "kill gateway":
            kind = "freeze leader" if node == leader else "freeze node"
        self.faults[kind] += 1
        if kind == "kill gateway":
            os.kill(self.pids["gateway"], signal.SIGKILL)
            return "gateway"
        if kind.startswith("freeze"):
            pid = cluster.kill_node(node, signal.SIGSTOP)
            await asyncio.sleep(self.rng.uniform(1.0, 6.0))
            os.kill(pid, signal.SIGCONT)
            return ""
        cluster.kill_node(node, signal.SIGTERM if kind.startswith("stop") else signal.SIGKILL)
        return f"node {node}"

    async def _whole(self, load: Load, hit: str) -> None:
        """Until what was hit is another process, all are there, and every writer goes on."""
        async with asyncio.timeout(WHOLE_S):
            while hit and self._pids()[hit] in (self.pids[hit], 0):
                await asyncio.sleep(0.05)
        await self.cluster.wait_ready(WHOLE_S)
        await load.acknowledged(1, WHOLE_S)


def _warm(values: list[float]) -> list[float]:
    """Without the first quarter, in which caches fill."""
    return values[len(values) // 4 :]


def _ends(values: list[float]) -> list[int]:
    """The least, the last and the most."""
    return [round(min(values)), round(values[-1]), round(max(values))]


async def main(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    log = RunLog("soak")
    print(f"seed {seed}, {options.hours} hours", flush=True)
    with tempfile.TemporaryDirectory(prefix="svc-soak-") as scratch:
        async with running(Path(scratch) / "cluster") as cluster:
            soak = Soak(
                cluster,
                random.Random(f"soak/{seed}"),
                3600 * options.hours,
                options.fault_pause,
                options.sample,
            )
            try:
                row = await soak.play()
            except Exception as error:
                if options.record:
                    log.add({"seed": seed, **soak.broken(error)})
                raise
    print(json.dumps(row, indent=1))
    if options.record:
        log.add({"seed": seed, **row})
    return 1 if row["faults"] or row["lost"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--fault-pause", type=float, default=40.0, help="seconds between faults")
    parser.add_argument("--sample", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
