"""Exact, near-linear check of one stream's history against a complete final read.

Bodies are unique, so the final read says which appends took effect, and in which order. What is
left is to find a moment for each of them between its invocation and its return such that every
observation fits. All constraints are lower bounds that are pushed forward and deadlines, so the
earliest schedule exists if and only if any does.

Trims are a second counter that only grows: what each append leaves of the stream follows from the
order, and every read says something of the trim point at its moment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.linearizability.history import (
    Append,
    CheckTail,
    Operation,
    Outcome,
    Read,
    SeenRecord,
)

_REPORTED_MAX = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is R1..R9 or `time`; `operations` are those on the violated edge."""

    rule: str
    what: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.what}"]
        lines += [f"    {str(operation)[:400]}" for operation in self.operations]
        return "\n".join(lines)


@dataclass(slots=True)
class Verdict:
    violations: list[Violation] = field(default_factory=list)
    effective: int = 0
    """How many appends took effect."""

    @property
    def ok(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        if self.ok:
            return f"ok ({self.effective} appends took effect)"
        return "\n".join(str(violation) for violation in self.violations)


Observation = tuple[int, int, int, Operation]
"""(inv, ret, hi, operation): some moment in [inv, ret] lies at or behind the bucket's append and
before append number `hi`."""


class _Check:
    def __init__(self, operations: Sequence[Operation], final: Sequence[SeenRecord]) -> None:
        self.final = final
        self.bodies = [record.body for record in final]
        self.verdict = Verdict()
        self.appends: list[Append] = []
        self.others: list[CheckTail | Read] = []
        for operation in operations:
            if isinstance(operation, Append):
                self.appends.append(operation)
            else:
                self.others.append(operation)
        self.owner: dict[str, tuple[int, int]] = {}
        for number, append in enumerate(self.appends):
            commands = {place for place, _ in append.trims}
            for place, body in enumerate(append.bodies):
                if place > 0 and place in commands:
                    continue  # found by the record before it; what it says need not be unique
                assert body not in self.owner, f"the workload issued {body!r} twice"
                self.owner[body] = (number, place)
        self.effective: list[Append] = []
        self.boundaries = [0]
        self.tokens = [""]
        self.trims = [0]
        self.token_spans: dict[str, tuple[int, int]] = {}
        self.observations: dict[int, list[Observation]] = {}

    def run(self) -> Verdict:
        if self._final_is_whole_batches():
            self._appends_are_where_acknowledged()
            self._conditions_held()
            self._sessions_have_no_holes()
            self._reads_are_slices()
            if self.verdict.ok:
                self._a_schedule_exists()
        self.verdict.effective = len(self.effective)
        return self.verdict

    def fail(self, rule: str, what: str, *operations: Operation) -> None:
        if len(self.verdict.violations) < _REPORTED_MAX:
            self.verdict.violations.append(Violation(rule, what, operations))

    # R1 to R4

    def _final_is_whole_batches(self) -> bool:
        taken: set[int] = set()
        bodies, owner = self.bodies, self.owner
        at = 0
        while at < len(bodies):
            where = owner.get(bodies[at])
            if where is None:
                self.fail("R1", f"record {at} was never appended: {bodies[at]!r}")
                return False
            number, place = where
            append = self.appends[number]
            if number in taken:
                self.fail("R1", f"record {at} is there twice", append)
                return False
            size = len(append.bodies)
            if place != 0 or tuple(bodies[at : at + size]) != append.bodies:
                self.fail("R3", f"a torn batch at {at}", append)
                return False
            taken.add(number)
            self.effective.append(append)
            at += size
            self.boundaries.append(at)
            self.trims.append(append.trim_point(at - size, self.trims[-1]))
            token = append.new_token
            self.tokens.append(self.tokens[-1] if token is None else token)
        return self._final_is_numbered() and self._outcomes_are_true(taken)

    def _final_is_numbered(self) -> bool:
        timestamp = 0
        for at, record in enumerate(self.final):
            if record.seq_num != at:
                self.fail("R6", f"the final read has {record.seq_num} at place {at}")
                return False
            if record.timestamp_ms < timestamp:
                self.fail("R6", f"the timestamp goes back at {at}")
                return False
            timestamp = record.timestamp_ms
        return True

    def _outcomes_are_true(self, taken: set[int]) -> bool:
        for number, append in enumerate(self.appends):
            if append.outcome is Outcome.OK and number not in taken:
                self.fail("R2", "an acknowledged append is lost", append)
            elif append.outcome is Outcome.FAILED and number in taken:
                self.fail("R3", "an append that definitely failed took effect", append)
        return self.verdict.ok

    # R2, R5

    def _appends_are_where_acknowledged(self) -> None:
        for number, append in enumerate(self.effective):
            if append.outcome is not Outcome.OK:
                continue
            start, end = self.boundaries[number], self.boundaries[number + 1]
            if append.start != start or append.end != end:
                self.fail("R2", f"acknowledged elsewhere than at [{start}, {end})", append)
            if append.tail is not None:
                if append.tail < end:
                    self.fail("R7", "the acknowledged tail is before the append", append)
                else:
                    self._tail_seen(append.tail, append)

    def _conditions_held(self) -> None:
        for number, append in enumerate(self.effective):
            match, token = append.match_seq_num, append.fencing_token
            if match is not None and match != self.boundaries[number]:
                self.fail("R5", f"took effect at {self.boundaries[number]}, not at match", append)
            if token is not None and token != self.tokens[number]:
                self.fail("R5", f"took effect under the token {self.tokens[number]!r}", append)
        for number, current in enumerate(self.tokens):
            first, _ = self.token_spans.get(current, (number, number))
            self.token_spans[current] = (first, number)
        for append in self.appends:
            if append.outcome is Outcome.FAILED:
                self._refusal_is_true(append)

    def _refusal_is_true(self, append: Append) -> None:
        tail, token = append.actual_tail, append.actual_token
        if tail is not None:
            if append.match_seq_num is None or tail == append.match_seq_num:
                self.fail("R5", "refused although match_seq_num held", append)
            slot = self._tail_seen(tail, append)
            wanted = append.fencing_token
            if slot is not None and wanted is not None and self.tokens[slot] != wanted:
                self.fail("R5", "refused for its place where its token was wrong", append)
        if token is not None:
            if append.fencing_token is None or token == append.fencing_token:
                self.fail("R5", "refused although the fencing token held", append)
            self._token_seen(token, append)

    def _token_seen(self, token: str, append: Append) -> None:
        """Tokens are set once each, so the places where one is current are a range. Where they are
        not, the range from the first to the last is taken: never a false alarm."""
        span = self.token_spans.get(token)
        if span is None:
            self.fail("R5", f"refused for the token {token!r}, which was never current", append)
            return
        self._observe(span[0], span[1] + 1, append)

    # R9

    def _sessions_have_no_holes(self) -> None:
        """Of each append session those batches took effect that come first, in their order."""
        sessions: dict[int, list[tuple[int, Append]]] = {}
        for append in self.appends:
            if append.session is not None and append.ordinal is not None:
                sessions.setdefault(append.session, []).append((append.ordinal, append))
        place = {append.bodies: number for number, append in enumerate(self.effective)}
        for batches in sessions.values():
            before = -1
            lacking: Append | None = None
            for _, append in sorted(batches, key=lambda batch: batch[0]):
                number = place.get(append.bodies)
                if number is None:
                    lacking = lacking or append
                elif lacking is not None:
                    self.fail("R9", "took effect without a batch before it", append, lacking)
                elif number < before:
                    self.fail("R9", "took effect before a batch before it", append)
                else:
                    before = number

    # R6, R7

    def _reads_are_slices(self) -> None:
        sessions: dict[tuple[int, int], int] = {}
        for operation in self.others:
            if isinstance(operation, CheckTail):
                self._tail_seen(operation.tail, operation)
                continue
            self._read_is_slice(operation)
            if operation.session is not None:
                key = (operation.client, operation.session)
                expected = sessions.get(key, operation.start)
                if operation.start != expected:
                    self.fail(
                        "R6", f"a session went on at another place than {expected}", operation
                    )
                sessions[key] = operation.end

    def _read_is_slice(self, read: Read) -> None:
        start, end = read.start, read.end
        if read.records and (
            read.first < start or read.records != tuple(self.final[read.first : end])
        ):
            self.fail("R6", self._difference(read), read)
            return
        if read.tail is not None:
            if read.past_tail and start <= read.tail:
                self.fail("R7", "refused although the start is not behind the tail", read)
            if read.records and end > read.tail:
                self.fail("R7", "records from behind the tail", read)
            slot = self._tail_seen(read.tail, read)
            if slot is not None and not read.past_tail:
                self._begins_at_trim_point(read, read.tail, self.trims[slot])
        elif read.records:
            self._some_moment_fits(read)

    def _begins_at_trim_point(self, read: Read, tail: int, trim_point: int) -> None:
        """The reported tail says after which append the read took place."""
        begin = max(read.start, trim_point)
        if read.records and read.first != begin:
            what = "records below the trim point" if read.first < begin else "left records out"
            self.fail("R8", f"{what}: it was {trim_point}", read)
        end = read.end if read.records else begin
        if read.start < tail and end < tail and not read.limited:
            self.fail("R7", "ends elsewhere than at the tail that it reports", read)

    def _some_moment_fits(self, read: Read) -> None:
        """Between the append that made the last record and the next trim beyond the first."""
        low = bisect_left(self.boundaries, read.end)
        if read.first > read.start:
            low = max(low, bisect_left(self.trims, read.first))
        high = bisect_right(self.trims, read.first)
        if low >= high or (read.first > read.start and self.trims[low] != read.first):
            self.fail("R8", "the trim point was never where the read begins", read)
            return
        self._observe(low, high, read)

    def _difference(self, read: Read) -> str:
        for place, record in enumerate(read.records):
            at = read.first + place
            if at >= len(self.final):
                owner = self.owner.get(record.body)
                state = "never appended" if owner is None else self.appends[owner[0]].outcome.value
                return f"read a record at {at} that the final read has not ({state})"
            if record != self.final[at]:
                return f"read {record} where the final read has {self.final[at]}"
        return "differs from the final read"

    # Time

    def _tail_seen(self, tail: int, operation: Operation) -> int | None:
        slot = bisect_left(self.boundaries, tail)
        if slot == len(self.boundaries) or self.boundaries[slot] != tail:
            self.fail("R7", f"{tail} is inside a batch or behind the end", operation)
            return None
        self._observe(slot, slot + 1, operation)
        return slot

    def _observe(self, low: int, high: int, operation: Operation) -> None:
        self.observations.setdefault(low, []).append(
            (operation.inv, operation.ret, high, operation)
        )

    def _a_schedule_exists(self) -> None:
        """tau(1) <= tau(2) <= ...: each as early as what was seen so far allows."""
        time = -1
        because: Operation | None = None
        size = len(self.effective)
        floor: list[int] = [-1] * (size + 2)
        floor_because: list[Operation | None] = [None] * (size + 2)
        for slot in range(size + 1):
            if slot > 0:
                append = self.effective[slot - 1]
                if floor[slot] > time:
                    time, because = floor[slot], floor_because[slot]
                if append.inv > time:
                    time, because = append.inv, append
                if time > append.ret:
                    self._too_late(append, because)
                    return
            for inv, ret, high, operation in self.observations.get(slot, ()):
                moment = max(time, inv)
                if moment > ret:
                    self._too_late(operation, because)
                    return
                if moment > floor[high]:
                    floor[high] = moment
                    floor_because[high] = operation

    def _too_late(self, operation: Operation, because: Operation | None) -> None:
        others = () if because is None or because is operation else (because,)
        self.fail("time", "no order of effects explains these", operation, *others)


def check(operations: Sequence[Operation], final: Sequence[SeenRecord]) -> Verdict:
    """Is the history linearizable, given that `final` was read after every effect?

    `final` must have been invoked after every finite return, when no append of unknown outcome
    could take effect any more.
    """
    return _Check(operations, final).run()
