"""What clients asked for and were told, on one stream, and its form on disk (JSON lines).

Times are places in one log of events: every invocation and every return has its own number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import IO, Final, NamedTuple

NEVER: Final = 1 << 62
"""The return of an operation whose outcome never became known."""


class Outcome(Enum):
    OK = "ok"
    UNKNOWN = "unknown"
    FAILED = "failed"
    """Definitely without effect."""


@dataclass(frozen=True, slots=True)
class Append:
    """One batch. Retries under one request token are one operation."""

    client: int
    inv: int
    ret: int
    bodies: tuple[str, ...]
    outcome: Outcome
    match_seq_num: int | None = None
    fencing_token: str | None = None
    fences: tuple[tuple[int, str], ...] = ()
    """(place in the batch, new token) of the records that set a token."""
    trims: tuple[tuple[int, int], ...] = ()
    """(place in the batch, wanted trim point) of the records that trim."""
    start: int | None = None
    end: int | None = None
    """As acknowledged; `end` is exclusive."""
    tail: int | None = None
    """As acknowledged."""
    actual_tail: int | None = None
    """As reported by a refusal of `match_seq_num`."""
    actual_token: str | None = None
    """As reported by a refusal of `fencing_token`."""
    session: int | None = None
    ordinal: int | None = None
    """Which batch of which append session, from 0: none takes effect without all before it."""

    def __post_init__(self) -> None:
        assert self.bodies, "an empty batch is never sent"
        assert self.inv < self.ret
        if self.outcome is Outcome.UNKNOWN:
            assert self.ret == NEVER, "an unknown outcome has no return"

    @property
    def new_token(self) -> str | None:
        return self.fences[-1][1] if self.fences else None

    def trim_point(self, start: int, before: int) -> int:
        """The stream's trim point behind this append, which took effect at `start`: never lower
        than `before`, and a trim keeps at most what comes behind its own record."""
        return max((before, *(min(wanted, start + place + 1) for place, wanted in self.trims)))


@dataclass(frozen=True, slots=True)
class CheckTail:
    client: int
    inv: int
    ret: int
    tail: int


class SeenRecord(NamedTuple):
    """A tuple, because checks compare them by the million."""

    seq_num: int
    timestamp_ms: int
    body: str


@dataclass(frozen=True, slots=True)
class Read:
    """One answer to a read, or one batch of a follow session (`session` set; `ret` is its
    delivery)."""

    client: int
    inv: int
    ret: int
    start: int
    records: tuple[SeenRecord, ...]
    tail: int | None = None
    """As reported in the answer; None where it was not."""
    limited: bool = False
    """The answer may end before the tail."""
    session: int | None = None
    past_tail: bool = False
    """Refused because `start` lies behind `tail`."""

    @property
    def first(self) -> int:
        """Where the records begin: behind `start` when the stream is trimmed there."""
        return self.records[0].seq_num if self.records else self.start

    @property
    def end(self) -> int:
        return self.first + len(self.records)


Operation = Append | CheckTail | Read

_KINDS: Final[dict[str, type[Operation]]] = {
    "append": Append,
    "check_tail": CheckTail,
    "read": Read,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def to_line(operation: Operation) -> str:
    fields = asdict(operation)
    if isinstance(operation, Append):
        fields["outcome"] = operation.outcome.value
    return json.dumps({"kind": _NAMES[type(operation)], **fields}, separators=(",", ":"))


def from_line(line: str) -> Operation:
    fields = json.loads(line)
    kind = _KINDS[fields.pop("kind")]
    if kind is Append:
        fields["outcome"] = Outcome(fields["outcome"])
        fields["bodies"] = tuple(fields["bodies"])
        fields["fences"] = tuple((place, token) for place, token in fields["fences"])
        fields["trims"] = tuple((place, point) for place, point in fields.get("trims", ()))
    elif kind is Read:
        fields["records"] = tuple(SeenRecord(*record) for record in fields["records"])
    return kind(**fields)


def write_history(operations: Iterable[Operation], out: IO[str]) -> None:
    for operation in operations:
        out.write(to_line(operation) + "\n")


def read_history(lines: Iterable[str]) -> Iterator[Operation]:
    return (from_line(line) for line in lines if line.strip())
