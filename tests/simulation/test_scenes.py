"""Seeds in which a rule of the code matters: each fails when the bug it is kept for is there."""

from __future__ import annotations

import pytest

from tests.simulation.scenes import SCENES, play


@pytest.mark.parametrize("name", SCENES)
def test_seeds_of_a_scene_hold(name: str) -> None:
    """No invariant breaks, and histories are what the model allows."""
    scene = SCENES[name]
    assert {seed: play(scene.options, seed) for seed in scene.seeds} == dict.fromkeys(scene.seeds)
