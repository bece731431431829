"""Whose turn it is, and with which seeds: decided from the records alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from tests.prove.pieces import PIECE_SECONDS_MAX, Piece

Rows = Sequence[Mapping[str, Any]]

FIRST_SEED: Final = 1_000_000
"""Below it are the seeds that people play by hand, and those that are kept as tests."""

_FAMILIES: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "simulation": lambda row: str(row.get("kind", "")),
    "chaos": lambda _: "chaos",
    "verdicts": lambda _: "verdicts",
    "fuzz": lambda _: "fuzz",
    "corruption": lambda _: "corruption",
    "ambiguous": lambda _: "ambiguous",
    "usage": lambda _: "usage",
    "crashpoints": lambda _: "crashpoints",
}
"""By log, which numbers its rows have used."""


def next_seed(family: str, logs: Mapping[str, Rows], turns: Rows) -> int:
    """The first seed behind all that were ever begun, by a turn or by hand. What a killed turn had
    begun is not begun again: it cannot be told how far it came."""
    ends = [FIRST_SEED]
    ends += [row["seeds"][1] for row in turns if row.get("family") == family and "seeds" in row]
    for log, rows in logs.items():
        family_of = _FAMILIES.get(log)
        for row in rows:
            if family_of is None or family_of(row) != family:
                continue
            if "seeds" in row:
                ends.append(int(row["seeds"][1]))
            elif "seed" in row:
                ends.append(int(row["seed"]) + 1)
    return max(ends)


def seconds_of(piece: Piece, turns: Rows) -> float:
    """How long a run of it takes: as the last that ended well."""
    for row in reversed(turns):
        if row.get("piece") == piece.name and row.get("status") == 0:
            return min(PIECE_SECONDS_MAX, float(row["seconds"]))
    return piece.seconds


def next_piece(
    pieces: Sequence[Piece], turns: Rows, reached: Collection[str], left_s: float
) -> Piece | None:
    """The first in their circle, behind the one that was begun last, that works on something that
    is not reached and that ends in the time that is left. When everything is reached, each again.
    None when nothing fits."""
    names = [piece.name for piece in pieces]
    begun = [row["piece"] for row in turns if row.get("state") == "begun"]
    last = next((names.index(name) for name in reversed(begun) if name in names), -1)
    circle = [*pieces[last + 1 :], *pieces[: last + 1]]
    wanted = [
        piece for piece in circle if not all(measure in reached for measure in piece.measures)
    ]
    for piece in wanted or circle:
        if seconds_of(piece, turns) <= left_s:
            return piece
    return None
