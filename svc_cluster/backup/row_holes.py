"""Reading a replica around what is damaged in it: the rows that can be read, and the holes.

The store refuses a whole block of rows where one bit of it is wrong, and does not say where the
block ends. So the next place that can be read is searched for, by keys taken as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.row_frames import Row
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.storage.harm import DamagedBytesError

KEY_BYTES: Final = 520
"""No key of a basin is longer: a kind and the name of a stream."""
SAMPLES: Final = 4096
"""So many places within a hole are tried, evenly spread: it may be two with a few rows between."""


class UnreadableStateError(BackupError):
    """The state store of a survivor failed while it was read or written."""


class Hole(NamedTuple):
    """Keys from `start` to before `end` cannot be read, what stands there is not known."""

    start: bytes
    end: bytes


def readable(reader: KeyReader, start: bytes, end: bytes, holes: list[Hole]) -> Iterator[Row]:
    """The rows from `start` to before `end` that can be read; what cannot is added to `holes`."""
    at = start
    while at < end:
        try:
            for key, value in reader.scan(at, end):
                yield key, value
                at = key + b"\x00"
            at = end
        except UnreadableStateError as failure:
            row = _row_of(failure)
            if row is None:
                holes.append(Hole(at, _next_good(reader, at, end)))
            else:
                holes.append(Hole(row, row + b"\x00"))
            at = holes[-1].end


def _row_of(failure: UnreadableStateError) -> bytes | None:
    """The relative key of the one row that is damaged; None: the store does not get so far."""
    cause = failure.__cause__
    return cause.relative_key if isinstance(cause, DamagedBytesError) else None


def _next_good(reader: KeyReader, at: bytes, end: bytes) -> bytes:
    """The first key behind `at`, which cannot be read, from which it can; `end`: there is none."""
    first, last = _number(at), _number(end)
    bad, good, step = first, last, 1
    while first + step < last:
        if _is_good(reader, first + step, end):
            good = first + step
            break
        bad, step = first + step, 2 * step
    apart = max((good - first) // SAMPLES, 1)
    for place in range(first + apart, good, apart):
        if _is_good(reader, place, end):
            bad, good = place - apart, place
            break
    while good - bad > 1:
        middle = (bad + good) // 2
        if _is_good(reader, middle, end):
            good = middle
        else:
            bad = middle
    return end if good == last else _key(good)


def _is_good(reader: KeyReader, place: int, end: bytes) -> bool:
    try:
        next(iter(reader.scan(_key(place), end)), None)
    except UnreadableStateError as failure:
        return _row_of(failure) is not None
    return True


def _number(key: bytes) -> int:
    return int.from_bytes(key.ljust(KEY_BYTES, b"\x00"), "big")


def _key(number: int) -> bytes:
    """Without the zeroes at its end: no key of a basin that is longer stands between the two."""
    return number.to_bytes(KEY_BYTES, "big").rstrip(b"\x00")
