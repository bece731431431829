"""The idempotency table: what became of the requests that a client may repeat, and how many.

Pure: it reads the store where it is asked to and hands every change out as a write set. Rows are
found by the idempotency key (codec/request_key.py); a second row for each, ordered by time, says
which of them are over. Decided in docs/adr/0013.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from svc_cluster.base.errors import ErrorCode, RateLimitedError, ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet

REQUEST_KEY_BYTES: Final = 32

IDEMPOTENCY_KEYS_KEPT_MS: Final = 24 * 60 * 60 * 1000
"""How long an idempotency key is kept at the least, by the readings of the leaders' clocks."""

IDEMPOTENCY_KEYS_MAX: Final = 1_000_000
"""Kept for one basin, or by the catalog, at one time, where nothing else is configured."""

EXPIRED_AT_ONCE_MAX: Final = 2048
"""Keys that one log entry removes."""

_TIME: Final = struct.Struct(">Q")
_COUNT: Final = struct.Struct(">Q")

_FINAL_REFUSALS: Final = frozenset(
    {
        ErrorCode.RESOURCE_ALREADY_EXISTS,
        ErrorCode.BASIN_DELETION_PENDING,
        ErrorCode.STREAM_DELETION_PENDING,
        ErrorCode.APPEND_CONDITION_FAILED,
    }
)


class IdempotencyRow(msgspec.Struct, frozen=True, array_like=True):
    """`answer` is what the leader told its caller, in a form that is opaque here."""

    decided_at_ms: int
    answer: bytes


Expired = tuple[int, bytes]
"""When it was decided, and its key."""


class Mark(msgspec.Struct, frozen=True):
    """How many keys there are, and a time before which none of them was decided. The store may
    take its time over what was removed, so nobody looks there again."""

    count: int = 0
    floor_ms: int = 0


def is_final_refusal(refusal: ServiceError) -> bool:
    """Whether a refusal is the definite result of a write, to be given again whenever that is
    repeated. What is worked out before the log is asked, what asks to try again, and what leaves
    open whether it happened is none."""
    return refusal.code in _FINAL_REFUSALS and not refusal.may_have_taken_effect


def check_room(
    table: IdempotencyTable, in_flight: int, idempotency_keys_max: int, now_ms: int
) -> None:
    """Whether one more key can be kept beside those of `table` and those `in_flight`. Raises
    RateLimitedError: nothing is forgotten early, so it says when the oldest will be."""
    if table.count + in_flight < idempotency_keys_max:
        return
    oldest_ms = table.oldest_ms()
    wait_ms = 1000
    if oldest_ms is not None:
        wait_ms = max(oldest_ms + IDEMPOTENCY_KEYS_KEPT_MS - now_ms, wait_ms)
    raise RateLimitedError(
        f"the outcomes of {idempotency_keys_max} requests with a token are kept, and none may be "
        "forgotten yet",
        wait_ms,
    )


class IdempotencyTable:
    """The idempotency keys of one log and what became of their requests, as applied."""

    def __init__(self, reader: KeyReader, by_key: bytes, by_time: bytes, count_key: bytes) -> None:
        """`by_key` and `by_time` begin the keys of the two kinds of rows, one byte each."""
        assert len(by_key) == len(by_time) == 1, "the ranges of keys are those of one byte"
        self._reader = reader
        self._by_key = by_key
        self._by_time = by_time
        self._count_key = count_key
        value = reader.get(count_key)
        self._mark = Mark(0 if value is None else _COUNT.unpack(value)[0])

    @property
    def count(self) -> int:
        return self._mark.count

    def find(self, key: bytes) -> IdempotencyRow | None:
        value = self._reader.get(self._by_key + key)
        return None if value is None else _decode(value)

    def oldest_ms(self) -> TimestampMs | None:
        """When the first of those kept was decided."""
        first = next(iter(self.before(None, 1)), None)
        return None if first is None else TimestampMs(first[0])

    def before(self, before_ms: int | None, at_most: int) -> list[Expired]:
        """Those decided before `before_ms` (None: all), oldest first."""
        prefix = self._by_time
        start = prefix + _TIME.pack(self._mark.floor_ms)
        end = bytes([prefix[0] + 1]) if before_ms is None else prefix + _TIME.pack(before_ms)
        if start >= end:
            return []
        found = islice(self._reader.scan(start, end), at_most)
        return [(_TIME.unpack_from(key, 1)[0], key[1 + _TIME.size :]) for key, _ in found]

    def write(
        self, write_set: WriteSet, added: Mapping[bytes, IdempotencyRow], removed: Sequence[Expired]
    ) -> Mark:
        """Put the changes of one log entry into its write set; `removed` are the oldest there are,
        in their order. The result is for `commit`."""
        if not added and not removed:
            return self._mark
        # removals first: a key may be used again in the entry that forgets it
        for decided_at_ms, key in removed:
            write_set.delete(self._by_key + key)
            write_set.delete(self._by_time + _TIME.pack(decided_at_ms) + key)
        for key, row in added.items():
            write_set.put(self._by_key + key, _encode(row))
            write_set.put(self._by_time + _TIME.pack(row.decided_at_ms) + key, b"")
        count = self._mark.count + len(added) - len(removed)
        write_set.put(self._count_key, _COUNT.pack(count))
        floor_ms = removed[-1][0] if removed else self._mark.floor_ms
        decided = [one.decided_at_ms for one in added.values()]
        return Mark(count, min([floor_ms, *decided]))

    def commit(self, mark: Mark) -> None:
        """The store holds the changes that `write` returned this for."""
        self._mark = mark


def canonical_idempotency_row(value: bytes) -> bytes:
    """An idempotency key's row in the form of this release. Raises msgspec.DecodeError."""
    return _encode(_decode(value))


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(IdempotencyRow).decode
