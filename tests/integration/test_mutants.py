"""The tool that plants bugs: what it says of a tree in which one is caught, and of every other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.catalogue import MutantError, load
from tests.mutants.copies import Copy
from tests.mutants.ledger import Ledger
from tests.mutants.runner import run

RULE = 'rule = "Two and two is four."'
WRONG_SUM = """
file = "svc_cluster/sums.py"
old = "return a + b"
new = "return a - b"
guard = ["tests/test_sums.py"]
"""

TESTS = """
import subprocess, sys, time
from svc_cluster.sums import add


def test_add():
    assert add(2, 2) == 4


def test_child():
    ask = "from svc_cluster.sums import add; print(add(2, 2))"
    told = subprocess.run([sys.executable, "-c", ask], cwd="/", capture_output=True, text=True)
    assert told.stdout == "4\\n"
"""

WEAK = "def test_nothing():\n    import svc_cluster.sums\n"
RED = "def test_red():\n    raise AssertionError('for another reason')\n"


QUICK = "[pytest]\naddopts = -p no:schemathesis -p no:anyio -p no:hypothesispytest -p no:xdist\n"
"""A start of pytest costs seconds of a core with all of its plugins."""


def mutant(name: str, body: str = WRONG_SUM) -> str:
    return f'[[mutant]]\nname = "{name}"\n{RULE}\n{body}\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small product with its tests, in a repository of its own."""
    files = {
        "svc_cluster/__init__.py": "",
        "svc_cluster/sums.py": "def add(a, b):\n    return a + b\n",
        "tests/test_sums.py": TESTS,
        "tests/test_weak.py": WEAK,
        "tests/test_red.py": RED,
        "tests/mutants/math.toml": mutant("wrong-sum"),
        "pytest.ini": QUICK,
    }
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "tree", check=True)
    return tmp_path / "tree"


def listed(tree: Path, *mutants: str) -> None:
    (tree / "tests/mutants/math.toml").write_text("\n".join(mutants))


def recorded(tree: Path) -> list[str]:
    path = tree / "docs/reliability/mutants.jsonl"
    return [json.loads(line)["name"] for line in path.read_text().splitlines()]


def test_a_bug_that_is_noticed_is_told_with_its_test_and_kept(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0; the tree itself is never touched; what is recorded runs again only when the mutant,
    its file or its guard is another."""
    before = (tree / "svc_cluster/sums.py").read_text()
    assert main(["--record"], tree) == 0
    told = capsys.readouterr().out
    assert "caught math" in told
    assert "tests/test_sums.py::test_add" in told
    assert "1 caught, 0 faults, 0 not run" in told
    assert (tree / "svc_cluster/sums.py").read_text() == before
    assert recorded(tree) == ["wrong-sum"]
    assert main(["--changed"], tree) == 0
    assert "0 caught, 0 faults, 0 not run" in capsys.readouterr().out
    (tree / "svc_cluster/sums.py").write_text(before + "\n# more\n")
    assert main(["--changed"], tree) == 0
    assert "1 caught" in capsys.readouterr().out


def test_a_tree_that_moves_on_during_a_run_is_not_what_was_recorded(tree: Path) -> None:
    """The record is of the copy: what was changed meanwhile runs again, what is as it was does
    not."""
    listed(tree, mutant("wrong-sum"), mutant("zero", WRONG_SUM.replace("a - b", "0 * a")))
    sums = tree / "svc_cluster/sums.py"
    before = sums.read_text()
    both = load(tree / "tests/mutants")

    def move_on() -> None:
        sums.write_text(before + "\n# more\n")

    ledger = Ledger(tree / "mutants.jsonl", tree)
    outcome = run(tree, both, say=lambda _: move_on())
    assert [catch.mutant for catch in outcome.caught] == both
    ledger.write(both, outcome.caught)
    assert [ledger.knows(each) for each in both] == [False, False]
    sums.write_text(before)
    assert [ledger.knows(each) for each in both] == [True, True]


def test_what_a_guard_starts_has_the_bug_too(tree: Path) -> None:
    """The child process of a test imports the mutated copy."""
    listed(tree, mutant("wrong-sum", WRONG_SUM.replace('sums.py"]', 'sums.py::test_child"]')))
    [found] = load(tree / "tests/mutants")
    copy = Copy(tree)
    try:
        assert copy.run(found.guard, 60).status == 0
        verdict = copy.run_mutated(found, 60)
        assert (verdict.red, verdict.by) == (True, "tests/test_sums.py::test_child")
        assert copy.run(found.guard, 60).status == 0, "and it is gone again"
    finally:
        copy.remove()
    assert not copy.path.exists()


STARVED = """
import pathlib

SEEN = pathlib.Path({seen!r})


def test_by_luck():
    is_first = not SEEN.exists()
    SEEN.touch()
    assert not is_first
"""


def test_what_is_starved_once_is_no_fault_where_a_second_attempt_is_asked_for(
    tree: Path, tmp_path: Path
) -> None:
    """It is told; by default it is a fault, and what survives twice is one in any case."""
    seen = tmp_path / "seen"
    (tree / "tests/test_sums.py").write_text(TESTS + STARVED.format(seen=str(seen)))
    mutants = load(tree / "tests" / "mutants")
    said: list[str] = []
    assert run(tree, mutants, say=said.append).faults
    seen.unlink()
    said.clear()
    outcome = run(tree, mutants, say=said.append, attempts=2)
    assert not outcome.faults and [one.mutant.name for one in outcome.caught] == ["wrong-sum"]
    assert said[0].startswith("second attempt: without a mutant the guard of wrong-sum is red")
    listed(tree, mutant("survivor", WRONG_SUM.replace("test_sums", "test_weak")))
    said.clear()
    outcome = run(tree, load(tree / "tests" / "mutants"), say=said.append, attempts=2)
    assert len(outcome.faults) == 1 and "survivor SURVIVED" in outcome.faults[0]
    assert said[0] == "second attempt: survivor SURVIVED"


UNTRUE = {
    "survivor": (WRONG_SUM.replace("test_sums", "test_weak"), "survivor SURVIVED: Two and two"),
    "red": (WRONG_SUM.replace("test_sums", "test_red"), "the guard of red is red"),
    "no-match": (WRONG_SUM.replace("a + b", "a * b"), "no-match no longer applies"),
    "matches": (WRONG_SUM.replace("return a + b", "a"), "stands 3 times"),
    "no-file": (WRONG_SUM.replace('sums.py"\nold', 'gone.py"\nold'), "svc_cluster/gone.py is gone"),
    "no-import": (WRONG_SUM.replace("return a - b", "return ("), "no-import was not caught"),
    "no-guard": (
        WRONG_SUM.replace("test_sums", "test_none"),
        "the guard of no-guard is no judgement",
    ),
}
"""Each with what is said of it."""


def test_a_list_that_is_not_true_fails(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 with a sentence for each that names the mutant, and nothing is recorded of them; the
    one beside them is caught all the same."""
    listed(tree, *(mutant(name, body) for name, (body, _) in UNTRUE.items()), mutant("wrong-sum"))
    assert main(["--record"], tree) == 1
    out = capsys.readouterr().out
    for _, told in UNTRUE.values():
        assert told in out
    assert f"1 caught, {len(UNTRUE)} faults" in out
    assert recorded(tree) == ["wrong-sum"]


def test_a_guard_that_does_not_end_is_a_catch_only_where_that_is_said(tree: Path) -> None:
    """The bug makes a loop endless. The guard is ended at its bound."""
    endless = WRONG_SUM.replace("return a - b", "while True: pass")
    listed(tree, mutant("said", endless + "hangs = true"), mutant("unsaid", endless))
    outcome = run(tree, load(tree / "tests/mutants"), guard_seconds_max=15, say=lambda _: None)
    assert [(catch.mutant.name, catch.by) for catch in outcome.caught] == [
        ("said", "the guard's time")
    ]
    [fault] = outcome.faults
    assert fault.startswith("unsaid was not caught, its guard is not done in")


def test_what_does_not_fit_into_the_time_is_told_loudly(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not silently, and not as a failure of the run."""
    assert main(["--minutes", "0"], tree) == 0
    out = capsys.readouterr().out
    assert "NOT RUN, the time was over: 1 mutants" in out
    assert "NOT RUN math wrong-sum" in out
    assert "0 caught, 0 faults, 1 not run" in out


@pytest.mark.parametrize(
    "wrong",
    [
        mutant("x", WRONG_SUM.replace("tests/test_sums.py", "tests/tidy/test_tree.py")),
        mutant("x", WRONG_SUM.replace('guard = ["tests/test_sums.py"]', "guard = []")),
        mutant("x", WRONG_SUM.replace("svc_cluster/sums.py", "tests/test_sums.py")),
        mutant("x", WRONG_SUM.replace("return a - b", "return a + b")),
        mutant("x", WRONG_SUM + 'more = "?"'),
        mutant("x") + mutant("x"),
        "[[other]]",
        "[[mutant",
    ],
)
def test_a_list_of_another_form_is_refused(tree: Path, wrong: str) -> None:
    """Among others guards that read the text of the tree: they would notice anything."""
    listed(tree, wrong)
    with pytest.raises(MutantError):
        load(tree / "tests/mutants")
    assert main([], tree) == 1
