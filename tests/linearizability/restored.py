"""A history with a backup and a restore in it: what the second life begins with.

A backup keeps one moment between its beginning and its end. Its restore is a prefix of the order in
which appends took effect: everything acknowledged before it began, nothing asked for after it had
ended, and no batch by half. What came later in the first life never was for the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class Life:
    """What clients did while one cluster had the stream, and what was there at the end."""

    operations: Sequence[Operation]
    final: Sequence[SeenRecord]


@dataclass(frozen=True, slots=True)
class Backup:
    """Between which moments of the first life it was taken, and what its restore brought."""

    began: int
    ended: int
    kept: Sequence[SeenRecord]


def judge(first: Life, backup: Backup, second: Life) -> list[str]:
    """What is wrong with both lives, as sentences. Times and clients of the second begin anew."""
    faults = [f"first life: {violation}" for violation in check(*_of(first)).violations]
    kept = list(backup.kept)
    if list(first.final[: len(kept)]) != kept:
        place = next(
            (n for n, (a, b) in enumerate(zip(first.final, kept, strict=False)) if a != b),
            min(len(first.final), len(kept)),
        )
        faults.append(f"what was restored is no prefix: it differs at {place}")
    if list(second.final[: len(kept)]) != kept:
        faults.append("the second life does not begin with what was restored")
    bodies = frozenset(record.body for record in kept)
    for operation in first.operations:
        fault = _misplaced(operation, backup, bodies)
        if fault is not None:
            faults.append(f"{fault}: {str(operation)[:300]}")
    faults += _come_back(first, second, len(kept))
    joined = _joined(first, backup, second)
    faults += [f"both lives: {each}" for each in check(joined, list(second.final)).violations]
    return faults


def _of(life: Life) -> tuple[Sequence[Operation], list[SeenRecord]]:
    return life.operations, list(life.final)


def _misplaced(operation: Operation, backup: Backup, bodies: frozenset[str]) -> str | None:
    """What an operation of the first life has against the place of the backup; None: nothing."""
    count = len(backup.kept)
    if isinstance(operation, Append):
        there = sum(body in bodies for body in operation.bodies)
        if 0 < there < len(operation.bodies):
            return "a batch was restored by half"
        if there and operation.inv > backup.ended:
            return "a batch was restored that was asked for after the backup"
        if operation.outcome is Outcome.OK and operation.ret < backup.began and not there:
            return "a batch was acknowledged before the backup and is not in it"
    elif operation.ret < backup.began:
        seen = operation.tail if isinstance(operation, CheckTail) else operation.end
        if (
            seen is not None
            and seen > count
            and not (isinstance(operation, Read) and not operation.records)
        ):
            return "more was seen before the backup than it has"
    return None


def _come_back(first: Life, second: Life, count: int) -> list[str]:
    """Batches of the first life that stand in the second behind what was restored."""
    earlier = {
        body for each in first.operations if isinstance(each, Append) for body in each.bodies
    }
    return [
        f"record {record.seq_num} of the first life came back behind the restore"
        for record in second.final[count:]
        if record.body in earlier
    ]


def _joined(first: Life, backup: Backup, second: Life) -> list[Operation]:
    """Both lives as one history: of the first what the second stands on."""
    bodies = {record.body for record in backup.kept}
    joined: list[Operation] = []
    for operation in first.operations:
        if isinstance(operation, Append):
            if operation.outcome is not Outcome.FAILED and operation.bodies[0] in bodies:
                joined.append(operation)
        elif operation.ret < backup.began:
            joined.append(operation)
    shift = 1 + max((_known(each) for each in first.operations), default=0)
    clients = 1 + max((each.client for each in first.operations), default=0)
    sessions = 1 + max((_session(each) for each in first.operations), default=0)
    joined += [_shifted(each, shift, clients, sessions) for each in second.operations]
    return joined


def _known(operation: Operation) -> int:
    return operation.inv if operation.ret == NEVER else operation.ret


def _session(operation: Operation) -> int:
    found = None if isinstance(operation, CheckTail) else operation.session
    return 0 if found is None else found


def _shifted(operation: Operation, shift: int, clients: int, sessions: int) -> Operation:
    ret = operation.ret if operation.ret == NEVER else operation.ret + shift
    moved = replace(
        operation, inv=operation.inv + shift, ret=ret, client=operation.client + clients
    )
    if isinstance(moved, CheckTail) or moved.session is None:
        return moved
    return replace(moved, session=moved.session + sessions)
