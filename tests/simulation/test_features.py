"""The swarm: every feature runs in some seeds and is left out of others."""

from __future__ import annotations

from tests.simulation.features import counted, drawn, features_of, table
from tests.simulation.options import FAULTS, Options

ALWAYS = {"scrub"}
NEVER = {"logs that decay"}
"""Asked for with --rot."""


def test_every_feature_is_in_some_seeds_and_missing_in_others() -> None:
    """Among 300 seeds; two features that are drawn by themselves meet and miss each other."""
    counts = counted(range(300))
    assert {f"fault: {name}" for name in FAULTS} <= set(counts)
    for name, count in counts.items():
        if name in ALWAYS:
            assert count == 300
        else:
            assert 10 <= count <= 290, name
    assert not NEVER & set(counts)
    pairs = {
        ("payload files" in found, "basins at rest" in found)
        for found in (set(features_of(drawn(seed))) for seed in range(60))
    }
    assert len(pairs) == 4


def test_the_table_says_what_ran_in_none() -> None:
    """A feature that no seed drew stands there with 0."""
    lines = table(counted([]), 0)
    assert len(lines) == len(FAULTS)
    assert all(line.strip().startswith("0 of 0 seeds  fault: ") for line in lines)
    assert "logs that decay" in set(features_of(drawn(1, rot=True)))
    assert not [name for name in features_of(Options(faults=())) if name.startswith("fault")]
