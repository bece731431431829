"""One name is one thing: no two classes, and no two files, of the product are called alike."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]

TWICE: Final[frozenset[str]] = frozenset()
"""Names of classes and files that stand more than once. The list only shrinks: a name that is told
apart goes from it, and none is added."""


def twice(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand more than once, each with where. `sources`: paths and texts. Nested
    and private classes count as well, a package's `__init__.py` does not."""
    found: dict[str, list[str]] = {}
    for path, text in sources:
        name = path.rpartition("/")[2]
        if name != "__init__.py":
            found.setdefault(name, []).append(path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def faults_of(found: dict[str, list[str]], kept: frozenset[str]) -> list[str]:
    """What stands twice and may not, and what may and does not any more."""
    faults = [
        f"{name} stands in {' and '.join(places)}: say what each belongs to"
        for name, places in found.items()
        if name not in kept
    ]
    return faults + [f"{name} stands once: take it from the list" for name in kept - found.keys()]


def test_no_name_of_a_class_or_file_stands_twice() -> None:
    """Whoever hears of a name finds one thing that is called so. Generated code is not ours."""
    sources = [
        (path.relative_to(ROOT).as_posix(), path.read_text())
        for path in sorted((ROOT / "svc_cluster").rglob("*.py"))
        if "_pb" not in path.parts
    ]
    assert faults_of(twice(sources), TWICE) == []


def test_a_name_that_stands_twice_is_found_and_the_list_only_shrinks() -> None:
    """Of a class, also a private or nested one, and of a file; what is on the list and is needed no
    more is told."""
    planted = [
        ("a/gate.py", "class Gate:\n    class _Held: ..."),
        ("b/gate.py", "\nclass Gate: ...\nclass _Held: ..."),
        ("a/__init__.py", ""),
        ("b/__init__.py", "def Gate(): ..."),
    ]
    found = twice(planted)
    assert found == {
        "Gate": ["a/gate.py:1", "b/gate.py:2"],
        "_Held": ["a/gate.py:2", "b/gate.py:3"],
        "gate.py": ["a/gate.py", "b/gate.py"],
    }
    assert faults_of(found, frozenset({"_Held", "gate.py"})) == [
        "Gate stands in a/gate.py:1 and b/gate.py:2: say what each belongs to"
    ]
    assert faults_of(twice(planted[:1]), frozenset({"Gate"})) == [
        "Gate stands once: take it from the list"
    ]
