"""`python -m tests.endurance.soak --hours 2 [--record]`: mixed load and faults in one piece.

Writers that know what the streams must hold, watchers of their tails, readers and followers, while
nodes are killed, stopped for some seconds and sent away in order, and the gateway is killed. Every
acknowledged record is read back in the end. Memory, descriptors, threads and disk of each kind of
process are held against what they were; prints p99.9 and the longest stall.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, running
from tests.e2e.load import StreamWriter, quantile, set_up
from tests.endurance.sampling import SPARE, growth, sample
from tests.reliability import RunLog

BASIN: Final = "soak-basin"
WRITERS: Final = 6
PAUSE_S: Final = 0.05
"""Of a writer between appends: what it keeps to compare with must fit its memory for hours."""
GROWN_S_MIN: Final = 600.0
"""A shorter run says nothing of growth: nodes that have just started fill their caches, and each
of their first segments of the log is a leap on the disk."""
STALL_S_MAX: Final = 20.0
"""No writer waits longer for its append, whatever has died."""
WHOLE_S: Final = 60.0
BYTES_AN_APPEND: Final = 4096
"""About what an append of these writers leaves in the log and in the store of a node."""
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
    appends: list[float] = field(default_factory=list)
    reads: int = 0

    async def play(self) -> dict[str, Any]:
        load = Load(self.cluster.url, BASIN, writers=WRITERS, seed=self.rng.randrange(2**31))
        for writer in load.writers:
            writer.pause_s = PAUSE_S
        await set_up(self.cluster.url, BASIN, [writer.stream for writer in load.writers])
        load.start()
        await load.acknowledged(5, WHOLE_S)
        stop = asyncio.Event()
        beside = [
            asyncio.create_task(part)
            for part in (self._read(load.writers, stop), self._watch(load.writers, stop))
        ]
        begun = time.monotonic()
        while (left := self.seconds - (time.monotonic() - begun)) > 0:
            await asyncio.sleep(min(left, self.rng.uniform(0.5, 1.5) * self.fault_pause_s))
            if time.monotonic() - begun < self.seconds:
                await self._fault()
                await self._whole(load)
            for task in beside:
                if task.done():
                    task.result()
        seconds = time.monotonic() - begun
        stop.set()
        await asyncio.gather(*beside)
        await load.acknowledged(3, WHOLE_S)
        await load.stop()
        verdict = await load.verify()
        if not verdict.clean:
            self.wrong.append(str(verdict))
        waits = self._waits(load.writers)
        if seconds >= GROWN_S_MIN:
            self._grown(sum(len(writer.outcomes) for writer in load.writers))
        return {
            "hours": round(seconds / 3600, 4),
            "appends": len(waits),
            "reads": self.reads,
            "p50_ms": round(1000 * quantile(waits, 0.5), 1),
            "p999_ms": round(1000 * quantile(waits, 0.999), 1),
            "stall_ms": round(1000 * max(waits)),
            "lost": verdict.missing,
            "doubled": verdict.duplicates,
            "injected": dict(sorted(self.faults.items())),
            "held": {name: _ends(values) for name, values in sorted(self.kept.items())},
            "faults": self.wrong,
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

    async def _read(self, writers: list[StreamWriter], stop: asyncio.Event) -> None:
        """Ranges of what was acknowledged, all the time: as it was, at every place."""
        api = ApiClient(self.cluster.url)
        try:
            while not stop.is_set():
                writer = self.rng.choice(writers)
                there = len(writer.log)
                start = self.rng.randint(0, max(0, there - 1))
                with contextlib.suppress(ConnectionLostError):
                    answer = await api.read(
                        writer.basin, writer.stream, f"seq_num={start}&count=20"
                    )
                    if answer.status == 200:
                        self.reads += 1
                await asyncio.sleep(PAUSE_S)
        finally:
            api.close()

    async def _watch(self, _writers: list[StreamWriter], stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._sample()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.sample_s)

    def _sample(self) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            found = self.cluster.file()
            gateway = sample(int(found["gateway"]["pid"]), None)
            nodes = [
                sample(int(node["pid"]), self.cluster.directory / f"node-{node['id']}")
                for node in found["nodes"]
            ]
            for kind, samples in (("gateway", [gateway]), ("node", nodes)):
                whole = [each for each in samples if each is not None]
                if len(whole) < len(samples):
                    continue  # one is down: it says nothing of the others
                for name in SPARE:
                    self.kept.setdefault(f"{kind} {name}", []).append(
                        max(getattr(each, name) for each in whole)
                    )

    def _grown(self, appends: int) -> None:
        for name, values in self.kept.items():
            measure = name.split()[1]
            allowed = appends * BYTES_AN_APPEND / 2**20 if measure == "disk_mib" else 0.0
            found = growth(values, SPARE[measure], allowed)
            if found:
                self.wrong.append(f"{name} grows from {found}")

    async def _fault(self) -> None:
        kind = self.rng.choice(FAULTS)
        self.faults[kind] += 1
        cluster = self.cluster
        if kind == "kill gateway":
            os.kill(int(cluster.file()["gateway"]["pid"]), signal.SIGKILL)
            return
        leader = await cluster.wait_leader(BASIN, WHOLE_S)
        others = [int(node["id"]) for node in cluster.file()["nodes"]]
        node = leader if kind.endswith("leader") else self.rng.choice(others)
        if kind == "freeze node":
            pid = cluster.kill_node(node, signal.SIGSTOP)
            await asyncio.sleep(self.rng.uniform(1.0, 6.0))
            os.kill(pid, signal.SIGCONT)
            return
        cluster.kill_node(node, signal.SIGTERM if kind.startswith("stop") else signal.SIGKILL)

    async def _whole(self, load: Load) -> None:
        """Until every process is there again and every writer goes on."""
        await self.cluster.wait_ready(WHOLE_S)
        await load.acknowledged(1, WHOLE_S)


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
            row = await soak.play()
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
