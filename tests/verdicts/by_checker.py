"""The same histories in the form of tests/linearizability, judged by the project's checker.

The checker judges one stream; a name that was deleted and made again is several. What is asked of
the whole name is checked here: a life answers between its creation and its deletion.
"""

from __future__ import annotations

from typing import Final

from tests.linearizability.checker import check
from tests.linearizability.history import (
    NEVER,
    Append,
    CheckTail,
    Operation,
    Outcome,
    Read,
    SeenRecord,
)
from tests.verdicts.event import Event, History

_OUTCOMES: Final = {
    "ok": Outcome.OK,
    "unknown": Outcome.UNKNOWN,
    "place": Outcome.FAILED,
    "token": Outcome.FAILED,
    "gone": Outcome.FAILED,
}


def judge(history: History) -> bool:
    """Whether the checker finds nothing wrong."""
    lives = _lives(history)
    if not _lives_answer_in_their_time(history):
        return False
    for number, end in enumerate(history.ends):
        final = [SeenRecord(*record) for record in end]
        if not check(lives[number], final).ok:
            return False
    return True


def _lives(history: History) -> list[list[Operation]]:
    """The operations of each. An append without an answer is of the life that holds it."""
    places = {record[2]: life for life, end in enumerate(history.ends) for record in end}
    lives: list[list[Operation]] = [[] for _ in history.ends]
    writes: dict[str, list[Event]] = {}
    for number, event in enumerate(history.events):
        if event.did == "append":
            writes.setdefault(event.request or f"alone {number}", []).append(event)
        elif event.did == "tail" and event.outcome == "ok":
            assert event.ret is not None
            lives[event.life].append(CheckTail(event.client, event.inv, event.ret, event.actual))
        elif event.did == "read" and event.outcome in ("ok", "behind"):
            lives[event.life].append(_read(event))
    for attempts in writes.values():
        append = _append(attempts)
        answered = [event.life for event in attempts if event.life >= 0]
        held = places.get(append.bodies[0], len(lives) - 1)
        lives[answered[0] if answered else held].append(append)
    return lives


def _read(event: Event) -> Read:
    assert event.ret is not None
    return Read(
        event.client,
        event.inv,
        event.ret,
        event.start,
        tuple(SeenRecord(*record) for record in event.records),
        tail=event.actual,
        limited=event.limited,
        past_tail=event.outcome == "behind",
    )


def _append(attempts: list[Event]) -> Append:
    """All attempts of one write: begun with the first, ended with the answer, which a refusal for
    want of a stream is only where nothing else is out."""
    told = [event for event in attempts if event.outcome not in ("unknown", "gone")]
    refused = all(event.outcome == "gone" for event in attempts)
    event = told[-1] if told else attempts[-1]
    outcome = Outcome.UNKNOWN
    if told or refused:
        outcome = _OUTCOMES[event.outcome]
    is_known = outcome is not Outcome.UNKNOWN
    assert not is_known or event.ret is not None
    is_ok = outcome is Outcome.OK
    last = len(event.bodies) - 1
    return Append(
        event.client,
        min(each.inv for each in attempts),
        event.ret if is_known and event.ret is not None else NEVER,
        event.bodies,
        outcome,
        match_seq_num=event.wanted_tail,
        fencing_token=event.wanted_token,
        fences=() if event.sets_token is None else ((0, event.sets_token),),
        trims=() if event.trims_to is None else ((last, event.trims_to),),
        start=event.start if is_ok else None,
        end=event.actual if is_ok else None,
        actual_tail=event.actual if event.outcome == "place" else None,
        actual_token=event.actual_token if event.outcome == "token" else None,
    )


def _lives_answer_in_their_time(history: History) -> bool:
    """Nothing of a life is told by what began behind its deletion's answer, nor before its creation
    was begun; nor is it said to be gone while it certainly was there."""
    first = [0 if life == 0 else NEVER for life in range(len(history.ends))]
    made, over = [0, *[NEVER] * (len(history.ends) - 1)], [NEVER] * len(history.ends)
    deletions = [event for event in history.events if event.did == "delete"]
    creations = [event for event in history.events if event.did == "create"]
    for event in creations:
        for life in range(1, len(history.ends)):
            if event.life in (life, -1):
                first[life] = min(first[life], event.inv)
        if event.life >= 0 and event.ret is not None:
            made[event.life] = min(made[event.life], event.ret)
    for event in deletions:
        if event.outcome == "ok" and event.ret is not None:
            over[event.life] = min(over[event.life], event.ret)
    attempts: dict[str, int] = {}
    for event in history.events:
        begun = attempts.setdefault(event.request, event.inv) if event.request else event.inv
        late = event.life >= 0 and begun > over[event.life]
        early = event.life >= 0 and event.ret is not None and event.ret < first[event.life]
        if event.ret is not None and (late or early):
            return False
        if event.outcome == "gone" and event.ret is not None and deletions:
            maybe = [each for each in deletions if each.inv < event.ret]
            certain = any(
                made[life] < event.inv and not any(each.life in (life, -1) for each in maybe)
                for life in range(len(history.ends))
            )
            if certain:
                return False
        elif event.outcome == "gone":
            return False
    return True
