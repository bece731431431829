"""Files of results survive the death of whoever writes them, at any byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.json_lines import LineError, append_row, read_rows, replace_rows, text_of
from tests.mutants.catalogue import load
from tests.mutants.ledger import Ledger
from tests.prove.covered import digest
from tests.reliability import RunLog
from tests.simulation.record import Progress

ROWS: list[dict[str, Any]] = [{"seed": 1, "text": "a"}, {"seed": 23, "text": "b}"}]


@pytest.mark.parametrize("kept", range(len(text_of(ROWS[1])) + 1))
def test_half_a_line_is_no_line_and_spoils_none(tmp_path: Path, kept: int) -> None:
    """Cut behind any byte of its last line, a file reads as the whole lines before; the next line
    stands by itself."""
    path = tmp_path / "rows.jsonl"
    last = text_of(ROWS[1])
    path.write_bytes(text_of(ROWS[0]) + last[:kept])
    whole = ROWS if kept == len(last) else ROWS[:1]
    assert read_rows(path) == whole
    append_row(path, {"seed": 4})
    assert read_rows(path) == [*whole, {"seed": 4}]


def test_a_whole_line_that_is_none_is_said(tmp_path: Path) -> None:
    """Damage in the middle is not read over: whoever looks is told where."""
    path = tmp_path / "rows.jsonl"
    for text in ('{"a":1}\n{"b":\n{"c":3}\n', '{"a":1}\n7\n'):
        path.write_text(text)
        with pytest.raises(LineError, match=r"rows\.jsonl, line 2"):
            read_rows(path)


def test_no_file_and_an_empty_one_have_no_rows(tmp_path: Path) -> None:
    """A run that was killed before its first byte left nothing."""
    path = tmp_path / "below" / "rows.jsonl"
    assert read_rows(path) == []
    append_row(path, ROWS[0])
    assert read_rows(path) == ROWS[:1]
    replace_rows(path, [])
    assert read_rows(path) == []


@pytest.mark.parametrize("torn", ["", '{"fil', '{"files":"x"}'])
def test_progress_of_a_killed_run_is_taken_up(tmp_path: Path, torn: str) -> None:
    """Whether it died in its first line or in a seed's, the seeds with whole lines are done."""
    path = tmp_path / "progress"
    path.write_text(torn)
    progress = Progress(path, "core")
    progress.note(5, failed=False)
    with path.open("a") as out:
        out.write('{"seed":6,"fai')
    again = Progress(path, "core")
    assert again.done == {5: {"seed": 5, "failed": False}}
    again.note(6, failed=True)
    assert Progress(path, "core").failures() == [6]


def test_progress_on_other_files_is_refused(tmp_path: Path) -> None:
    """Seeds that were done on other files say nothing about these."""
    path = tmp_path / "progress"
    append_row(path, {"files": digest("core") + "0"})
    with pytest.raises(ValueError, match="belongs to the files"):
        Progress(path, "core")


def test_progress_tells_only_of_what_is_asked(tmp_path: Path) -> None:
    """Seeds of an earlier range in the same file are not counted as ones of this."""
    path = tmp_path / "progress"
    progress = Progress(path, "core")
    for seed in range(4):
        progress.note(seed, failed=seed == 0, acked=1)
    again = Progress(path, "core")
    again.leave(range(2, 9))
    assert (again.total("acked"), again.failures(), list(again.done)) == (2, [], [2, 3])


def test_the_list_of_mutants_outlives_half_a_line(tmp_path: Path) -> None:
    """It is read without the half line, and written whole or not at all."""
    path = tmp_path / "mutants.jsonl"
    mutant = load()[0]
    rows = [{"name": mutant.name, "digest": "old"}]
    path.write_bytes(text_of(rows[0]) + b'{"name":"ha')
    ledger = Ledger(path, tmp_path)
    assert not ledger.knows(mutant)
    ledger.write([mutant], [])
    assert path.read_bytes() == text_of(rows[0])


def test_a_run_whose_files_change_is_of_no_files(tmp_path: Path) -> None:
    """The digest is taken when the log is made, and compared with that of the end."""
    digests = iter(["aa", "aa", "bb"])
    log = RunLog("some", tmp_path, of=lambda: next(digests))
    log.add({"n": 1})
    log.add({"n": 2})
    rows = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text().splitlines()]
    assert [(row["files"], row["n"]) for row in rows] == [("aa", 1), ("changed", 2)]
    assert all({"commit", "date", "machine"} <= row.keys() for row in rows)
