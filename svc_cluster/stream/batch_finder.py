"""Finding a stream's batches by looking keys up, instead of walking the store.

A batch is stored under its last sequence number, and has a bounded number of records: so the batch
that holds a record is under one of that many keys. The likely ones are asked for first; when none
of them is the next batch, all that it may have are. A lookup, unlike a walk, can be answered from
memory alone or sent to the disk without holding the interpreter (storage/state_store.py).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.model.record import BatchPlacement
from svc_cluster.stream import keys
from svc_cluster.stream.batch_row import HEADER_BYTES, decode_placement
from svc_cluster.stream.rows import StreamState

_T = TypeVar("_T")

Lookups: TypeAlias = Generator[list[bytes], Sequence[bytes | None], _T]
"""Yields keys to look up, at least one, and is sent the values of the first so many of them, at
least one; None for a key that is not there. What is sent may have been read at any moments, one
behind the other, while the store changed."""

FIRST_KEYS: Final = 4
"""Asked for at once while the size of the stream's batches is not known."""

LIKELY_KEYS_MAX: Final = 32
"""Asked for at once when batches of one size are expected."""

PROBED_KEYS_MAX: Final = 128
"""Asked for at once when nothing is known about the next batch but its bound."""


class BatchGuess(NamedTuple):
    """A BatchGuess has what is known of a stream's batches by one of them: others are alike."""

    records: int = 1
    end: int | None = None
    """Where it ends, as a sequence number; batches of one size end at multiples of it from there.
    None: it is not known."""
    size: int = 0
    """Bytes of its records; 0: they are not known."""

    def end_behind(self, seq_num: int) -> int:
        """Return where the batch that holds `seq_num` would end."""
        begun = 0 if self.end is None else (seq_num - self.end) % self.records
        return seq_num + self.records - begun


NO_GUESS: Final = BatchGuess()


class HoleError(Exception):
    """Records that the stream has are not in the store. What the store has of this stream is not
    to be given out: whoever gets it could not see that something is missing."""

    def __init__(self, stream: StreamState, first_missing: int, next_there: int) -> None:
        super().__init__(
            f"stream {stream.stream_id}: records {first_missing} to {next_there} (exclusive) are "
            f"missing; it has {stream.trim_point} to {stream.tail_seq_num}"
        )


class BatchFinder:
    """Goes from the batch that holds `seq_num`, which lies before the tail, towards the tail.

    `guess` is what its batches are expected to be like. `count`: so many records are enough.
    """

    __slots__ = (
        "_asked",
        "_enough_at",
        "_likely_end",
        "_probed_to",
        "_stream",
        "guess",
        "next_seq_num",
    )

    def __init__(
        self,
        stream: StreamState,
        seq_num: int,
        guess: BatchGuess = NO_GUESS,
        count: int | None = None,
    ) -> None:
        self._stream = stream
        self.next_seq_num = seq_num
        """The first record that is not in a batch found."""
        self.guess = guess
        """By the batch found last."""
        self._enough_at = None if count is None else seq_num + max(count, 1)
        self._asked: Sequence[int] = ()
        """Where the batches end whose keys were wanted last."""
        self._likely_end = guess.end_behind(seq_num)
        self._probed_to: int | None = None
        """Once the likely keys were asked for in vain: no batch ends before this record and behind
        `next_seq_num`."""

    def wanted(self, room_bytes: int) -> list[bytes]:
        """The keys to look up next, for about so many bytes of batches."""
        stream_id, tail = self._stream.stream_id, self._stream.tail_seq_num
        first = self._probed_to
        if first is not None:
            end = min(first + PROBED_KEYS_MAX, self.next_seq_num + BATCH_RECORDS_MAX, tail)
            self._asked = range(first + 1, end + 1)
        else:
            self._asked = self._likely(room_bytes)
        return [keys.batch_key(stream_id, end - 1) for end in self._asked]

    def _likely(self, room_bytes: int) -> list[int]:
        """Where the next batches end, if they are like the last one. Ascending."""
        tail, records = self._stream.tail_seq_num, self.guess.records
        first = self._likely_end
        at_most = FIRST_KEYS
        if self.guess.size:
            at_most = min(max(room_bytes, 0) // self.guess.size + 1, LIKELY_KEYS_MAX)
        if self._enough_at is not None:
            missing = max(0, self._enough_at - first)
            at_most = min(at_most, 1 + (missing + records - 1) // records)
        ends = [end for end in range(first, first + at_most * records, records) if end < tail]
        if len(ends) < at_most and tail - self.next_seq_num <= BATCH_RECORDS_MAX:
            ends.append(tail)  # what was appended last, or what is left
        elif not ends:
            ends.append(min(first, tail))
        return ends

    def found(self, values: Sequence[bytes | None]) -> list[tuple[BatchPlacement, bytes]]:
        """Take what the store has under the keys last wanted, or the first of them: the batches
        that come next, in order. Raises HoleError when there is none where one must be."""
        batches: list[tuple[BatchPlacement, bytes]] = []
        probed = self._probed_to
        for end, value in zip(self._asked, values, strict=False):
            if value is None:
                continue
            placement = decode_placement(value)
            if placement.end_seq_num != end:
                continue  # another one's value: this batch is not there
            if placement.first_seq_num > self.next_seq_num:
                if probed is not None and not batches:
                    raise HoleError(self._stream, self.next_seq_num, placement.first_seq_num)
                break  # there is another one before it, or it is found missing later
            batches.append((placement, value))
            self.next_seq_num = placement.end_seq_num
            size = len(value) - HEADER_BYTES
            self.guess = BatchGuess(placement.record_count, placement.end_seq_num, size)
        if batches:
            self._probed_to = None
            self._likely_end = self.next_seq_num + self.guess.records
        elif probed is None:
            self._probed_to = self.next_seq_num
        else:
            self._probed_to = probed + len(values)
            end = min(self.next_seq_num + BATCH_RECORDS_MAX, self._stream.tail_seq_num)
            if self._probed_to >= end:
                raise HoleError(self._stream, self.next_seq_num, end)
        return batches
