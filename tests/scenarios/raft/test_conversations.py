"""Golden conversations between replicas: what the commands of each file print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.raft.conversation import Player, blocks_of

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_replicas_converse_as_written(path: Path) -> None:
    """Each block's commands print its lines, no more and no less."""
    player = Player()
    for commands, expected in blocks_of(path):
        assert player.play(commands) == expected, "\n".join(commands)
