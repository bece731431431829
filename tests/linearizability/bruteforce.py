"""The same question as `checker`, answered by trying every order of effects. For tiny histories.

Shares nothing with the checker but the history's form: the state is the list of records and the
token, and each operation says in which states it may happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.linearizability.history import (
    NEVER,
    Append,
    CheckTail,
    Operation,
    Outcome,
    Read,
    SeenRecord,
)


class _State(NamedTuple):
    bodies: tuple[str, ...]
    token: str
    trim_point: int = 0


def is_linearizable(operations: Sequence[Operation], final: Sequence[SeenRecord]) -> bool:
    """Search all orders that respect real time for one that ends in `final`."""
    if not _numbered(final) or not _sessions_are_gapless(operations):
        return False
    bodies = tuple(record.body for record in final)
    timestamps = [record.timestamp_ms for record in final]
    for operation in operations:
        if isinstance(operation, Read) and not _timestamps_agree(operation, timestamps):
            return False
    wanted = sorted(operations, key=lambda op: op.inv)
    seen: set[tuple[int, _State]] = set()
    everything = (1 << len(wanted)) - 1
    stack = [(0, _State((), ""))]
    while stack:
        done, state = stack.pop()
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if done == everything:
            if state.bodies == bodies:
                return True
            continue
        pending = [n for n in range(len(wanted)) if not done >> n & 1]
        deadline = min(wanted[n].ret for n in pending)
        for number in pending:
            operation = wanted[number]
            if operation.inv > deadline:
                break
            stack.extend((done | 1 << number, after) for after in _successors(operation, state))
    return False


def _successors(operation: Operation, state: _State) -> list[_State]:
    """The states that may follow; none when the operation cannot happen in this one."""
    if isinstance(operation, Append):
        return _append(operation, state)
    if isinstance(operation, CheckTail):
        return [state] if operation.tail == len(state.bodies) else []
    return [state] if _read_fits(operation, state) else []


def _append(append: Append, state: _State) -> list[_State]:
    tail = len(state.bodies)
    token_holds = append.fencing_token is None or append.fencing_token == state.token
    match_holds = append.match_seq_num is None or append.match_seq_num == tail
    token = state.token if append.new_token is None else append.new_token
    trim_point = state.trim_point
    for place, wanted in append.trims:
        trim_point = max(trim_point, min(wanted, tail + place + 1))
    after = _State(state.bodies + append.bodies, token, trim_point)
    match append.outcome:
        case Outcome.OK:
            fits = append.start == tail and append.end == len(after.bodies)
            return [after] if fits and token_holds and match_holds else []
        case Outcome.UNKNOWN:
            return [state, after] if token_holds and match_holds else [state]
        case Outcome.FAILED:
            if append.actual_token is not None:
                fits = append.actual_token == state.token and not token_holds
                return [state] if fits else []
            if append.actual_tail is not None:
                fits = append.actual_tail == tail and token_holds and not match_holds
                return [state] if fits else []
            return [state]


def _read_fits(read: Read, state: _State) -> bool:
    tail = len(state.bodies)
    seen = tuple(record.body for record in read.records)
    if read.past_tail:
        return read.tail == tail and read.start > tail
    begin = max(read.start, state.trim_point)
    if seen and (read.first != begin or state.bodies[begin : begin + len(seen)] != seen):
        return False
    if read.tail is None:
        return True
    return read.tail == tail and (read.limited or begin + len(seen) >= tail)


def _numbered(final: Sequence[SeenRecord]) -> bool:
    timestamps = [record.timestamp_ms for record in final]
    return [record.seq_num for record in final] == list(range(len(final))) and timestamps == sorted(
        timestamps
    )


def _timestamps_agree(read: Read, timestamps: list[int]) -> bool:
    return all(
        record.seq_num == read.first + place
        and record.seq_num < len(timestamps)
        and record.timestamp_ms == timestamps[record.seq_num]
        for place, record in enumerate(read.records)
    )


def _sessions_are_gapless(operations: Sequence[Operation]) -> bool:
    ends: dict[tuple[int, int], int] = {}
    for operation in operations:
        if isinstance(operation, Read) and operation.session is not None:
            key = (operation.client, operation.session)
            if ends.get(key, operation.start) != operation.start:
                return False
            ends[key] = operation.end
    return True


assert NEVER > 1 << 60, "an append of unknown outcome never limits the others"
