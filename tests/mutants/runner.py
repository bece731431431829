"""Runs mutants against their guards, two at a time, and says what came of each."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import Mutant, MutantError, guard_sets
from tests.mutants.copies import Copy, Verdict

WORKERS: Final = 2
GUARD_SECONDS_MAX: Final = 240.0
"""Of one guard, with and without its mutant. A guard that hangs is no catch unless the mutant says
that it `hangs`."""

TOTAL_SECONDS_MAX: Final = 45 * 60.0
"""Of the whole list, on two cores."""

TAIL_LINES: Final = 25
"""Of a guard's output, where it is shown."""


@dataclass(frozen=True, slots=True)
class Catch:
    """A mutant that was noticed: by which test, and in how many seconds. `digest` is the mutant's
    in the copy in which that was, whatever has become of the tree since."""

    mutant: Mutant
    by: str
    seconds: float
    digest: str


@dataclass(slots=True)
class Outcome:
    """`faults` are sentences, and any of them fails the run; `left` did not fit into the time."""

    caught: list[Catch] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    left: list[Mutant] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(slots=True)
class _Run:
    """What the workers share; `lock` guards all of it."""

    jobs: deque[list[Mutant]]
    outcome: Outcome
    say: Callable[[str], None]
    ends: float
    attempts: int
    lock: threading.Lock = field(default_factory=threading.Lock)


def run(
    root: Path,
    mutants: Sequence[Mutant],
    *,
    seconds_max: float = TOTAL_SECONDS_MAX,
    guard_seconds_max: float = GUARD_SECONDS_MAX,
    say: Callable[[str], None] = print,
    attempts: int = 1,
) -> Outcome:
    """Each guard without any mutant first, then with each of its mutants. A guard is not begun
    after `seconds_max`. What is a fault has so many `attempts`, and each but the last is told:
    guards of real processes may be starved."""
    started = time.monotonic()
    outcome = Outcome()
    applying: list[Mutant] = []
    for mutant in mutants:
        try:
            mutant.texts(root)
        except MutantError as error:
            outcome.faults.append(str(error))
            say(f"FAULT {error}")
        else:
            applying.append(mutant)
    jobs = deque(guard_sets(applying).values())
    shared = _Run(jobs, outcome, say, started + seconds_max, attempts)
    threads = [
        threading.Thread(target=_work, args=(shared, root, guard_seconds_max), name=f"mutants-{n}")
        for n in range(min(WORKERS, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        with shared.lock:
            jobs.clear()  # the workers end behind their guard of now, and remove their copies
        raise
    outcome.seconds = time.monotonic() - started
    return outcome


def _work(shared: _Run, root: Path, guard_seconds_max: float) -> None:
    try:
        copy = Copy(root)
        try:
            while (mutants := _next(shared)) is not None:
                _judge(shared, copy, mutants, guard_seconds_max)
        finally:
            copy.remove()
    except Exception as error:
        with shared.lock:
            shared.outcome.faults.append(f"a worker ended: {error!r}")


def _next(shared: _Run) -> list[Mutant] | None:
    with shared.lock:
        return shared.jobs.popleft() if shared.jobs else None


def _judge(shared: _Run, copy: Copy, mutants: list[Mutant], guard_seconds_max: float) -> None:
    """All mutants of one guard."""
    if time.monotonic() >= shared.ends:
        with shared.lock:
            shared.outcome.left += mutants
        return
    guard = mutants[0].guard
    names = ", ".join(mutant.name for mutant in mutants)
    plain = copy.run(guard, guard_seconds_max)
    for _ in range(1, shared.attempts):
        if plain.status != 0:
            _again(shared, f"without a mutant the guard of {names} is {_what(plain)}")
            plain = copy.run(guard, guard_seconds_max)
    if plain.status != 0:
        _fault(shared, f"without a mutant the guard of {names} is {_what(plain)}", plain)
        return
    for mutant in mutants:
        if time.monotonic() >= shared.ends:
            with shared.lock:
                shared.outcome.left.append(mutant)
            continue
        digest = mutant.digest(copy.path)
        verdict = copy.run_mutated(mutant, guard_seconds_max)
        for _ in range(1, shared.attempts):
            if _caught_by(mutant, verdict) is None:
                _again(shared, f"{mutant.name} {_survived(verdict)}")
                verdict = copy.run_mutated(mutant, guard_seconds_max)
        by = _caught_by(mutant, verdict)
        if by is None:
            _fault(shared, f"{mutant.name} {_survived(verdict)}: {mutant.rule}", verdict)
            continue
        with shared.lock:
            shared.outcome.caught.append(Catch(mutant, by, verdict.seconds, digest))
            shared.say(f"caught {mutant.area:8} {mutant.name:48} {verdict.seconds:5.1f} s  {by}")


def _caught_by(mutant: Mutant, verdict: Verdict) -> str | None:
    if verdict.status is None and mutant.hangs:
        return "the guard's time"
    return verdict.by if verdict.red else None


def _again(shared: _Run, what: str) -> None:
    with shared.lock:
        shared.say(f"second attempt: {what}")


def _what(verdict: Verdict) -> str:
    if verdict.status is None:
        return f"not done in {verdict.seconds:.0f} s"
    return f"red, by {verdict.by}" if verdict.red else f"no judgement (status {verdict.status})"


def _survived(verdict: Verdict) -> str:
    if verdict.status == 0:
        return "SURVIVED"
    return f"was not caught, its guard is {_what(verdict)}"


def _fault(shared: _Run, what: str, verdict: Verdict) -> None:
    tail = "\n".join(verdict.text.splitlines()[-TAIL_LINES:]) if verdict.status != 0 else ""
    with shared.lock:
        shared.outcome.faults.append(what)
        shared.say(f"FAULT {what}" + (f"\n{tail}" if tail else ""))
