"""The verdict of a search: is there an order of effects that explains everything that was told?

In the manner of Wing and Gong, with a memory of what was tried (Lowe): operations are put in order
one by one, only such that began before all others that are left have ended, and only where the
state of the stream explains their answers. What the store held at the end of each life of the
stream says which append comes next, so that few orders are left. Nothing here is shared with
tests/linearizability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from tests.verdicts.event import Event, History, Record

STATES_MAX: Final = 300_000
"""Then the search gives up: neither a yes nor a no."""
_NEVER: Final = 1 << 60


class _State(NamedTuple):
    life: int = 0
    exists: bool = True
    tail: int = 0
    token: str = ""
    trim_point: int = 0


def judge(history: History) -> bool | None:
    """Whether some order explains it; None when that was not found out."""
    if not _ends_are_records(history):
        return False
    wanted = sorted(_one_each(history.events), key=lambda event: event.inv)
    ends = [tuple(record[2] for record in end) for end in history.ends]
    must = sum(1 << place for place, event in enumerate(wanted) if event.ret is not None)
    stack = [(0, _State())]
    seen: set[tuple[int, _State]] = set()
    while stack:
        done, state = stack.pop()
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if len(seen) > STATES_MAX:
            return None
        if done & must == must and state.life == len(ends) - 1 and state.tail == len(ends[-1]):
            return True
        stack.extend(_steps(wanted, done, state, ends, history.ends))
    return False


def _steps(
    wanted: list[Event],
    done: int,
    state: _State,
    ends: list[tuple[str, ...]],
    records: tuple[tuple[Record, ...], ...],
) -> Iterator[tuple[int, _State]]:
    left = [place for place in range(len(wanted)) if not done >> place & 1]
    deadline = min((_end(wanted[place]) for place in left), default=_NEVER)
    found: list[tuple[int, _State]] = []
    for place in left:
        event = wanted[place]
        if event.inv > deadline:
            break
        after = _after(event, state, ends, records)
        if after is None:
            continue
        if after == state and event.ret is not None:
            # what only looks may as well look now: nothing that is left becomes harder by it
            yield done | 1 << place, state
            return
        found.append((done | 1 << place, after))
    yield from found


def _after(
    event: Event,
    state: _State,
    ends: list[tuple[str, ...]],
    records: tuple[tuple[Record, ...], ...],
) -> _State | None:
    """The state behind it; None where its answer is not of this state. An answer that never came
    is of every state in which it may have had an effect."""
    unknown = event.ret is None
    if event.did == "create":
        life = state.life if state.exists else state.life + 1
        if life == len(ends) or not (unknown or event.life == life):
            return None
        return state if state.exists else _State(life)
    if event.outcome == "gone":
        return None if state.exists else state
    if not state.exists:
        return None
    if event.did == "delete":
        whole = state.tail == len(ends[state.life])
        return state._replace(exists=False) if whole else None
    if not unknown and event.life != state.life:
        return None
    if event.did == "append":
        return _append(event, state, ends[state.life])
    return state if _seen(event, state, records[state.life]) else None


def _append(event: Event, state: _State, end: tuple[str, ...]) -> _State | None:
    token_holds = event.wanted_token in (None, state.token)
    place_holds = event.wanted_tail in (None, state.tail)
    if event.outcome == "token":
        return state if not token_holds and event.actual_token == state.token else None
    if event.outcome == "place":
        holds = token_holds and not place_holds and event.actual == state.tail
        return state if holds else None
    behind = state.tail + len(event.bodies)
    if not (token_holds and place_holds) or end[state.tail : behind] != event.bodies:
        return None
    if event.outcome == "ok" and (event.start, event.actual) != (state.tail, behind):
        return None
    trim_point = state.trim_point
    if event.trims_to is not None:
        trim_point = max(trim_point, min(event.trims_to, behind))
    token = state.token if event.sets_token is None else event.sets_token
    return _State(state.life, True, behind, token, trim_point)


def _seen(event: Event, state: _State, records: tuple[Record, ...]) -> bool:
    if event.actual != state.tail:
        return False
    if event.did == "tail":
        return True
    if event.outcome == "behind":
        return event.start > state.tail
    first = max(event.start, state.trim_point)
    end = first + len(event.records)
    if event.start > state.tail or event.records != records[first:end] or end > state.tail:
        return False
    return event.limited or end == max(first, state.tail)


def _end(event: Event) -> int:
    return _NEVER if event.ret is None else event.ret


def _one_each(events: tuple[Event, ...]) -> list[Event]:
    """All attempts of one request as the one operation that they are: begun with the first, ended
    with the answer that came, if one did. That there was no stream is told of a moment only: the
    other attempts stand beside it."""
    alone: list[Event] = []
    named: dict[str, list[Event]] = {}
    for event in events:
        if event.request and event.outcome != "gone":
            named.setdefault(event.request, []).append(event)
        else:
            alone.append(event)
    for attempts in named.values():
        answers = [event for event in attempts if event.ret is not None]
        begun = min(event.inv for event in attempts)
        alone.append(replace((answers or attempts)[-1], inv=begun))
    return alone


def _ends_are_records(history: History) -> bool:
    for end in history.ends:
        stamps = [record[1] for record in end]
        if [record[0] for record in end] != list(range(len(end))) or stamps != sorted(stamps):
            return False
    return True
