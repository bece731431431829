"""Inputs made by chance of well-formed and kept ones; and how a fault is told."""

from __future__ import annotations

import random
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from tests.fuzz.target import INPUT_BYTES_MAX, Check, Target, kept
from tests.property.codec.inputs import mutated

HANG_S: Final = 10.0
"""No parser thinks about one input for so long."""
FAULTS_MAX: Final = 5
"""Of one target; then it is given up."""


class HangError(Exception):
    """A parser did not come to an end."""


@dataclass(slots=True)
class Found:
    """What became of a target: how many inputs it had, and the faults, each with its input."""

    inputs: int = 0
    faults: list[tuple[str, bytes]] = field(default_factory=list)


@contextmanager
def checking(target: Target) -> Iterator[Check]:
    """Its check, with what that holds given back behind it."""
    check = target.check()
    try:
        yield check
    finally:
        close = getattr(check, "close", None)
        if close is not None:
            close()


def said(fault: BaseException) -> str:
    """One line: what was raised, and where."""
    where = traceback.extract_tb(fault.__traceback__)[-1]
    text = f"{type(fault).__name__}: {fault}"[:300].replace("\n", " ")
    return f"{text} ({where.name})"


def _hangs(_number: int, _frame: FrameType | None) -> None:
    raise HangError(f"no end within {HANG_S} s")


@contextmanager
def watched() -> Iterator[None]:
    """HangError is raised in whatever takes longer than HANG_S. In the main thread."""
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_inputs(target: Target, inputs: Sequence[bytes]) -> Found:
    """These very inputs."""
    found = Found()
    with checking(target) as check:
        for data in inputs:
            found.inputs += 1
            try:
                with watched():
                    check(data)
            except Exception as fault:
                found.faults.append((said(fault), data))
                if len(found.faults) == FAULTS_MAX:
                    break
    return found


def drawn(target: Target, rng: random.Random, count: int) -> Iterator[bytes]:
    """Some as they are, most spoilt, made of new and of kept ones."""
    seeds = kept(target.name)
    for _ in range(count):
        data = rng.choice(seeds) if seeds and rng.random() < 0.3 else target.make(rng)
        draw = rng.random()
        if draw > 0.95:
            data = rng.randbytes(rng.randint(0, 40))
        elif draw > 0.2:
            data = mutated(rng, data)
        yield data[:INPUT_BYTES_MAX]


def run_by_chance(target: Target, count: int, seed: int) -> Found:
    rng = random.Random(f"{target.name}/{seed}")
    return run_inputs(target, list(drawn(target, rng, count)))
