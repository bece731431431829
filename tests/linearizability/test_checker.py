"""The checker is exact: brute force agrees with it, and every planted bug is caught."""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.linearizability.bodies import is_whole, make_body
from tests.linearizability.bruteforce import is_linearizable
from tests.linearizability.checker import check
from tests.linearizability.generate import Generated, disturb, generate, generate_large
from tests.linearizability.history import (
    NEVER,
    Append,
    CheckTail,
    Operation,
    Outcome,
    Read,
    SeenRecord,
    read_history,
    write_history,
)

CROSS_CHECKS = int(os.environ.get("CHECKER_CROSS_CHECKS", "4000"))


def test_checker_agrees_with_brute_force() -> None:
    """Over random small histories, true and disturbed, both give the same answer."""
    refuted = 0
    for seed in range(CROSS_CHECKS):
        rng = random.Random(seed)
        history = generate(rng, operations=rng.randint(3, 9), clients=rng.randint(2, 4))
        for _ in range(rng.choice((0, 1, 1, 2))):
            history = disturb(rng, history)
        expected = is_linearizable(history.operations, history.final)
        verdict = check(history.operations, history.final)
        assert verdict.ok == expected, f"seed {seed}: brute force says {expected}: {verdict}"
        refuted += not expected
    assert CROSS_CHECKS // 10 < refuted < CROSS_CHECKS * 9 // 10, "both answers must be exercised"


def test_true_histories_pass() -> None:
    """What a correct stream does is never called a fault."""
    for seed in range(300):
        rng = random.Random(seed)
        history = generate(rng, operations=60, clients=6)
        verdict = check(history.operations, history.final)
        assert verdict.ok, f"seed {seed}: {verdict}"


def test_history_survives_the_disk() -> None:
    """JSON lines give back exactly the operations that were written."""
    history = generate(random.Random(5), operations=200, clients=8)
    file = io.StringIO()
    write_history(history.operations, file)
    assert list(read_history(file.getvalue().splitlines())) == history.operations


def test_bodies_prove_that_they_are_whole() -> None:
    """A changed byte of a body shows."""
    body = make_body(1, 2, 3, 4, 5, padding=20)
    assert is_whole(body)
    assert not is_whole(body.replace("x", "y", 1))
    assert not is_whole(body[:-1])


def test_operations_by_the_hundred_thousand_take_seconds() -> None:
    """The checker is fast enough for long runs against a live cluster."""
    history = generate_large(random.Random(1), operations=300_000, clients=64)
    started = time.process_time()
    verdict = check(history.operations, history.final)
    took = time.process_time() - started
    assert verdict.ok, str(verdict)
    assert took < 6, f"{took:.1f} s"
    print(f"{took:.1f} s for {len(history.operations)} operations")


def _stream(*sizes: int) -> tuple[list[SeenRecord], list[Append]]:
    """Acknowledged appends one after another: number i at [10 i, 10 i + 5]."""
    final: list[SeenRecord] = []
    appends: list[Append] = []
    for number, size in enumerate(sizes):
        start = len(final)
        bodies = tuple(f"{number}.{place}" for place in range(size))
        final.extend(SeenRecord(start + n, number, body) for n, body in enumerate(bodies))
        appends.append(
            Append(1, 10 * number, 10 * number + 5, bodies, Outcome.OK, start=start, end=len(final))
        )
    return final, appends


def _planted(*extra: Operation, sizes: tuple[int, ...] = (2, 1, 3, 1)) -> Generated:
    final, appends = _stream(*sizes)
    return Generated([*appends, *extra], final)


def _renumber(records: list[SeenRecord]) -> list[SeenRecord]:
    return [record._replace(seq_num=at, timestamp_ms=at) for at, record in enumerate(records)]


def _lost_append() -> Generated:
    history = _planted()
    return Generated(history.operations, history.final[:-1])


def _lost_middle_append() -> Generated:
    history = _planted()
    return Generated(history.operations, _renumber(history.final[:2] + history.final[3:]))


def _double_apply() -> Generated:
    history = _planted()
    return Generated(history.operations, _renumber(history.final + history.final[:2]))


def _half_batch() -> Generated:
    history = _planted()
    return Generated(history.operations, history.final[:5])


def _swapped_batches() -> Generated:
    history = _planted(sizes=(1, 1, 1))
    f = history.final
    return Generated(history.operations, _renumber([f[1], f[0], f[2]]))


def _swapped_records() -> Generated:
    history = _planted()
    f = history.final
    return Generated(history.operations, _renumber([f[1], f[0], *f[2:]]))


def _foreign_record() -> Generated:
    history = _planted()
    return Generated(history.operations, [*history.final, SeenRecord(7, 9, "nobody's")])


def _interleaved_batches() -> Generated:
    final = [SeenRecord(n, 0, body) for n, body in enumerate(("a0", "b0", "a1", "b1"))]
    return Generated(
        [
            _unknown("a0", "a1"),
            _unknown("b0", "b1"),
        ],
        final,
    )


def _unknown(*bodies: str, inv: int = 0) -> Append:
    return Append(2, inv, NEVER, bodies, Outcome.UNKNOWN)


def _failed_took_effect() -> Generated:
    history = _planted()
    operations = list(history.operations)
    last = operations[-1]
    assert isinstance(last, Append)
    operations[-1] = replace(last, outcome=Outcome.FAILED, start=None, end=None)
    return Generated(operations, history.final)


def _seen(history: Generated, start: int, end: int) -> tuple[SeenRecord, ...]:
    return tuple(history.final[start:end])


def _read_of(start: int, end: int, inv: int, ret: int, **more: object) -> Generated:
    history = _planted()
    read = Read(3, inv, ret, start, _seen(history, start, end), **more)  # type: ignore[arg-type]
    return Generated([*history.operations, read], history.final)


def _read_of_failed_append() -> Generated:
    history = _planted(
        Append(4, 41, 42, ("ghost",), Outcome.FAILED),
        Read(3, 43, 44, 7, (SeenRecord(7, 9, "ghost"),), limited=True),
    )
    return Generated(history.operations, history.final)


def _changed_timestamp() -> Generated:
    history = _planted()
    changed = history.final[0]._replace(timestamp_ms=77)
    read = Read(3, 50, 51, 0, (changed,), limited=True)
    return Generated([*history.operations, read], history.final)


def _timestamp_goes_back() -> Generated:
    history = _planted()
    final = list(history.final)
    final[0] = final[0]._replace(timestamp_ms=99)
    return Generated(history.operations, final)


def _effective_with(**changes: object) -> Generated:
    history = _planted()
    operations = list(history.operations)
    operations[2] = replace(operations[2], **changes)  # type: ignore[arg-type]
    return Generated(operations, history.final)


def _session(*ranges: tuple[int, int]) -> Generated:
    history = _planted()
    batches = [
        Read(3, 50 + n, 51 + n, a, _seen(history, a, b), limited=True, session=1)
        for n, (a, b) in enumerate(ranges)
    ]
    return Generated([*history.operations, *batches], history.final)


def _pipelined(*ordinals: int | None) -> Generated:
    """The appends of `_planted` as batches of one session, with one of unknown outcome behind them
    that is not there; None: not of the session."""
    history = _planted(_unknown("never"))
    operations = [
        operation if place is None else replace(operation, session=1, ordinal=place)  # type: ignore[arg-type]
        for place, operation in zip(ordinals, history.operations, strict=True)
    ]
    return Generated(operations, history.final)


def _fenced(refused: Append) -> Generated:
    """The token `one` is set at [10, 15], `two` at [20, 25]."""
    final = [SeenRecord(0, 0, "a"), SeenRecord(1, 0, "one"), SeenRecord(2, 0, "two")]
    return Generated(
        [
            Append(1, 0, 5, ("a",), Outcome.OK, start=0, end=1),
            Append(1, 10, 15, ("one",), Outcome.OK, fences=((0, "one"),), start=1, end=2),
            Append(1, 20, 25, ("two",), Outcome.OK, fences=((0, "two"),), start=2, end=3),
            refused,
        ],
        final,
    )


def _trimmed(*extra: Operation, wanted: int = 2) -> Generated:
    """Seven records as in `_planted`, then a trim to `wanted` at [50, 55]: record 7 is it."""
    final, appends = _stream(2, 1, 3, 1)
    final.append(SeenRecord(7, 9, "trim"))
    trim = Append(1, 50, 55, ("trim",), Outcome.OK, trims=((0, wanted),), start=7, end=8)
    return Generated([*appends, trim, *extra], final)


def _read_trimmed(
    first: int, end: int, inv: int, ret: int, *, wanted: int = 2, **more: object
) -> Generated:
    """A read from 0 that found the records [first, end)."""
    seen = tuple(_trimmed().final[first:end])
    return _trimmed(Read(3, inv, ret, 0, seen, **more), wanted=wanted)  # type: ignore[arg-type]


def _refused(inv: int, ret: int, **how: object) -> Append:
    return Append(4, inv, ret, ("no",), Outcome.FAILED, **how)  # type: ignore[arg-type]


PLANTED: dict[str, tuple[str, Callable[[], Generated]]] = {
    "lost append": ("R2", _lost_append),
    "lost append in the middle": ("R2", _lost_middle_append),
    "append applied twice": ("R1", _double_apply),
    "half a batch": ("R3", _half_batch),
    "swapped batches": ("R2", _swapped_batches),
    "swapped records of a batch": ("R3", _swapped_records),
    "record that nobody appended": ("R1", _foreign_record),
    "interleaved batches": ("R3", _interleaved_batches),
    "definite failure took effect": ("R3", _failed_took_effect),
    "record of a failed append was read": ("R6", _read_of_failed_append),
    "timestamp differs between reads": ("R6", _changed_timestamp),
    "timestamps go back": ("R6", _timestamp_goes_back),
    "stale tail": ("time", lambda: _planted(CheckTail(3, 50, 51, 6))),
    "tail from the future": ("time", lambda: _planted(CheckTail(3, 6, 7, 3))),
    "tail inside a batch": ("R7", lambda: _planted(CheckTail(3, 50, 51, 4))),
    "tail behind the end": ("R7", lambda: _planted(CheckTail(3, 50, 51, 8))),
    "stale read": ("time", lambda: _read_of(0, 6, 50, 51, tail=6)),
    "read stops before the tail": ("R7", lambda: _read_of(0, 3, 50, 51, tail=7)),
    "read of the future": ("time", lambda: _read_of(0, 6, 6, 7, limited=True)),
    "read refused below the tail": (
        "R7",
        lambda: _planted(Read(3, 50, 51, 3, (), tail=7, past_tail=True)),
    ),
    "match ignored": ("R5", lambda: _effective_with(match_seq_num=1)),
    "token ignored": ("R5", lambda: _effective_with(fencing_token="stale")),
    "moved append": ("R2", lambda: _effective_with(start=4, end=7)),
    "acknowledged tail before its end": ("R7", lambda: _effective_with(tail=3)),
    "acknowledged tail from the future": ("time", lambda: _effective_with(tail=7)),
    "session with a gap": ("R6", lambda: _session((0, 2), (3, 6))),
    "session goes back": ("R6", lambda: _session((0, 3), (2, 6))),
    "pipelined batch without the one before": ("R9", lambda: _pipelined(0, 1, None, 3, 2)),
    "pipelined batch before the one before": ("R9", lambda: _pipelined(0, 2, 1, None, 3)),
    "refused although the match held": (
        "R5",
        lambda: _planted(_refused(50, 51, match_seq_num=7, actual_tail=7)),
    ),
    "refusal reports a stale tail": (
        "time",
        lambda: _planted(_refused(50, 51, match_seq_num=9, actual_tail=6)),
    ),
    "refusal reports a stale token": (
        "time",
        lambda: _fenced(_refused(50, 51, fencing_token="x", actual_token="one")),
    ),
    "refusal reports a token from the future": (
        "time",
        lambda: _fenced(_refused(11, 12, fencing_token="x", actual_token="two")),
    ),
    "refusal reports a token that never was": (
        "R5",
        lambda: _fenced(_refused(50, 51, fencing_token="x", actual_token="three")),
    ),
    "refused although the token held": (
        "R5",
        lambda: _fenced(_refused(50, 51, fencing_token="two", actual_token="two")),
    ),
    "refused for its place with a wrong token": (
        "R5",
        lambda: _fenced(_refused(50, 51, fencing_token="one", match_seq_num=9, actual_tail=3)),
    ),
    "trimmed records are read": ("R8", lambda: _read_trimmed(0, 8, 60, 61, tail=8)),
    "trimmed records are read in part": ("R8", lambda: _read_trimmed(1, 8, 60, 61, tail=8)),
    "a trim took too much": ("R8", lambda: _read_trimmed(3, 8, 60, 61, tail=8)),
    "trimmed before it was asked for": ("time", lambda: _read_trimmed(2, 5, 46, 47, limited=True)),
    "trimmed records in an event": ("time", lambda: _read_trimmed(0, 5, 60, 61, limited=True)),
    "an event begins where nothing was trimmed": (
        "R8",
        lambda: _read_trimmed(3, 5, 60, 61, limited=True),
    ),
    "everything is trimmed by a trim that keeps something": (
        "R7",
        lambda: _read_trimmed(0, 0, 60, 61, tail=8),
    ),
    "append took effect before it was asked for": (
        "time",
        lambda: Generated(
            [
                *_planted().operations,
                CheckTail(3, 36, 37, 8),
                _unknown("late", inv=60),
            ],
            [*_planted().final, SeenRecord(7, 9, "late")],
        ),
    ),
}


@pytest.mark.parametrize("bug", list(PLANTED))
def test_planted_bug_is_caught(bug: str) -> None:
    """A history with one bug is refuted, by the rule that the bug breaks."""
    rule, plant = PLANTED[bug]
    history = plant()
    verdict = check(history.operations, history.final)
    assert not verdict.ok
    assert rule in {violation.rule for violation in verdict.violations}, str(verdict)


def test_histories_that_bugs_are_planted_into_are_true() -> None:
    """The planted bugs are caught for what they are, not for how the history was made."""
    for history in (
        _planted(CheckTail(3, 50, 51, 7)),
        _read_of(0, 7, 50, 51, tail=7),
        _session((0, 3), (3, 6)),
        _pipelined(0, None, 1, 2, 3),
        _read_trimmed(2, 8, 60, 61, tail=8),
        _read_trimmed(0, 7, 46, 47, tail=7),
        _read_trimmed(0, 5, 51, 52, limited=True),
        _read_trimmed(2, 5, 51, 52, limited=True),
        _read_trimmed(0, 0, 60, 61, wanted=99, tail=8),
        _fenced(_refused(50, 51, fencing_token="x", actual_token="two")),
        _planted(_refused(50, 51, match_seq_num=9, actual_tail=7)),
    ):
        verdict = check(history.operations, history.final)
        assert verdict.ok, str(verdict)
