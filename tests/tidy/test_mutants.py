"""The kept list of planted bugs is whole: each applies, and what guards it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

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
