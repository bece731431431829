"""What commands print of the interface's answers, for people and for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from svc_cluster.cli.terminal import say_surely, table

Shown: TypeAlias = Mapping[str, object]

GREEN: Final = "32"
RED: Final = "31"
YELLOW: Final = "33"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def say_json(content: object) -> None:
    """One line."""
    say_surely(msgspec.json.encode(content).decode())


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Nothing but the head where there is nothing."""
    for line in table(head, [[plain(cell) for cell in row] for row in rows]):
        say_surely(line)


def say_members(content: Shown) -> None:
    """An object as two columns, inner members by their path."""
    rows = flat(content)
    width = max((len(key) for key, _ in rows), default=0)
    for key, value in rows:
        say_surely(f"{key.ljust(width)}  {plain(value)}".rstrip())


def flat(content: object, path: str = "") -> list[tuple[str, str]]:
    """Return the members of an object and of those in it: path and value."""
    if isinstance(content, dict) and content:
        found = []
        for key, value in content.items():
            found += flat(value, f"{path}.{key}" if path else str(key))
        return found
    if isinstance(content, dict):
        return [(path, "yes")]
    if content is None:
        return [(path, "-")]
    if isinstance(content, bool):
        return [(path, "yes" if content else "no")]
    if isinstance(content, list):
        return [(path, ", ".join(str(each) for each in content) or "-")]
    return [(path, str(content))]


def plain(text: str) -> str:
    """Return a name or a message without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def size(count: float) -> str:
    """Return a number of bytes for people."""
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit holds everything")


def painted(text: str, colour: str, *, to_terminal: bool) -> str:
    """Return the text in a colour, where colours are wanted."""
    return f"\x1b[{colour}m{text}\x1b[0m" if to_terminal else text


def wants_colour(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the output is a terminal whose reader has not said otherwise."""
    is_dumb = environment.get("TERM") == "dumb" or bool(environment.get("NO_COLOR"))
    return sys.stdout.isatty() and not is_dumb
