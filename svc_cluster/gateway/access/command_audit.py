"""Trims and fences in the audit log: a line for each batch that has some, or for many of them.

A batch may have a thousand and a session many batches, so lines that say the same are brought
together: of one token, stream, kind and result there is one line at once, and then one for each
further MERGE_SECONDS, with the number of command records. The issue of read tickets, of which one
who may do nothing but read may ask for any number, is told in the same way. Pure but for
the timer it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import ServiceError
from svc_cluster.model.record import CommandKind, StoredBatch

MERGE_SECONDS: Final = 1.0
"""So often a line of one kind is written, at most."""
MERGES_MAX: Final = 1_000
"""Kinds of lines that are waited for at one time; beyond it the one begun first is written."""

_NAMES: Final = {CommandKind.FENCE: "fence", CommandKind.TRIM: "trim"}
assert _NAMES.keys() == set(CommandKind), "every command record is told"


@dataclass(frozen=True, slots=True)
class CommandKey:
    """What lines have to share to be one."""

    operation: str
    token: str
    address: str | None
    basin: str | None
    stream: str | None
    effect: str
    code: str | None
    status: int | None = None
    certificate: str | None = None
    """The fingerprint of the certificate that the client has shown."""
    is_rationed: bool = False
    """Told as far as the allowance of the token lasts, as refusals are, whatever the effect."""


@dataclass(slots=True)
class _Merged:
    """Command records since the last line of their kind."""

    written_at: float
    count: int = 0
    trim_point: int | None = None


Write = Callable[[CommandKey, int, int | None, str | None], None]
"""Gets the number of command records, of trims the highest trim point, and the id of the request
where the line is of one alone."""


class CommandMerger:
    """Lines of one gateway."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._merged: dict[CommandKey, _Merged] = {}
        """The commands of which a line was written less than MERGE_SECONDS ago, the first in
        front."""

    def add(
        self,
        key: CommandKey,
        count: int,
        trim_point: int | None,
        request_id: str | None,
        now: float,
    ) -> None:
        """Write a line now, or count it in with the next one. `now`: monotonic seconds."""
        self.flush(now)
        known = self._merged.get(key)
        if known is not None:
            known.count += count
            known.trim_point = _later(known.trim_point, trim_point)
            return
        if len(self._merged) >= MERGES_MAX:
            self._end(next(iter(self._merged)))
        self._merged[key] = _Merged(now)
        self._write(key, count, trim_point, request_id)

    def flush(self, now: float) -> float | None:
        """Write what is due. How long until there is more, in seconds; None: nothing waits."""
        while self._merged:
            key, first = next(iter(self._merged.items()))
            left = first.written_at + MERGE_SECONDS - now
            if left > 0:
                return left
            self._end(key)
            if first.count:
                self._merged[key] = _Merged(now)
        return None

    def close(self) -> None:
        """Write all that waits."""
        while self._merged:
            self._end(next(iter(self._merged)))

    def __len__(self) -> int:
        return len(self._merged)

    def _end(self, key: CommandKey) -> None:
        merged = self._merged.pop(key)
        if merged.count:
            self._write(key, merged.count, merged.trim_point, None)


def _later(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def commands_of(batch: StoredBatch) -> list[tuple[str, int, int | None]]:
    """Return for each kind in a batch its operation, how many, and the highest trim point."""
    out = []
    for kind, name in _NAMES.items():
        found = [command for command in batch.commands if command.kind is kind]
        if found:
            points = [command.trim_point for command in found if kind is CommandKind.TRIM]
            out.append((name, len(found), max(points, default=None)))
    return out


def effect_of(refusal: BaseException | None) -> str:
    """`done`, `none` or `possible`; of a request that was given up, it is not known."""
    if refusal is None:
        return "done"
    if isinstance(refusal, ServiceError) and not refusal.may_have_taken_effect:
        return "none"
    return "possible"
