"""Lies in a true history, each certain: no order of effects explains it any more."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.verdicts.event import Event, History, Record

Plant = Callable[[random.Random, History], History | None]
"""None where the history has no place for it."""


def _with(history: History, old: Event, new: Event) -> History:
    events = tuple(new if event is old else event for event in history.events)
    return replace(history, events=events)


def _some(rng: random.Random, events: list[Event]) -> Event | None:
    return rng.choice(events) if events else None


def _answered(history: History, did: str, outcome: str = "ok") -> list[Event]:
    return [
        e for e in history.events if e.did == did and e.outcome == outcome and e.ret is not None
    ]


def stale_tail(rng: random.Random, history: History) -> History | None:
    """A tail from before an append that had been acknowledged when it was asked for."""
    places = [
        (look, append)
        for look in _answered(history, "tail")
        for append in _answered(history, "append")
        if append.life == look.life and (append.ret or 0) < look.inv
    ]
    if not places:
        return None
    look, append = rng.choice(places)
    return _with(history, look, replace(look, actual=append.start))


def lost_append(rng: random.Random, history: History) -> History | None:
    """The store no longer holds the last batch that was acknowledged of a life."""
    places = [
        event
        for event in _answered(history, "append")
        if history.ends[event.life] and history.ends[event.life][-1][2] == event.bodies[-1]
    ]
    event = _some(rng, places)
    if event is None:
        return None
    ends = list(history.ends)
    ends[event.life] = ends[event.life][: -len(event.bodies)]
    return replace(history, ends=tuple(ends))


def doubled_append(rng: random.Random, history: History) -> History | None:
    """A write stands twice: its second attempt was carried out too."""
    event = _some(rng, _answered(history, "append"))
    if event is None:
        return None
    ends = list(history.ends)
    end = ends[event.life]
    stamp = end[-1][1]
    more: list[Record] = [
        (len(end) + place, stamp, body) for place, body in enumerate(event.bodies)
    ]
    ends[event.life] = (*end, *more)
    return replace(history, ends=tuple(ends))


def other_place(rng: random.Random, history: History) -> History | None:
    """An acknowledgement names another place than the records have."""
    event = _some(rng, _answered(history, "append"))
    if event is None:
        return None
    return _with(history, event, replace(event, start=event.start + 1, actual=event.actual + 1))


def swapped_records(rng: random.Random, history: History) -> History | None:
    """A read shows two records in each other's place."""
    event = _some(rng, [read for read in _answered(history, "read") if len(read.records) >= 2])
    if event is None:
        return None
    (a, stamp_a, one), (b, stamp_b, other), *rest = event.records
    records = ((a, stamp_a, other), (b, stamp_b, one), *rest)
    return _with(history, event, replace(event, records=records))


def hole_in_a_read(rng: random.Random, history: History) -> History | None:
    """A read leaves a record out that lies between two others."""
    event = _some(rng, [read for read in _answered(history, "read") if len(read.records) >= 3])
    if event is None:
        return None
    records = (event.records[0], *event.records[2:])
    return _with(history, event, replace(event, records=records))


def refused_for_nothing(rng: random.Random, history: History) -> History | None:
    """An append is refused for its place, and the tail that it is told is what it asked for."""
    event = _some(rng, _answered(history, "append", "place"))
    if event is None or event.wanted_tail is None:
        return None
    return _with(history, event, replace(event, actual=event.wanted_tail))


def wrong_token(rng: random.Random, history: History) -> History | None:
    """An append is refused for the very token that it has."""
    event = _some(rng, _answered(history, "append", "token"))
    if event is None or event.wanted_token is None:
        return None
    return _with(history, event, replace(event, actual_token=event.wanted_token))


def answers_from_the_dead(rng: random.Random, history: History) -> History | None:
    """What a deleted stream was is told by a look behind the answer to its deletion."""
    places = [
        (look, deletion)
        for deletion in _answered(history, "delete")
        for look in [*_answered(history, "tail"), *_answered(history, "tail", "gone")]
        if look.inv > (deletion.ret or 0) and look.life != deletion.life
    ]
    if not places:
        return None
    look, deletion = rng.choice(places)
    end = len(history.ends[deletion.life])
    return _with(history, look, replace(look, outcome="ok", actual=end, life=deletion.life))


def gone_without_deletion(rng: random.Random, history: History) -> History | None:
    """A look before anybody asked for a deletion is told that there is no stream."""
    asked = min((event.inv for event in history.events if event.did == "delete"), default=1 << 60)
    event = _some(rng, [look for look in _answered(history, "tail") if (look.ret or 0) < asked])
    if event is None:
        return None
    return _with(history, event, replace(event, outcome="gone", life=-1))


def read_beyond_a_trim(rng: random.Random, history: History) -> History | None:
    """A read that began behind an acknowledged trim shows what that took away."""
    places = [
        look
        for trim in _answered(history, "append")
        for look in _answered(history, "read")
        if trim.trims_to is not None
        and look.life == trim.life
        and look.inv > (trim.ret or 0)
        and look.start < min(trim.trims_to, trim.actual)
    ]
    look = _some(rng, places)
    if look is None:
        return None
    records = history.ends[look.life][look.start : look.actual]
    if records == look.records or not records:
        return None
    return _with(history, look, replace(look, records=records))


PLANTS: Final[tuple[Plant, ...]] = (
    stale_tail,
    lost_append,
    doubled_append,
    other_place,
    swapped_records,
    hole_in_a_read,
    refused_for_nothing,
    wrong_token,
    answers_from_the_dead,
    gone_without_deletion,
    read_beyond_a_trim,
)


def planted(history: History, seed: int) -> History:
    """With one lie, of the kind that the seed says, or of the next that has a place in it."""
    rng = random.Random(f"plant/{seed}")
    for turn in range(len(PLANTS)):
        plant = PLANTS[(seed + turn) % len(PLANTS)]
        found = plant(rng, history)
        if found is not None:
            return replace(found, planted=plant.__name__)
    raise ValueError(f"history {seed} has no place for any lie")
