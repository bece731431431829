"""This tree beside an earlier commit, in one run: `python -m tests.benchmarks.beside_commit COMMIT
[unary-1 unary-64] [--rounds 3] [--write]`, some 4 minutes for three rounds of two scenarios.

The commit is unpacked into a directory of its own, with an environment of its own from its locks
(that needs the package index), and both run a local cluster of three nodes that asks for access
tokens, at the same time. The scenarios of `svc-cluster bench` are measured on one and on the other
by turns, by this tree's generator; who comes first changes with each round. Printed are medians and
the ratios round by round; with `--write` they go into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from svc_cluster.cli.local.ports import HeldPorts
from tests.benchmarks.marked_page import write_between

ROOT: Final = Path(__file__).resolve().parents[2]
MEASURES: Final = (
    ("requests_per_s", "a second"),
    ("p50_ms", "p50 ms"),
    ("cpu_us_per_request", "processor us"),
)
READY_S: Final = 90.0
STOP_S: Final = 30.0
SETTLE_S: Final = 3.0
"""For leads to be where they stay."""
SIDES: Final = ("before", "now")

Figures = dict[str, float]


@dataclass(slots=True)
class Cluster:
    """A local cluster of one of both trees."""

    tree: Path
    python: Path
    directory: Path
    port: int

    @contextmanager
    def running(self) -> Iterator[None]:
        """Raises TimeoutError where it is not ready in time."""
        self.directory.mkdir(parents=True)
        command = [str(self.python), "-m", "svc_cluster", "local", "--port", str(self.port)]
        command += ["--data-dir", str(self.directory / "data"), "--auth"]
        command += ["--root-token-file", str(self.directory / "token")]
        with (self.directory / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=self.tree, stdout=log, stderr=log)
        try:
            self._wait_ready()
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait_ready(self) -> None:
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        raise TimeoutError((self.directory / "log").read_text(errors="replace")[-500:])

    def measure(self, scenario: str, seconds: float) -> Figures:
        """One run of a scenario, by the generator of this tree."""
        command = [sys.executable, "-m", "svc_cluster", "bench", "run", scenario, "--json"]
        command += ["--seconds", str(seconds), "--url", f"http://127.0.0.1:{self.port}"]
        command += ["--token-file", str(self.directory / "token")]
        command += ["--cluster-dir", str(self.directory / "data")]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
        row = json.loads(done.stdout)["rows"][0]
        assert not row["errors"], row["errors"]
        return {name: float(row[name]) for name, _ in MEASURES}


@dataclass(slots=True)
class Found:
    """What one scenario gave, round by round."""

    scenario: str
    rounds: list[dict[str, Figures]] = field(default_factory=list)

    def row(self) -> list[str]:
        cells = [self.scenario]
        for name, _ in MEASURES:
            before, now = (median(one[side][name] for one in self.rounds) for side in SIDES)
            ratios = sorted(one["now"][name] / one["before"][name] for one in self.rounds)
            spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
            cells += [f"{before:,.6g}", f"{now:,.6g}", f"{median(ratios):.2f} ({spread})"]
        return cells


def unpack(commit: str, place: Path) -> Path:
    """The commit's tree, and the interpreter of an environment with what it wants."""
    tree = place / "tree"
    tree.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
    subprocess.run(
        ["make", "--no-print-directory", "setup"], cwd=tree, stdout=subprocess.DEVNULL, check=True
    )
    return tree / ".venv" / "bin" / "python"


def measure(commit: str, scenarios: Sequence[str], rounds: int, seconds: float) -> list[Found]:
    found = [Found(scenario) for scenario in scenarios]
    with tempfile.TemporaryDirectory(prefix="svc-beside-") as place, ExitStack() as stack:
        python = unpack(commit, Path(place) / "earlier")
        ports = HeldPorts(2)
        before, now = ports.numbers
        ports.close()
        clusters = {
            "before": Cluster(python.parents[2], python, Path(place) / "before", before),
            "now": Cluster(ROOT, Path(sys.executable), Path(place) / "now", now),
        }
        for side in SIDES:
            stack.enter_context(clusters[side].running())
        time.sleep(SETTLE_S)
        for number in range(rounds):
            for one in found:
                order = SIDES if number % 2 else SIDES[::-1]
                one.rounds.append(
                    {side: clusters[side].measure(one.scenario, seconds) for side in order}
                )
    return found


def table(commit: str, found: Sequence[Found], seconds: float) -> list[str]:
    head = ["scenario"]
    for _, unit in MEASURES:
        head += [f"{unit}, before", "now", "ratio"]
    rows = [head, ["---"] * len(head), *(one.row() for one in found)]
    now = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.strip()
    return [
        f"On {datetime.now(UTC).date()}, `{commit}` beside `{now}`: {len(found[0].rounds)} rounds "
        f"of {seconds:g} s, {os.cpu_count()} processors, Python {sys.version.split()[0]}.",
        "",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("scenarios", nargs="*", default=["unary-1", "unary-64"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of each run, behind 5 of warm-up"
    )
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    found = measure(options.commit, options.scenarios, options.rounds, options.seconds)
    lines = table(options.commit, found, options.seconds)
    print("\n".join(lines))
    if options.write:
        write_between("before", lines)


if __name__ == "__main__":
    main()
