"""The kept list of planted bugs is whole: each applies, and what guards it is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.mutants.catalogue import Mutant, load

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.name))
def test_a_mutant_applies_and_its_guard_is_there(mutant: Mutant) -> None:
    """Its old text stands once in its file; what it makes can be compiled; its guards exist."""
    for file, text in mutant.texts(ROOT).items():
        if file.endswith(".py"):
            compile(text, file, "exec")
    for path, names in mutant.guards():
        assert (ROOT / path).exists(), f"{path} is gone"
        test = names.partition("[")[0].rpartition("::")[2]
        assert not test or f"def {test}(" in (ROOT / path).read_text(), f"{test} is gone"


def test_every_guard_names_tests_that_there_are() -> None:
    """A word behind `-k` may be of a parameter that is called otherwise by now: then nothing runs,
    and nothing is noticed."""
    files = sorted({path for mutant in MUTANTS for path, _ in mutant.guards()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *files], cwd=ROOT, capture_output=True, text=True, check=True, timeout=250
    )
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    assert [mutant.name for mutant in MUTANTS if not any(_runs(mutant, one) for one in tests)] == []


def _runs(mutant: Mutant, test: str) -> bool:
    """Whether the mutant's guard runs this test."""
    guard = list(mutant.guard)
    named = [part for part in guard if part.startswith("tests/")]
    if not any(test.startswith((part, f"{part}/")) for part in named):
        return False
    if "-k" not in guard:
        return True

    def is_in(word: str, /, **_: object) -> bool:
        return word.lower() in test.lower()

    return Expression.compile(guard[guard.index("-k") + 1]).evaluate(is_in)


def test_the_product_has_no_switch_for_tests() -> None:
    """A way to break the product on purpose is a mutant, not a setting."""
    words = ("test-only", "unsafe_", "TestSwitches")
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sorted((ROOT / "svc_cluster").rglob("*.py"))
        for word in words
        if "_pb" not in path.parts and word in path.read_text()
    ]
    assert found == []
