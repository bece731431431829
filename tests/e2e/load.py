"""Writers and watchers that know exactly what the log must hold, whatever was killed meanwhile.

A writer is the only one on its stream and appends under `match_seq_num`, so it can find out what
became of an append whose answer it never saw: a retry that fails with the expected tail has
happened, one that succeeds had not.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch

CLOCK = SystemClock()
SETTLE_S = 30.0
APPEND_S = 8.0
PAUSE_S = 0.02


@dataclass(slots=True)
class Outcome:
    """A finished append: when it was begun and when it was known to have happened."""

    begun: float
    known: float
    ambiguous: bool


@dataclass(slots=True)
class StreamWriter:
    """Appends batches of unique records to one stream and keeps what was acknowledged."""

    url: str
    basin: str
    stream: str
    seed: int = 0
    batch: int = 5
    log: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    ambiguous: int = 0
    violations: list[str] = field(default_factory=list)
    number: int = 0
    doubtful: bool = False  # an attempt at the pending batch may have happened
    stopping: bool = False
    bytes_acknowledged: int = 0
    """Of the bodies that were acknowledged."""
    sizes: Sequence[int] = (0, 10, 300, 3000)
    """Bytes of a body behind its name: one of these."""

    pause_s: float = 0.0
    """Between an answer and the next append."""

    async def run(self) -> None:
        """Append until `stopping` is set. An append that is not known to have happened then stays
        in `pending`."""
        rng = random.Random(f"{self.seed}/{self.stream}")
        api = ApiClient(self.url)
        try:
            while not self.stopping:
                if not self.pending:
                    self.pending = [self._body(rng) for _ in range(rng.randint(1, self.batch))]
                await self._settle(api)
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
        finally:
            api.close()

    def _body(self, rng: random.Random) -> bytes:
        self.number += 1
        return b"%s/%d/%d/" % (self.stream.encode(), self.seed, self.number) + rng.randbytes(
            rng.choice(self.sizes)
        )

    async def _settle(self, api: ApiClient) -> None:
        """Append the pending batch, again and again until it is known to have happened once."""
        records = [AppendRecord(body) for body in self.pending]
        expected = len(self.log)
        while not self.stopping:
            begun = time.monotonic()
            try:
                answer = await api.append(
                    self.basin, self.stream, records, match_seq_num=expected, timeout_s=APPEND_S
                )
            except ConnectionLostError as error:
                self.errors["lost" if error.sent else "not connected"] += 1
                if error.sent:
                    self._doubt()
                await asyncio.sleep(PAUSE_S)
                continue
            if answer.status == 200:
                self._check_ack(answer.json(), expected)
                self._done(Outcome(begun, time.monotonic(), self.doubtful))
                return
            if answer.status == 412:
                actual = answer.json().get("seq_num_mismatch")
                if self.doubtful and actual == expected + len(records):
                    self._done(Outcome(begun, time.monotonic(), ambiguous=True))
                    return
                self.violations.append(
                    f"{self.stream}: tail {actual}, expected {expected} + {len(records)}"
                    f"{' or not' if self.doubtful else ''}"
                )
                self.stopping = True
                return
            effects = answer.headers.get("svc-side-effects", "not said")
            self.errors[f"{answer.status} {effects}"] += 1
            if effects != "none":
                self._doubt()
            await asyncio.sleep(PAUSE_S)

    def _doubt(self) -> None:
        self.ambiguous += 1
        self.doubtful = True

    def _check_ack(self, ack: dict[str, dict[str, int]], expected: int) -> None:
        got = (ack["start"]["seq_num"], ack["end"]["seq_num"])
        if got != (expected, expected + len(self.pending)):
            self.violations.append(f"{self.stream}: acknowledged at {got}, expected {expected}")

    def _done(self, outcome: Outcome) -> None:
        self.log += self.pending
        self.bytes_acknowledged += sum(len(body) for body in self.pending)
        self.pending = []
        self.doubtful = False
        self.outcomes.append(outcome)

    async def verify(self) -> Verdict:
        """Read the whole stream and compare it with what was acknowledged. The pending batch may
        be there, whole and at the end; what is found of it is taken over."""
        found = await read_all(self.url, self.basin, self.stream)
        verdict = Verdict(acknowledged=len(self.log), found=len(found))
        tail = found[len(self.log) :]
        verdict.missing = sum(
            1 for at, body in enumerate(self.log) if at >= len(found) or found[at] != body
        )
        verdict.duplicates = len(found) - len(set(found))
        if tail and tail != self.pending:
            verdict.foreign = len(tail)
        elif tail:
            self.log += tail
            self.pending = []
            self.doubtful = False
        return verdict


@dataclass(slots=True)
class Verdict:
    """Acknowledged records against found ones; all but the first two must be 0."""

    acknowledged: int = 0
    found: int = 0
    missing: int = 0
    duplicates: int = 0
    foreign: int = 0

    @property
    def clean(self) -> bool:
        return self.missing == self.duplicates == self.foreign == 0

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.acknowledged + other.acknowledged,
            self.found + other.found,
            self.missing + other.missing,
            self.duplicates + other.duplicates,
            self.foreign + other.foreign,
        )


@dataclass(slots=True)
class TailWatcher:
    """Asks for a stream's tail all the time: it may never go back, nor lie below what had been
    acknowledged when the question was asked."""

    writer: StreamWriter
    stopping: bool = False
    answers: int = 0
    refusals: int = 0
    violations: list[str] = field(default_factory=list)

    async def run(self) -> None:
        api = ApiClient(self.writer.url)
        last = 0
        while not self.stopping:
            at_least = max(last, len(self.writer.log))
            try:
                answer = await api.check_tail(self.writer.basin, self.writer.stream)
            except ConnectionLostError:
                self.refusals += 1
                await asyncio.sleep(PAUSE_S)
                continue
            if answer.status != 200:
                self.refusals += 1
                await asyncio.sleep(PAUSE_S)
                continue
            tail = int(answer.json()["tail"]["seq_num"])
            self.answers += 1
            if tail < at_least:
                self.violations.append(f"{self.writer.stream}: tail {tail} after {at_least}")
            last = max(last, tail)
            await asyncio.sleep(0.005)
        api.close()


async def read_all(url: str, basin: str, stream: str) -> list[bytes]:
    """The bodies of a whole stream, in order and without a gap. Asks again while refused."""
    api = ApiClient(url)
    found: list[bytes] = []
    try:
        while True:
            query = f"seq_num={len(found)}&count=1000"
            answer = await api.insist(
                CLOCK,
                lambda query=query: api.read(basin, stream, query),
                accept=frozenset({200, 416}),
                deadline_s=SETTLE_S,
            )
            records = decode_batch(answer.body) if answer.status == 200 else []
            if not records:
                return found
            for record in records:
                assert record.seq_num == len(found), f"{stream}: a gap at {len(found)}"
                found.append(record.body)
    finally:
        api.close()


async def set_up(url: str, basin: str, streams: list[str]) -> None:
    """Create a basin and its streams."""
    api = ApiClient(url)
    await api.make(CLOCK, basin, None, SETTLE_S)
    for stream in streams:
        await api.make(CLOCK, basin, stream, SETTLE_S)
    api.close()


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
