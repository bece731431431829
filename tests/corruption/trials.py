"""Many trials in a row, of every kind, and what they came to."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.corruption import damage
from tests.corruption.cluster_trial import Result, run_trial
from tests.corruption.dataset import NODES, Dataset
from tests.corruption.wal_trial import WalTrials

CLUSTER_SHARE: Final = 0.2
"""Share of trials with whole clusters and damage to one of its nodes; with a quarter of that, all
nodes are damaged. The others open one node's log."""

PATIENCE_S: Final = 15.0
PATIENCE_ALL_S: Final = 6.0


@dataclass(slots=True)
class Totals:
    """`found`: a damaged log was opened and its groups were known to be damaged. `truncated`: a
    torn tail was cut off. `refused`: of a cluster in which too much was damaged to serve all."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    trials: int = 0
    seconds: float = 0.0
    repair_seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str, detail: str) -> None:
        self.trials += 1
        self.outcomes[outcome] += 1
        self.kinds[f"{kind}: {outcome}"] += 1
        if outcome in ("wrong", "fault"):
            self.failures.append(f"{kind}: {outcome}: {detail}")

    def row(self) -> dict[str, Any]:
        """One line of docs/reliability/corruption.jsonl, apart from commit and date."""
        names = ("repaired", "refused", "found", "truncated", "unharmed", "fault")
        slowest = max(self.repair_seconds, default=0.0)
        return {
            "trials": self.trials,
            "silently_wrong": self.outcomes["wrong"],
            **{name: self.outcomes[name] for name in names},
            "slowest_repair_s": slowest,
            "seconds": round(self.seconds, 1),
            "kinds": dict(sorted(self.kinds.items())),
        }


class Trials:
    """Trials on copies of one data set, below `scratch`."""

    def __init__(self, dataset: Dataset, scratch: Path, seed: int) -> None:
        self._dataset = dataset
        self._scratch = scratch
        self._seed = seed
        self._logs: dict[int, WalTrials] = {}

    def run(self, count: int, clusters: int | None, say: Callable[[str], None]) -> Totals:
        """`count` trials, spread over all kinds, `clusters` of them with whole clusters."""
        totals = Totals()
        began = time.monotonic()
        if clusters is None:
            clusters = round(count * CLUSTER_SHARE)
        for number in range(count - clusters):
            self.one_log(number, totals)
        for number in range(clusters):
            self.one_cluster(number, totals)
            say(f"{totals.trials} of {count}: {dict(totals.outcomes)}")
        totals.seconds = time.monotonic() - began
        return totals

    def one_log(self, number: int, totals: Totals) -> None:
        """Open one node's damaged log; every fifth has a torn tail."""
        rng = random.Random(f"{self._seed}/log/{number}")
        node = NODES[number % len(NODES)]
        if node not in self._logs:
            self._logs[node] = WalTrials(self._dataset, node, self._scratch / "logs")
        if number % 5 == 4:
            distance, fill = rng.randint(1, damage.TAIL_BYTES), rng.choice(("zeros", "garbage"))
            self._note("log torn", self._logs[node].torn(distance, fill), totals)
        else:
            kind = list(damage.WAL)[number % len(damage.WAL)]
            self._note(f"log {kind}", self._logs[node].damaged(kind, rng.getrandbits(32)), totals)

    def torn_tails(self, node: int, stride: int, totals: Totals) -> None:
        """One node's log torn at every `stride`-th byte of its last 64 KiB."""
        trials = WalTrials(self._dataset, node, self._scratch / "torn")
        for distance in range(1, damage.TAIL_BYTES + 1, stride):
            fill = ("zeros", "garbage")[distance // stride % 2]
            self._note("log torn", trials.torn(distance, fill), totals)

    def one_cluster(self, number: int, totals: Totals) -> None:
        """Start a cluster on damaged directories; in every fifth, all nodes are damaged."""
        rng = random.Random(f"{self._seed}/cluster/{number}")
        directory = self._scratch / "cluster"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._dataset.copy(directory)
        if number % 5 == 4:
            kinds = [rng.choice(list(damage.ALL)) for _ in NODES]
            what = [
                self._hurt(directory, node, kind, rng)
                for node, kind in zip(NODES, kinds, strict=True)
            ]
            result = run_trial(self._dataset, directory, "; ".join(what), PATIENCE_ALL_S)
            self._note("all nodes", result, totals)
            return
        names = [*damage.ALL, "torn"]
        kind = names[(number - number // 5) % len(names)]
        what = [self._hurt(directory, rng.choice(NODES), kind, rng)]
        result = run_trial(self._dataset, directory, what[0], PATIENCE_S)
        if result.outcome == "refused":
            result.outcome = "fault"  # the two others have everything
        if result.outcome == "repaired":
            totals.repair_seconds.append(result.seconds)
        self._note(f"one node {kind}", result, totals)

    @staticmethod
    def _hurt(directory: Path, node: int, kind: str, rng: random.Random) -> str:
        place = directory / f"node-{node}"
        if kind == "torn":
            distance = rng.randint(1, damage.TAIL_BYTES)
            what = damage.torn_tail(place, distance, rng.choice(("zeros", "garbage")), rng)
        else:
            what = damage.ALL[kind](place, rng)
        return f"node {node}: {what}"

    @staticmethod
    def _note(kind: str, result: Any, totals: Totals) -> None:
        outcome = result.outcome
        if kind.startswith("log") and outcome == "refused":
            outcome = "found"
        detail = f" ({result.detail})" if isinstance(result, Result) and result.detail else ""
        totals.add(kind, outcome, result.what + detail)
