"""The checker and a search that shares nothing with it say the same."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verdicts import by_checker, search
from tests.verdicts.__main__ import EVERY, Tally, judge_both
from tests.verdicts.event import Event, History
from tests.verdicts.plant import PLANTS, Plant, planted
from tests.verdicts.world import World

JUDGES: dict[str, Callable[[History], bool | None]] = {
    "checker": by_checker.judge,
    "search": search.judge,
}
RECORD = (0, 0, "a")
APPEND = Event("append", 1, 0, 1, 4, "ok", bodies=("a",), start=0, actual=1, life=0)


def test_both_say_the_same_of_whole_histories() -> None:
    """True ones and lies, none undecided, every kind of lie among them."""
    tally = Tally()
    for seed in range(1, 1 + EVERY * len(PLANTS)):
        judge_both(seed, tally, 120)
    assert (tally.disagreements, tally.undecided) == ([], 0)
    assert tally.histories == 10 * tally.planted == 110
    assert set(tally.kinds) >= {plant.__name__ for plant in PLANTS[:6]}
    assert tally.operations > 100 * tally.histories


def test_histories_have_what_they_are_for() -> None:
    """Several gateways, retries of what was unknown, trims, deletions, and a later life."""
    events = [event for seed in range(20) for event in World(seed).history().events]
    requests = [event.request for event in events if event.request]
    assert len(requests) > len(set(requests))
    assert {event.gateway for event in events} == {0, 1, 2}
    assert {event.outcome for event in events} == {
        *("ok", "unknown", "gone", "place", "token", "behind"),
    }
    assert any(event.trims_to for event in events)
    assert max(event.life for event in events) >= 2


def test_the_search_shares_nothing_with_the_checker() -> None:
    """Not one import."""
    for name in ("search.py", "event.py", "world.py", "plant.py"):
        tree = ast.parse((Path(__file__).parent / name).read_text())
        found = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [module for module in found if module and "linearizability" in module]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("judge", JUDGES)
def test_each_lie_is_found(judge: str, plant: Plant) -> None:
    """By each judge, in every history that has a place for it."""
    number = PLANTS.index(plant)
    seen = 0
    for seed in range(12):
        history = planted(World(seed).history(), number + len(PLANTS) * seed)
        if history.planted == PLANTS[number].__name__:
            seen += 1
            assert JUDGES[judge](history) is False
    assert seen


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("events", "ends", "truth"),
    [
        ((APPEND,), ((RECORD,),), True),
        ((APPEND,), ((),), False),
        ((Event("append", 1, 0, 1, bodies=("a",)),), ((),), True),
        ((Event("append", 1, 0, 1, bodies=("a",)),), ((RECORD,),), True),
        ((APPEND, Event("tail", 2, 1, 2, 3, "ok", actual=0, life=0)), ((RECORD,),), True),
        ((APPEND, Event("tail", 2, 1, 5, 6, "ok", actual=0, life=0)), ((RECORD,),), False),
        ((APPEND, Event("tail", 2, 1, 5, 6, "gone")), ((RECORD,),), False),
        ((APPEND, Event("delete", 2, 1, 2, 3, "ok", life=0)), ((RECORD,),), True),
        ((APPEND, Event("delete", 2, 1, 2), Event("tail", 3, 0, 5, 6, "gone")), ((RECORD,),), True),
        (
            (
                APPEND,
                Event("delete", 2, 1, 5, 6, "ok", life=0),
                Event("tail", 3, 0, 7, 8, "ok", actual=1, life=0),
            ),
            ((RECORD,),),
            False,
        ),
    ],
)
def test_small_histories(
    judge: str,
    events: tuple[Event, ...],
    ends: tuple[tuple[tuple[int, int, str], ...], ...],
    truth: bool,
) -> None:
    """Known by hand: each judge is right."""
    assert JUDGES[judge](History(events, ends)) is truth


def test_a_search_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no agreement."""
    monkeypatch.setattr(search, "STATES_MAX", 5)
    tally = Tally()
    judge_both(1, tally, 60)
    assert tally.undecided == 1
    assert tally.disagreements
