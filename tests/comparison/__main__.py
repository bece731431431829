"""Peers beside this service, by the same load: `make compare`.

Three rounds, in each of which every scenario is run by every side, one after the other, each on
processes of its own that are there for nothing else. What is kept after each run is gone on from
when the command is given again; no run begins after `--minutes`. Peers that are not on PATH are
named, and nothing is fetched.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiError
from svc_cluster.lab.load.processes import disk_reference
from svc_cluster.lab.load.run import LoadError, Run
from svc_cluster.lab.load.scenarios import SCENARIOS, Scenario
from svc_cluster.lab.own_cluster import ClusterError
from tests.comparison.aims import aims_table
from tests.comparison.peers import OURS, PEERS, Peer, PeerError, ours
from tests.comparison.records import (
    Conditions,
    OneRun,
    Records,
    load,
    save,
    tables,
    trouble_of,
    written,
)

ROOT: Final = Path(__file__).parents[2]
RECORD: Final = ROOT / "docs/benchmarks/compare.json"
DOCUMENT: Final = ROOT / "docs/benchmarks.md"
ROUNDS: Final = 3
WARM_UP_S: Final = 5.0
SETTLE_S: Final = 2.0

APPENDS: Final = ("unary-1", "unary-16", "unary-64", "unary-256", "unary-64-slow-disk")
"""What every peer can be asked for."""
STREAMS: Final = (
    *("batches-kib", "session", "flat-out", "read-json", "read-session", "read-one"),
    *("follow", "followers", "beside-bulk"),
)
"""What needs a peer of the same interface."""


def conditions(options: argparse.Namespace) -> Conditions:
    """Raises CalledProcessError outside of a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}, Python "
    machine += platform.python_version()
    return Conditions(commit, machine, options.seconds, options.warm_up, options.scale)


def plan(chosen: list[str], peers: list[Peer]) -> list[tuple[Scenario, Peer | None]]:
    """The runs of one round: ours, then each peer that can take part, for each scenario that one
    can."""
    turns: list[tuple[Scenario, Peer | None]] = []
    for name in (*APPENDS, *STREAMS):
        able = [peer for peer in peers if name in APPENDS or peer.has_streams]
        if name in chosen and able:
            turns += [(SCENARIOS[name], None), *((SCENARIOS[name], peer) for peer in able)]
    return turns


async def once(
    scenario: Scenario, peer: Peer | None, place: Path, options: argparse.Namespace
) -> list[dict[str, object]]:
    """One run. Raises what says why there are no figures."""
    clock = SystemClock()
    delay = scenario.sync_delay_ms
    side = ours(place, clock, delay) if peer is None else peer.started(place, delay)
    async with side as target:
        run = Run(scenario, target, options.warm_up, clock, clock.wall_ms() % 1_000_000)
        await run.fill()
        await asyncio.sleep(SETTLE_S)
        return await run.measure()


def compare(options: argparse.Namespace, records: Records, peers: list[Peer]) -> int:
    """Run what is not there yet; returns how many runs were left out for want of time."""
    clock = SystemClock()
    end = clock.monotonic() + options.minutes * 60
    left = 0
    for round_number in range(options.rounds):
        for scenario, peer in plan(options.scenarios, peers):
            side = OURS if peer is None else peer.name
            if records.has(scenario.name, side, round_number):
                continue
            if clock.monotonic() > end:
                left += 1
                continue
            wanted = scenario.scaled(options.scale).changed({}, options.seconds)
            with tempfile.TemporaryDirectory(dir=options.directory) as place:
                one = side_run(wanted, peer, Path(place) / "side", round_number, options)
            records.add(one)
            save(options.record, records)
            rate = one.trouble or f"{one.rows[0]['requests_per_s']} requests/s"
            print(f"round {round_number + 1}: {scenario.name}, {side}: {rate}", flush=True)
    return left


def side_run(
    scenario: Scenario,
    peer: Peer | None,
    place: Path,
    round_number: int,
    options: argparse.Namespace,
) -> OneRun:
    """One side's run of a scenario; what keeps it from figures is kept in their place."""
    side = OURS if peer is None else peer.name
    if peer is not None:
        place.mkdir()
    try:
        rows = uvloop.run(once(scenario, peer, place, options))
    except (
        *(ApiError, ClusterError, ConnectionLostError, FileNotFoundError, LoadError, PeerError),
        TimeoutError,
    ) as cause:
        print(f"{scenario.name}, {side}: {cause!r}", file=sys.stderr)
        return OneRun(scenario.name, side, round_number, trouble=trouble_of(cause))
    return OneRun(scenario.name, side, round_number, rows)


def main(arguments: list[str] | None = None) -> int:
    """The command; its status is 0 when nothing was left out."""
    parser = argparse.ArgumentParser(prog="python -m tests.comparison", description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=[*APPENDS, *STREAMS])
    parser.add_argument("--peers", nargs="*", help="only these, by the beginning of their names")
    parser.add_argument("--seconds", type=float, help="of each run; otherwise the scenario's")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--directory", type=Path, help="on the disk in question")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--fresh", action="store_true", help="go on from nothing that is kept")
    options = parser.parse_args(arguments)
    unknown = set(options.scenarios) - {*APPENDS, *STREAMS}
    if unknown:
        parser.error(f"no peer is compared in {sorted(unknown)}")
    wanted = conditions(options)
    records = Records(wanted) if options.fresh else load(options.record, wanted)
    chosen = [
        peer
        for peer in PEERS
        if options.peers is None or any(peer.name.startswith(name) for name in options.peers)
    ]
    records.missing = {peer.name: peer.how_to for peer in PEERS if peer.needs() is None}
    for name, how in records.missing.items():
        print(f"not to be had: {name} ({how})")
    peers = [peer for peer in chosen if peer.needs() is not None]
    if not peers:
        print("no peer is here", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        records.disk_reference = disk_reference(Path(place), SystemClock())
    left = compare(options, records, peers)
    save(options.record, records)
    promises = {peer.name: peer.promise for peer in PEERS}
    text = tables(records, OURS, promises, aims_table(records, OURS))
    options.document.write_text(written(options.document.read_text(), text))
    if left:
        print(f"{left} runs are left: give the command again", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
