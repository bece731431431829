"""What the product spreads over turns of the event loop is spread in drawn simulations, too."""

from __future__ import annotations

import random
from typing import Final

from svc_cluster.replica.group_turns import VISIT_COMMANDS
from tests.simulation.options import Options

SEEDS: Final = 300
WALKS: Final = "group_walks.GROUPS_PER_TURN"
LINE: Final = "group_turns.COMMANDS_PER_TURN"


def test_a_draw_of_few_visits_is_fewer_than_a_node_has_groups() -> None:
    """Otherwise no walk has a second turn. A node has the catalog, and the basins where all nodes
    have them; a cluster of one basin draws it too, and so does one of two."""
    drawn = [Options.draw(random.Random(seed)) for seed in range(SEEDS)]
    few = [
        (dict(each.constants)[WALKS], each.basins)
        for each in drawn
        if WALKS in dict(each.constants)
    ]
    assert len(few) > SEEDS / 5
    assert all(0 < visits < basins + 1 for visits, basins in few)
    assert set(few) == {(1, 1), (1, 2), (2, 2)}


def test_a_draw_of_few_commands_leaves_one_visit_a_turn() -> None:
    """Two groups that have something to do at once have it in two turns."""
    drawn = [dict(Options.draw(random.Random(seed)).constants) for seed in range(SEEDS)]
    commands = [each[LINE] for each in drawn if LINE in each]
    assert len(commands) > SEEDS / 10
    assert set(commands) == {1, 3}
    assert max(commands) < VISIT_COMMANDS
