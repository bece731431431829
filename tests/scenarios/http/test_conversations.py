"""Golden conversations over HTTP: what the gateway answers to each request, by the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.http.conversation import blocks_of, play

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_gateway_answers_as_written(path: Path) -> None:
    """Each request has its answer: status, headers in their order, body; no more and no less."""
    blocks = blocks_of(path)
    answers = play([commands for commands, _ in blocks])
    for (commands, expected), answer in zip(blocks, answers, strict=True):
        assert answer == expected, "\n".join(commands)
