"""The kept list of planted bugs, as `<area>.toml` holds it, and what one of them does to a tree."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DIRECTORY: Final = Path(__file__).resolve().parent
MUTATED: Final = (
    "svc_cluster/",
    "tests/json_lines.py",
    "tests/reliability.py",
    "tests/prove/",
    "tests/fuzz/",
    "tests/verdicts/",
    "tests/release/",
    "tests/linearizability/restored.py",
    "tests/chaos/recorder.py",
)
"""The product, what counts and judges the long runs, and what stands between it and a release."""

READS_SOURCE: Final = "tests/tidy"
"""Tests that look at the text of the tree notice any change: they guard nothing."""

_FIELDS: Final = {"name", "rule", "guard"}
_CHANGE: Final = {"file", "old", "new"}
_OPTIONAL: Final = {"hangs"}


class MutantError(Exception):
    """The list, or a mutant of it, is not what it must be. The text names the mutant."""


@dataclass(frozen=True, slots=True)
class Change:
    """`old` stands exactly once in `file` and becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`guard`: pytest arguments, of which at least one test goes red. `hangs`: the bug may show as
    a guard that does not end in time."""

    area: str
    name: str
    rule: str
    changes: tuple[Change, ...]
    guard: tuple[str, ...]
    hangs: bool = False

    def texts(self, root: Path) -> dict[str, str]:
        """The mutated files' texts by path. Raises MutantError where it no longer applies."""
        texts: dict[str, str] = {}
        for change in self.changes:
            if change.file not in texts:
                path = root / change.file
                if not path.is_file():
                    raise MutantError(f"{self.name} no longer applies: {change.file} is gone")
                texts[change.file] = path.read_text()
            found = texts[change.file].count(change.old)
            if found != 1:
                raise MutantError(
                    f"{self.name} no longer applies: its old text stands {found} times in "
                    f"{change.file}, not once"
                )
            texts[change.file] = texts[change.file].replace(change.old, change.new)
        return texts

    def guards(self) -> list[tuple[str, str]]:
        """The files or folders among the guard's arguments, each with what is named in it."""
        paths = [argument for argument in self.guard if argument.startswith("tests/")]
        return [(path, names) for path, _, names in (path.partition("::") for path in paths)]

    def digest(self, root: Path) -> str:
        """Of the mutant, the files it changes and those that guard it: another one means that what
        was seen before says nothing about today."""
        hashed = hashlib.sha256(repr((self.changes, self.guard)).encode())
        names = {change.file for change in self.changes} | {path for path, _ in self.guards()}
        for name in sorted(names):
            for path in _files(root / name):
                hashed.update(path.relative_to(root).as_posix().encode() + b"\0")
                hashed.update(path.read_bytes())
        return hashed.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []


def load(directory: Path = DIRECTORY) -> list[Mutant]:
    """All mutants, by area, in the order of their files. Raises MutantError."""
    mutants: list[Mutant] = []
    for path in sorted(directory.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise MutantError(f"{path.name}: {error}") from error
        if set(tables) != {"mutant"}:
            raise MutantError(f"{path.name} holds something else than [[mutant]] tables")
        mutants += [_mutant(path.stem, table) for table in tables["mutant"]]
    names = [mutant.name for mutant in mutants]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise MutantError(f"two mutants are called {', '.join(doubled)}")
    return mutants


def _mutant(area: str, table: dict[str, Any]) -> Mutant:
    name = table.get("name", "without a name")
    where = f"{area}.toml: {name}"
    if "change" in table:
        tables, fields = table["change"], _FIELDS | {"change"}
    else:
        tables, fields = [{key: table[key] for key in _CHANGE & set(table)}], _FIELDS | _CHANGE
    if not fields <= set(table) <= fields | _OPTIONAL:
        raise MutantError(f"{where}: its keys are {', '.join(sorted(fields))}, and may be hangs")
    if any(set(change) != _CHANGE for change in tables):
        raise MutantError(f"{where}: a change has file, old and new")
    changes = tuple(
        Change(change["file"], _text(change["old"]), _text(change["new"])) for change in tables
    )
    if any(not change.file.startswith(MUTATED) or change.old == change.new for change in changes):
        raise MutantError(f"{where}: a change is one of a file of the product, or of what judges")
    guard = tuple(table["guard"])
    paths = [argument for argument in guard if argument.startswith("tests/")]
    if not paths or any(path.startswith((READS_SOURCE, "tests/mutants")) for path in paths):
        raise MutantError(f"{where}: its guard is a test that runs the code")
    return Mutant(area, name, table["rule"], changes, guard, table.get("hangs", False))


def _text(literal: str) -> str:
    """Without the one newline at either end that a literal of several lines has."""
    return literal.removeprefix("\n").removesuffix("\n")


def guard_sets(mutants: Iterable[Mutant]) -> dict[tuple[str, ...], list[Mutant]]:
    """The mutants of each distinct guard, in order."""
    sets: dict[tuple[str, ...], list[Mutant]] = {}
    for mutant in mutants:
        sets.setdefault(mutant.guard, []).append(mutant)
    return sets
