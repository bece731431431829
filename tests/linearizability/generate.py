"""Random histories: small ones for cross-checks, with and without lies, and large true ones."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.linearizability.history import (
    NEVER,
    Append,
    CheckTail,
    Operation,
    Outcome,
    Read,
    SeenRecord,
)


@dataclass(slots=True)
class Generated:
    operations: list[Operation]
    final: list[SeenRecord]


@dataclass(slots=True)
class _World:
    """A correct stream; operations take effect at the moment at which they are carried out."""

    records: list[SeenRecord] = field(default_factory=list)
    token: str = ""
    trim_point: int = 0
    issued: int = 0

    def fresh(self, count: int) -> tuple[str, ...]:
        self.issued += count
        return tuple(f"r{number}" for number in range(self.issued - count, self.issued))

    def take(self, append: Append) -> None:
        self.trim_point = append.trim_point(len(self.records), self.trim_point)
        for body in append.bodies:
            at = len(self.records)
            self.records.append(SeenRecord(at, at // 3, body))
        if append.new_token is not None:
            self.token = append.new_token


def generate(
    rng: random.Random, *, operations: int, clients: int, unknown_share: float = 0.15
) -> Generated:
    """A true history: every operation has a moment of effect between its two times."""
    world = _World()
    busy: dict[int, Operation] = {}
    late: list[Append] = []
    out: list[Operation] = []
    now = started = 0
    while started < operations or busy:
        now += 1
        free = [client for client in range(clients) if client not in busy]
        if free and started < operations and (not busy or rng.random() < 0.5):
            client = rng.choice(free)
            busy[client] = _effect(rng, world, client, now, unknown_share)
            started += 1
        else:
            client = rng.choice(sorted(busy))
            operation = busy.pop(client)
            if isinstance(operation, Append) and operation.outcome is Outcome.UNKNOWN:
                if not operation.bodies[0].startswith("?"):
                    out.append(operation)
                else:
                    late.append(operation)
            else:
                out.append(replace(operation, ret=now))
        if late and rng.random() < 0.3:
            out.append(_late_effect(rng, world, late.pop()))
    out.extend(_late_effect(rng, world, operation) for operation in late)
    return Generated(sorted(out, key=lambda op: op.inv), list(world.records))


def _late_effect(rng: random.Random, world: _World, append: Append) -> Append:
    """An append of unknown outcome takes effect long after its client gave up, or never."""
    bodies = world.fresh(len(append.bodies))
    append = replace(append, bodies=bodies)
    if rng.random() < 0.6 and _holds(append, world):
        world.take(append)
    return append


def _holds(append: Append, world: _World) -> bool:
    return append.match_seq_num in (None, len(world.records)) and append.fencing_token in (
        None,
        world.token,
    )


def _effect(
    rng: random.Random, world: _World, client: int, now: int, unknown_share: float
) -> Operation:
    kind = rng.random()
    tail = len(world.records)
    if kind < 0.5:
        return _append(rng, world, client, now, unknown_share)
    if kind < 0.65:
        return CheckTail(client, now, NEVER, tail)
    start = rng.randint(0, tail + 1)
    if start > tail:
        return Read(client, now, NEVER, start, (), tail=tail, past_tail=True)
    limited = rng.random() < 0.5
    begin = max(start, world.trim_point)
    end = rng.randint(begin, tail) if limited else tail
    reported = tail if not limited or rng.random() < 0.5 else None
    return Read(
        client, now, NEVER, start, tuple(world.records[begin:end]), tail=reported, limited=limited
    )


def _append(
    rng: random.Random, world: _World, client: int, now: int, unknown_share: float
) -> Append:
    tail = len(world.records)
    count = rng.choice((1, 1, 2, 3))
    match = rng.choice((None, None, tail, tail, rng.randint(0, tail + 1)))
    token = rng.choice((None, None, world.token, "other"))
    fences: tuple[tuple[int, str], ...] = ()
    if rng.random() < 0.25:
        fences = ((rng.randrange(count), f"t{world.issued}.{now}"),)
    trims: tuple[tuple[int, int], ...] = ()
    if rng.random() < 0.15:
        trims = ((rng.randrange(count), rng.randint(0, tail + 4)),)
    append = Append(
        client,
        now,
        NEVER,
        ("?",) * count,
        Outcome.UNKNOWN,
        match,
        token,
        fences=fences,
        trims=trims,
    )
    if rng.random() < unknown_share and rng.random() < 0.6:
        return append
    append = replace(append, bodies=world.fresh(count))
    if not _holds(append, world):
        if token not in (None, world.token):
            return replace(append, outcome=Outcome.FAILED, actual_token=world.token)
        return replace(append, outcome=Outcome.FAILED, actual_tail=tail)
    if rng.random() < 0.05:
        return replace(append, outcome=Outcome.FAILED)
    world.take(append)
    if rng.random() < unknown_share:
        return append
    return replace(append, outcome=Outcome.OK, start=tail, end=tail + count, tail=None)


def disturb(rng: random.Random, history: Generated) -> Generated:
    """Change one fact; the result is usually, but not always, a lie."""
    operations = list(history.operations)
    final = list(history.final)
    slot = rng.randrange(len(operations))
    operation = operations[slot]
    shift = rng.choice((-2, -1, 1, 2))
    match rng.randrange(8):
        case 0 if isinstance(operation, CheckTail):
            operations[slot] = replace(operation, tail=max(0, operation.tail + shift))
        case 1 if isinstance(operation, Append) and operation.outcome is Outcome.OK:
            operations[slot] = replace(operation, outcome=Outcome.FAILED, start=None, end=None)
        case 2 if isinstance(operation, Append) and operation.actual_tail is not None:
            actual = max(0, operation.actual_tail + shift)
            operations[slot] = replace(operation, actual_tail=actual)
        case 3 if isinstance(operation, Read) and operation.tail is not None:
            operations[slot] = replace(operation, tail=max(0, operation.tail + shift))
        case 6 if isinstance(operation, Append) and operation.trims:
            ((place, wanted),) = operation.trims
            operations[slot] = replace(operation, trims=((place, max(0, wanted + shift)),))
        case 7 if isinstance(operation, Read) and operation.records:
            first = max(0, operation.first + shift)
            operations[slot] = replace(operation, records=tuple(final[first : operation.end]))
        case 4 if len(final) > 1:
            a, b = rng.sample(range(len(final)), 2)
            bodies = [record.body for record in final]
            bodies[a], bodies[b] = bodies[b], bodies[a]
            final = [record._replace(body=body) for record, body in zip(final, bodies, strict=True)]
        case _:
            operations = _squeeze(rng, operations)
    return Generated(operations, final)


def _squeeze(rng: random.Random, operations: list[Operation]) -> list[Operation]:
    """Let one operation begin later or end earlier, so that real time forbids more."""
    slot = rng.randrange(len(operations))
    operation = operations[slot]
    length = operation.ret - operation.inv
    if operation.ret == NEVER:
        moved = replace(operation, inv=operation.inv + rng.randint(0, 12))
    elif rng.random() < 0.5:
        # A whole later interval: a stale observation or a late effect.
        by = rng.randint(1, 12)
        moved = replace(operation, inv=operation.inv + by, ret=operation.ret + by)
    elif length > 1:
        moved = replace(operation, ret=operation.inv + rng.randint(1, length))
    else:
        by = rng.randint(1, max(1, operation.inv))
        moved = replace(operation, inv=operation.inv - by, ret=operation.ret - by)
    operations[slot] = moved
    return spread(operations)


def spread(operations: list[Operation]) -> list[Operation]:
    """Number all times afresh so that no two are equal; of equal ones invocations come first."""
    moments: list[tuple[int, int, int]] = []
    for slot, operation in enumerate(operations):
        moments.append((operation.inv, 0, slot))
        if operation.ret != NEVER:
            moments.append((operation.ret, 1, slot))
    moments.sort()
    invs: dict[int, int] = {}
    rets: dict[int, int] = {}
    for number, (_, is_ret, slot) in enumerate(moments):
        (rets if is_ret else invs)[slot] = number
    return [
        replace(operation, inv=invs[slot], ret=rets.get(slot, NEVER))
        for slot, operation in enumerate(operations)
    ]


def generate_large(rng: random.Random, *, operations: int, clients: int) -> Generated:
    """A true history of many operations, cheaply: each client does one thing after another."""
    records: list[SeenRecord] = []
    out: list[Operation] = []
    pending: list[int] = [0] * clients
    now = 0
    for number in range(operations):
        client = rng.randrange(clients)
        inv, now = max(pending[client] + 1, now - 40), now + 2
        ret = pending[client] = now + rng.randrange(1, 60, 2)
        inv = min(inv, now)
        tail = len(records)
        kind = rng.random()
        if kind < 0.5:
            count = rng.choice((1, 1, 2, 4))
            bodies = tuple(f"{number}.{place}" for place in range(count))
            records.extend(
                SeenRecord(tail + place, number, body) for place, body in enumerate(bodies)
            )
            if rng.random() < 0.04:
                out.append(Append(client, inv, NEVER, bodies, Outcome.UNKNOWN))
            else:
                out.append(
                    Append(client, inv, ret, bodies, Outcome.OK, start=tail, end=tail + count)
                )
        elif kind < 0.75:
            out.append(CheckTail(client, inv, ret, tail))
        else:
            start = max(0, tail - rng.randrange(0, 8))
            out.append(Read(client, inv, ret, start, tuple(records[start:tail]), tail=tail))
    return Generated(out, records)
