"""Values under a name that they do not have (any more) are refused with the one that they have.

`helm/svc-cluster/files/renamed.yaml` lists them. A name that the version before had and this one
has not must stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

Values = dict[str, Any]
Names = tuple[str, ...]


def faults(chart: Path, before: Path, render: Callable[[Values], Any]) -> Iterator[str]:
    """`render` raises what the chart refuses values with."""
    renamed: dict[str, str] = yaml.safe_load((chart / "files" / "renamed.yaml").read_text())
    known = set(_paths(yaml.safe_load((chart / "values.yaml").read_text())))
    yield from unlisted(
        set(_paths(yaml.safe_load((before / "values.yaml").read_text()))), known, set(renamed)
    )
    planted = list(unlisted({("replica", "old")}, known, set(renamed)))
    if len(planted) != 1:
        yield f"renamed: a name that is gone is not found: {planted}"
    for old, new in renamed.items():
        for name in new.split(" and "):
            if tuple(name.split(".")) not in known:
                yield f"renamed: {old} is said to be called {name}, and there is no such value"
        if tuple(old.split(".")) in known:
            yield f"renamed: {old} is a value"
        for value in ({"enabled": True}, False, None):
            says = f"{old} is called {new} in this chart: rename it"
            try:
                render(_nested(old, value))
            except Exception as refusal:
                if says not in str(refusal):
                    yield f"renamed: {old}: refused, but not by {says!r}: {refusal}"
            else:
                # Helm takes a value that is null for one that is not there
                if value is not None:
                    yield f"renamed: {old}: {value!r} is not refused"


def unlisted(before: set[Names], now: set[Names], renamed: set[str]) -> Iterator[str]:
    """Names of before that are gone and not listed."""
    for path in sorted(before - now):
        if not any(".".join(path[:end]) in renamed for end in range(1, len(path) + 1)):
            yield f"renamed: {'.'.join(path)} was a value and is none, and renamed.yaml is silent"


def _paths(values: Any, above: Names = ()) -> Iterator[Names]:
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*above, key)
            yield from _paths(value, (*above, key))


def _nested(path: str, value: Any) -> Values:
    found: Any = value
    for part in reversed(path.split(".")):
        found = {part: found}
    made: Values = found
    return made
