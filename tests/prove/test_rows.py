"""The fault matrix, and where each of its rows is played."""

from __future__ import annotations

import re

import pytest

from tests.chaos.rows import NOT_HERE, ROWS
from tests.prove.pieces import PIECES
from tests.reliability import ROOT

MATRIX = {f"D{number}" for number in range(1, 35)}


def test_every_row_is_played_by_processes_or_elsewhere() -> None:
    """D1 to D34, none of them twice and none forgotten."""
    assert set(ROWS) | set(NOT_HERE) == MATRIX
    assert not set(ROWS) & set(NOT_HERE)


@pytest.mark.parametrize("row", NOT_HERE)
def test_the_place_of_a_row_is_there(row: str) -> None:
    """A file that is named is one."""
    for path in re.findall(r"tests/[\w/]+\.py", NOT_HERE[row]):
        assert (ROOT / path).is_file(), path


def test_a_piece_of_the_proof_plays_every_row_twice() -> None:
    """A row more makes the piece longer."""
    (chaos,) = [piece for piece in PIECES if piece.name == "chaos"]
    at = chaos.arguments.index("--rounds")
    assert int(chaos.arguments[at + 1]) == 2 * len(ROWS)
