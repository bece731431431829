"""Histories of a stream that does what it must, behind several gateways that lose answers.

Attempts reach the stream at some moment behind their beginning: late ones when nobody waits for
them any more. What is asked under a request's name is done once, whichever attempt comes first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.verdicts.event import Event, History, Record


@dataclass(slots=True)
class _Stream:
    records: list[Record] = field(default_factory=list)
    token: str = ""
    trim_point: int = 0


@dataclass(slots=True)
class _Attempt:
    event: Event
    lost: bool
    reached: bool = False
    answer: Event | None = None


class World:
    """`operations` is how many are begun."""

    def __init__(self, seed: int, *, operations: int = 120, clients: int = 6, gateways: int = 3):
        self._rng = random.Random(f"verdicts/{seed}")
        self._operations, self._clients, self._gateways = operations, clients, gateways
        self._lives: list[_Stream] = [_Stream()]
        self._exists = True
        self._done: dict[str, Event] = {}
        self._issued = self._now = 0
        self.events: list[Event] = []

    def history(self) -> History:
        rng = self._rng
        waiting: dict[int, _Attempt] = {}
        late: list[_Attempt] = []
        again: list[Event] = []
        begun = 0
        while begun < self._operations or waiting or again:
            self._now += 1
            if late and rng.random() < 0.15:
                self._reach(late.pop(rng.randrange(len(late))))
            free = [client for client in range(self._clients) if client not in waiting]
            if again and free and rng.random() < 0.5:
                event = replace(again.pop(0), client=free[0], inv=self._now)
                event = replace(event, gateway=rng.randrange(self._gateways))
                waiting[free[0]] = _Attempt(event, rng.random() < 0.2)
                continue
            if free and begun < self._operations and (not waiting or rng.random() < 0.45):
                client = rng.choice(free)
                begun += 1
                waiting[client] = _Attempt(self._draw(client), rng.random() < 0.12)
                continue
            if not waiting:
                continue
            client = rng.choice(sorted(waiting))
            attempt = waiting[client]
            if not attempt.reached and not (attempt.lost and rng.random() < 0.6):
                self._reach(attempt)
                continue
            del waiting[client]
            if not attempt.lost:
                assert attempt.answer is not None
                self.events.append(replace(attempt.answer, ret=self._now))
                continue
            if attempt.event.did in ("read", "tail"):
                continue  # an observation that nobody had says nothing
            self.events.append(replace(attempt.event, outcome="unknown", ret=None))
            if not attempt.reached:
                late.append(attempt)
            if attempt.event.request:
                again.append(attempt.event)
        for attempt in late:
            if rng.random() < 0.5:
                self._reach(attempt)
        ends = tuple(tuple(stream.records) for stream in self._lives)
        return History(tuple(sorted(self.events, key=lambda event: event.inv)), ends)

    def _draw(self, client: int) -> Event:
        rng = self._rng
        gateway = rng.randrange(self._gateways)
        kind = rng.random()
        stream = self._lives[-1]
        tail = len(stream.records)
        if kind < 0.03:
            did = "delete" if self._exists else "create"
            return Event(did, client, gateway, self._now)
        if kind < 0.12 and not self._exists:
            return Event("create", client, gateway, self._now)
        if kind < 0.25:
            return Event("tail", client, gateway, self._now)
        if kind < 0.5:
            start = rng.randint(0, tail + 1)
            return Event(
                "read", client, gateway, self._now, start=start, limited=rng.random() < 0.4
            )
        count = rng.choice((1, 1, 2, 3))
        bodies = tuple(f"b{self._issued + place}" for place in range(count))
        self._issued += count
        return Event(
            "append",
            client,
            gateway,
            self._now,
            request=f"q{self._issued}" if rng.random() < 0.6 else "",
            bodies=bodies,
            wanted_tail=rng.choice((None, None, tail, rng.randint(0, tail + 1))),
            wanted_token=rng.choice((None, None, None, stream.token, "never")),
            sets_token=f"t{self._now}" if rng.random() < 0.1 else None,
            trims_to=rng.randint(0, tail + 3) if rng.random() < 0.12 else None,
        )

    def _reach(self, attempt: _Attempt) -> None:
        """It takes its effect, or is refused, now."""
        event = attempt.event
        before = self._done.get(event.request) if event.request else None
        if before is None:
            before = self._effect(event)
            if event.request and before.outcome != "gone":
                self._done[event.request] = before
        attempt.reached = True
        attempt.answer = replace(before, client=event.client, gateway=event.gateway, inv=event.inv)

    def _effect(self, event: Event) -> Event:
        life, stream = len(self._lives) - 1, self._lives[-1]
        if event.did == "create":
            if self._exists:
                return replace(event, outcome="ok", life=life)
            self._lives.append(_Stream())
            self._exists = True
            return replace(event, outcome="ok", life=life + 1)
        if not self._exists:
            return replace(event, outcome="gone")
        if event.did == "delete":
            self._exists = False
            return replace(event, outcome="ok", life=life)
        tail = len(stream.records)
        if event.did == "tail":
            return replace(event, outcome="ok", actual=tail, life=life)
        if event.did == "read":
            return self._read(event, stream, life)
        if event.wanted_token is not None and event.wanted_token != stream.token:
            return replace(event, outcome="token", actual_token=stream.token, life=life)
        if event.wanted_tail is not None and event.wanted_tail != tail:
            return replace(event, outcome="place", actual=tail, life=life)
        for place, body in enumerate(event.bodies):
            stream.records.append((tail + place, (tail + place) // 2, body))
        if event.sets_token is not None:
            stream.token = event.sets_token
        if event.trims_to is not None:
            bound = tail + len(event.bodies)
            stream.trim_point = max(stream.trim_point, min(event.trims_to, bound))
        return replace(event, outcome="ok", start=tail, actual=len(stream.records), life=life)

    def _read(self, event: Event, stream: _Stream, life: int) -> Event:
        tail = len(stream.records)
        if event.start > tail:
            return replace(event, outcome="behind", actual=tail, life=life)
        first = max(event.start, stream.trim_point)
        end = self._rng.randint(first, tail) if event.limited else tail
        return replace(
            event, outcome="ok", actual=tail, records=tuple(stream.records[first:end]), life=life
        )
