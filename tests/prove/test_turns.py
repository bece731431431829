"""Whose turn it is, which seeds it gets, and how a turn ends."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.json_lines import read_rows
from tests.prove import __main__ as driver
from tests.prove.card import LOGS
from tests.prove.covered import COVERED, digest
from tests.prove.pieces import PIECE_SECONDS_MAX, PIECES, Piece
from tests.prove.scorecard import current_card
from tests.prove.turns import FIRST_SEED, next_piece, next_seed, seconds_of
from tests.reliability import RunLog

A, B, C = (Piece(name, (), name, 10, 100.0, (name,)) for name in "abc")


def begun(piece: str, **fields: Any) -> dict[str, Any]:
    return {"piece": piece, "state": "begun", **fields}


def test_turns_go_round_and_go_on_where_they_ended() -> None:
    """Behind the piece that was begun last, whether it ended or not."""
    turns: list[dict[str, Any]] = []
    names = []
    for _ in range(5):
        piece = next_piece((A, B, C), turns, (), 1000.0)
        assert piece is not None
        names.append(piece.name)
        turns.append(begun(piece.name))
    assert names == ["a", "b", "c", "a", "b"]


def test_what_is_reached_makes_room_for_what_is_not() -> None:
    """Until all is reached: then everything has its turn again."""
    chosen = next_piece((A, B, C), [begun("a")], {"b"}, 1000.0)
    assert chosen is C
    assert next_piece((A, B, C), [begun("c")], {"a", "b", "c"}, 1000.0) is A


def test_nothing_is_begun_that_would_not_end() -> None:
    """By what the piece took the last time, or by what it is said to take."""
    turns = [begun("c"), {"piece": "a", "state": "ended", "status": 0, "seconds": 500.0}]
    assert seconds_of(A, turns) == 500.0
    assert next_piece((A, B, C), turns, (), 499.0) is B
    assert next_piece((A, B, C), turns, (), 99.0) is None
    failed = [{"piece": "a", "state": "ended", "status": 1, "seconds": 1.0}]
    assert seconds_of(A, failed) == 100.0
    assert seconds_of(replace(A, seconds=1.0), [{**turns[1], "seconds": 9e9}]) == PIECE_SECONDS_MAX


def test_no_seed_is_played_twice() -> None:
    """The next one is behind those of every turn that was begun, ended or not, and behind those
    that somebody ran by hand; other families do not matter."""
    assert next_seed("core", {}, []) == FIRST_SEED
    turns = [begun("core", family="core", seeds=[FIRST_SEED, FIRST_SEED + 600])]
    assert next_seed("core", {}, turns) == FIRST_SEED + 600
    assert next_seed("full", {}, turns) == FIRST_SEED
    logs: dict[str, list[dict[str, Any]]] = {
        "simulation": [{"kind": "core", "seeds": [FIRST_SEED, FIRST_SEED + 900]}],
        "chaos": [{"seed": FIRST_SEED + 5}, {"seed": 3}],
    }
    assert next_seed("core", logs, turns) == FIRST_SEED + 900
    assert next_seed("full", logs, turns) == FIRST_SEED
    assert next_seed("chaos", logs, turns) == FIRST_SEED + 6


def test_every_piece_works_on_a_line_and_every_line_has_a_piece() -> None:
    """And with another seed each time it draws from a family of its own."""
    measures = [line.measure for line in current_card().lines]
    worked = {measure for piece in PIECES for measure in piece.measures}
    assert all(any(name.startswith(start) for name in measures) for start in worked)
    without = [name for name in measures if not name.startswith(tuple(worked))]
    assert without == WITHOUT_A_PIECE
    families = [piece.family for piece in PIECES if piece.family]
    assert len(set(families)) == len(families)
    for piece in PIECES:
        assert ("{first}" in " ".join(piece.arguments)) == bool(piece.family)
        assert piece.seconds < PIECE_SECONDS_MAX
    assert set(COVERED) - {"core"} == set(LOGS)


WITHOUT_A_PIECE = [
    "held at once, and the p99 of appends beside it against without",
    "soak: mixed load and faults in one piece; memory, descriptors, threads, disk flat",
]
"""By commands of their own: they are longer than a piece, or want the machine for themselves."""


def test_a_piece_is_cut_with_all_that_it_started(tmp_path: Path) -> None:
    """When its time is over: a child that would outlive it is gone too."""
    mark = tmp_path / "mark"
    child = f"import time, pathlib; time.sleep(4); pathlib.Path({str(mark)!r}).write_text('late')"
    program = (
        "import signal, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print('up', flush=True)\ntime.sleep(60)"
    )
    output = tmp_path / "out" / "piece.log"
    ended = driver.run_piece([sys.executable, "-c", program], {}, output, 1.5)
    assert ended.status is None
    assert output.read_text() == "up\n"
    time.sleep(max(0.0, 5.0 - ended.seconds))
    assert not mark.exists()


@pytest.mark.parametrize(("program", "state", "status"), [("", "ended", 0), ("1/0", "ended", 1)])
def test_a_turn_is_written_before_and_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, state: str, status: int
) -> None:
    """With its seeds before it runs, so that a turn that is killed has used them."""
    log = RunLog("turns", tmp_path, kind="simulation")
    monkeypatch.setattr(driver, "RunLog", lambda *_, **__: log)
    monkeypatch.setattr(driver, "OUTPUT", tmp_path)
    piece = Piece("some", ("-c", f"{program}\n# {{first}}"), "some", 7, 1.0, ())
    driver.take_turn(piece, 1, 60.0)
    rows = read_rows(tmp_path / "turns.jsonl")
    assert [(row["turn"], row["state"]) for row in rows] == [(1, "begun"), (1, state)]
    assert rows[0]["seeds"] == [FIRST_SEED, FIRST_SEED + 7]
    assert rows[1]["status"] == status
    driver.take_turn(piece, 1, 60.0)
    assert read_rows(tmp_path / "turns.jsonl")[2]["seeds"] == [FIRST_SEED + 7, FIRST_SEED + 14]


def test_a_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    """What is written, renamed or moved between files changes it; what is generated does not."""

    def write(name: str, text: str) -> str:
        path = tmp_path / "svc_cluster" / "raft" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return digest("core", tmp_path)

    for other in ("base", "model"):
        (tmp_path / "svc_cluster" / other).mkdir(parents=True)
    first = write("a.py", "x = 1\n")
    assert write("b.py", "") != first
    (tmp_path / "svc_cluster" / "raft" / "b.py").unlink()
    assert write("a.py", "x = 1\n") == first
    assert write("a.py", "x = 2\n") != first
    write("a.py", "x = 1\n")
    assert write("__pycache__/a.py", "y") == first
    assert write("notes.md", "y") == first
