"""`python -m tests.prove --hours 8`: every long run in turns until the time is over.

Each turn is one piece of at most 40 minutes, recorded in docs/reliability as it comes. The next
call goes on behind the last turn, whichever way that ended; no seed is ever played twice.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.json_lines import read_rows
from tests.prove.pieces import PIECE_SECONDS_MAX, PIECES, Piece
from tests.prove.scorecard import current_card, read_logs
from tests.prove.turns import next_piece, next_seed
from tests.reliability import DIRECTORY, ROOT, RunLog

LOG: Final = "turns"
OUTPUT: Final = ROOT / "build" / "prove"
KILL_AFTER_S: Final = 20.0
"""A piece that was told to end has this long."""


@dataclass(frozen=True, slots=True)
class Ended:
    """`status` is None of a piece that was cut."""

    status: int | None
    seconds: float


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="nothing runs longer than this")
    parser.add_argument("--only", default="", help="core,chaos: only these pieces")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes of a piece"
    )
    parser.add_argument("--commit", action="store_true", help="commit the records of each turn")
    parser.add_argument("--list", action="store_true", help="only say which pieces there are")
    return parser.parse_args()


def run_piece(
    command: list[str], variables: dict[str, str], output: Path, seconds_max: float
) -> Ended:
    """The piece in a process group of its own, cut when its time is over."""
    output.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with output.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | variables,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
    return Ended(status, round(time.monotonic() - began, 1))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of the group is left, not even of a piece that ended by itself."""
    for number, patience in ((signal.SIGTERM, KILL_AFTER_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def take_turn(piece: Piece, jobs: int, seconds_max: float) -> Ended:
    """Begun is written before it runs: a turn that is killed has used its seeds all the same."""
    turns = RunLog(LOG, kind="simulation")
    rows = turns.rows()
    serial = turns.last("turn") + 1
    fields: dict[str, Any] = {"turn": serial, "piece": piece.name}
    first = 0
    if piece.family:
        first = next_seed(piece.family, read_logs(), rows)
        fields |= {"family": piece.family, "seeds": [first, first + piece.count]}
    turns.add(fields | {"state": "begun"})
    print(f"turn {serial}: {piece.name} {fields.get('seeds', '')}", flush=True)
    output = OUTPUT / f"{serial:05}-{piece.name}.log"
    ended = run_piece(piece.command(first, jobs), dict(piece.variables), output, seconds_max)
    turns.add(
        {
            "turn": serial,
            "piece": piece.name,
            "state": "ended" if ended.status is not None else "cut",
            "status": ended.status,
            "seconds": ended.seconds,
        }
    )
    verdict = {0: "ok", None: "cut, its time was over"}.get(ended.status, "FAILED")
    print(f"  {verdict} after {ended.seconds} s", flush=True)
    if ended.status:
        print(f"  see {output}", flush=True)
    return ended


def reached_measures(pieces: Collection[Piece]) -> set[str]:
    """The measures of pieces of which every line of the scorecard is reached."""
    lines = current_card().lines
    wanted = {measure for piece in pieces for measure in piece.measures}
    return {
        measure
        for measure in wanted
        if all(line.reached for line in lines if line.measure.startswith(measure))
    }


def commit_records() -> None:
    """Only the records: whatever else is changed stays as it is."""
    folder = DIRECTORY.relative_to(ROOT).as_posix()
    subprocess.run(["git", "add", folder], cwd=ROOT, check=True)
    command = ["git", "commit", "--quiet", "--only", "-m", "reliability: records of a turn"]
    subprocess.run([*command, "--", folder], cwd=ROOT, check=True)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """The piece that runs is ended before this process is."""
    raise SystemExit(128 + signal.SIGTERM)


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupted)
    arguments = _arguments()
    names = [name for name in arguments.only.split(",") if name]
    unknown = set(names) - {piece.name for piece in PIECES}
    if unknown:
        print(f"no piece is called {', '.join(sorted(unknown))}")
        return 2
    pieces = [piece for piece in PIECES if not names or piece.name in names]
    if arguments.list:
        for piece in pieces:
            print(f"{piece.name:12} {'; '.join(piece.measures)}")
        return 0
    end = time.monotonic() + 3600 * arguments.hours
    bad = 0
    while (left_s := end - time.monotonic()) > 0:
        turns = read_rows(DIRECTORY / f"{LOG}.jsonl")
        chosen = next_piece(pieces, turns, reached_measures(pieces), left_s)
        if chosen is None:
            break
        ended = take_turn(chosen, arguments.jobs, min(PIECE_SECONDS_MAX, left_s))
        bad += ended.status != 0
        if arguments.commit:
            commit_records()
    print(f"the time is over: {bad} turns failed or were cut; `make scorecard` writes the page")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
