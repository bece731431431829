"""Records between their two forms: what a client gives or gets, and the stored batch.

`build_batch_steps` makes a stored batch of records in decoded bytes; `proto_body` makes one of a
protobuf body, by the rules that stand here. `cut_steps` is the only way back: whole stored batches
in, the records that a read may return out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import InternalError
from svc_cluster.codec.batch_rules import (
    METERED_BYTES_MAX,
    RECORDS_MAX,
    bad_metered_bytes,
    bad_record_count,
    command_record,
)
from svc_cluster.codec.varint import read_varint
from svc_cluster.model.record import CommandRecord, SequencedBatch, StoredBatch
from svc_cluster.stream.timestamping import stamp

HEADERS_AT_ONCE: Final = 2048
"""Counted and encoded between two chances for others to work."""

Open = Callable[[bytes], bytes]
"""Turns a sealed data record into what was sealed. Raises DecryptionFailedError."""

SEALED_RUN_RECORDS_MAX: Final = 256
"""Opening so many takes about 2 ms."""
RUN_BYTES_MAX: Final = 256 * 1024
"""Metered, of the records that are looked at in one go; a single one may be larger."""

LIGHT_HEADERS_MAX: Final = 8192
"""A stored batch that has no more is parsed at one go."""
LIGHT_RECORD_BYTES_MAX: Final = 16 * 1024
"""The same of a record: a header takes at least four bytes."""
_RECORDS_TAG, _TIMESTAMP_TAG = 1 << 3 | 2, 1 << 3

RecordIn = tuple[int | None, Sequence[tuple[bytes, bytes]], bytes]
"""Client timestamp, headers, body: decoded bytes."""


@dataclass(frozen=True, slots=True)
class AppendInput:
    """One append as a client asked for it. None: the condition was not given; 0 and the empty token
    are conditions."""

    batch: StoredBatch
    match_seq_num: int | None
    fencing_token: str | None


@dataclass(slots=True)
class RecordOut:
    """A record with its position, in decoded bytes."""

    seq_num: int
    timestamp_ms: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    metered_bytes: int

    count: ClassVar[int] = 1

    @property
    def end_seq_num(self) -> int:
        return self.seq_num + 1


def build_batch_steps(records: Sequence[RecordIn]) -> Generator[None, None, StoredBatch]:
    """Encode, count and check the records of one append, in steps of at most HEADERS_AT_ONCE
    headers.

    Raises InvalidError: no record, more than 1000, more than 1 MiB metered, or a header with an
    empty name that does not make a proper command record.
    """
    if not 1 <= len(records) <= RECORDS_MAX:
        raise bad_record_count(len(records))
    stored = pb.AppendInput()
    add = stored.records.add
    metered_bytes = 0
    header_count = 0
    timestamps_given = 0
    timestamp_max_ms: int | None = None
    timestamp_first_ms: int | None = None
    commands: list[CommandRecord] = []
    for offset, (timestamp_ms, headers, body) in enumerate(records):
        record = add(body=body)
        metered_bytes += 8 + len(body)
        for name, value in headers:
            if not name:
                commands.append(command_record(offset, headers, body))
            record.headers.add(name=name, value=value)
            metered_bytes += 2 + len(name) + len(value)
            header_count += 1
            if header_count % HEADERS_AT_ONCE == 0:
                yield
        if timestamp_ms is not None:
            record.timestamp = timestamp_ms
            timestamps_given += 1
            if offset == 0:
                timestamp_first_ms = timestamp_ms
            if timestamp_max_ms is None or timestamp_ms > timestamp_max_ms:
                timestamp_max_ms = timestamp_ms
        if metered_bytes > METERED_BYTES_MAX:
            raise bad_metered_bytes((yield from _metered_steps(records)))
    return StoredBatch(
        records=stored.SerializeToString(),
        record_count=len(records),
        metered_bytes=metered_bytes,
        timestamp_max_ms=timestamp_max_ms,
        timestamps_given=timestamps_given,
        commands=tuple(commands),
        timestamp_first_ms=timestamp_first_ms,
    )


def _metered_steps(records: Sequence[RecordIn]) -> Generator[None, None, int]:
    """Return what the records take by contract 2.5, in steps as those of `build_batch_steps`."""
    metered_bytes = 0
    for _, headers, body in records:
        metered_bytes += 8 + len(body)
        for begin in range(0, len(headers), HEADERS_AT_ONCE):
            some = headers[begin : begin + HEADERS_AT_ONCE]
            metered_bytes += sum([2 + len(name) + len(value) for name, value in some])
            yield
    return metered_bytes


@dataclass(slots=True)
class ReadBudget:
    """What a read may still return; `take` counts down. None: unbounded. `until_ms` is exclusive.

    `stopped` is set by the first record that may not be returned; nothing behind it may be either.
    """

    count: int | None = None
    metered_bytes: int | None = None
    until_ms: int | None = None
    from_ms: int = 0
    """Records below this timestamp are passed over: a start by time names a moment, and the batch
    that holds it may begin earlier."""
    stopped: bool = False

    @property
    def exhausted(self) -> bool:
        """Nothing more will ever be returned. (A record is never smaller than 8 bytes.)"""
        return (
            self.stopped
            or self.count == 0
            or (self.metered_bytes is not None and self.metered_bytes < 8)
        )

    @property
    def unbounded(self) -> bool:
        return self.count is None and self.metered_bytes is None and self.until_ms is None

    def allows(self, timestamp_ms: int) -> bool:
        """Tells whether a record of that timestamp can be returned, before it is known how large it
        is. One that cannot is not looked at."""
        if self.exhausted or (self.until_ms is not None and timestamp_ms >= self.until_ms):
            self.stopped = True
        return not self.stopped

    def take(self, record: RecordOut) -> bool:
        """Whether the record may be returned; if so it is counted."""
        if (
            self.stopped
            or (self.count is not None and self.count < 1)
            or (self.metered_bytes is not None and self.metered_bytes < record.metered_bytes)
            or (self.until_ms is not None and record.timestamp_ms >= self.until_ms)
        ):
            self.stopped = True
            return False
        if self.count is not None:
            self.count -= 1
        if self.metered_bytes is not None:
            self.metered_bytes -= record.metered_bytes
        return True


def cut_steps(
    batches: Iterable[SequencedBatch],
    start_seq_num: int,
    budget: ReadBudget,
    open_record: Open | None,
) -> Iterator[list[RecordOut] | None]:
    """Give out the records of whole batches from `start_seq_num` on that `budget` allows. They come
    in runs of bounded length, only the last of which may be empty. Of `budget` is taken what is in
    the runs that were given out. None: a run takes so long that others may work in between.
    `open_record` is for streams whose data records are sealed.

    Raises InternalError when stored bytes are not what was stored, and what `open_record` raises.
    """
    run = _Run(RECORDS_MAX if open_record is None else SEALED_RUN_RECORDS_MAX)
    for batch in batches:
        if batch.placement.end_seq_num <= start_seq_num:
            continue
        for seq_num, timestamp_ms, stored in _sequenced(batch, start_seq_num, open_record):
            if timestamp_ms < budget.from_ms:
                continue
            if not budget.allows(timestamp_ms):
                yield run.records
                return
            if len(run.records) == run.records_max:
                yield run.taken()
            record: RecordOut | None = None
            if open_record is None and not isinstance(stored, bytes):
                record = _record(seq_num, timestamp_ms, stored)
            else:
                for record in _record_steps(seq_num, timestamp_ms, stored, open_record):
                    if record is None:
                        yield None
            assert record is not None, "the last step has the record"
            if not run.has_room_for(record):
                yield run.taken()
            if not budget.take(record):
                yield run.records
                return
            run.add(record)
    yield run.records


class _Run:
    """Records that are given out together."""

    def __init__(self, records_max: int) -> None:
        self.records_max = records_max
        self.records: list[RecordOut] = []
        self._bytes = self._headers = 0

    def has_room_for(self, record: RecordOut) -> bool:
        return not self.records or (
            self._bytes + record.metered_bytes <= RUN_BYTES_MAX
            and self._headers + len(record.headers) <= HEADERS_AT_ONCE
        )

    def add(self, record: RecordOut) -> None:
        self.records.append(record)
        self._bytes += record.metered_bytes
        self._headers += len(record.headers)

    def taken(self) -> list[RecordOut]:
        """What there is; the run then begins anew."""
        records, self.records = self.records, []
        self._bytes = self._headers = 0
        return records


_Stored = pb.AppendRecord | bytes
"""A record as it is stored: bytes where it may have many headers."""


def _sequenced(
    batch: SequencedBatch, start_seq_num: int, open_record: Open | None
) -> Iterator[tuple[int, int, _Stored]]:
    """Sequence number, timestamp and record as stored, from `start_seq_num` on."""
    placement = batch.placement
    stored: Sequence[_Stored]
    if open_record is None and _headers_at_most(batch) > LIGHT_HEADERS_MAX:
        stored, given = _walked(batch.records)
    else:
        try:
            parsed = pb.AppendInput.FromString(batch.records).records
        except DecodeError as cause:
            raise InternalError("a stored batch does not parse") from cause
        stored = parsed
        given = [record.timestamp if record.HasField("timestamp") else None for record in parsed]
    if len(stored) != placement.record_count:
        raise InternalError("a stored batch has another number of records than its placement")
    stamped = stamp(placement, given)
    skip = max(0, start_seq_num - placement.first_seq_num)
    for offset in range(skip, len(stored)):
        yield placement.first_seq_num + offset, stamped[offset], stored[offset]


def _headers_at_most(batch: SequencedBatch) -> int:
    """Return a number that the headers in it do not exceed. A record takes at least two bytes
    beside what it has, and counts for 8; a header takes at least 4, and counts for 2."""
    placement = batch.placement
    return (len(batch.records) - placement.metered_bytes + 6 * placement.record_count) // 2


def _walked(data: bytes) -> tuple[list[_Stored], list[int | None]]:
    """The records of a stored batch, and their timestamps, which come first in them."""
    records: list[_Stored] = []
    given: list[int | None] = []
    position = 0
    try:
        while position < len(data):
            if data[position] != _RECORDS_TAG:
                raise InternalError("a stored batch does not parse")
            length, begin = read_varint(data, position + 1)
            position = begin + length
            record = data[begin:position]
            has_timestamp = length > 0 and record[0] == _TIMESTAMP_TAG
            given.append(read_varint(record, 1)[0] if has_timestamp else None)
            records.append(record)
    except IndexError as cause:
        raise InternalError("a stored batch does not parse") from cause
    return records, given


def _record_steps(
    seq_num: int, timestamp_ms: int, stored: _Stored, open_record: Open | None
) -> Iterator[RecordOut | None]:
    """The record, behind some steps without."""
    if open_record is not None:
        assert not isinstance(stored, bytes), "sealed records are not walked"
        if not stored.headers:
            # Only commands have headers there: those of data records are sealed with the body.
            stored = open_record(stored.body)
    if isinstance(stored, bytes):
        if len(stored) > LIGHT_RECORD_BYTES_MAX:
            yield from _long_record_steps(seq_num, timestamp_ms, stored)
            return
        stored = _parsed(stored)
    yield _record(seq_num, timestamp_ms, stored)


def _record(seq_num: int, timestamp_ms: int, stored: pb.AppendRecord) -> RecordOut:
    headers = [(header.name, header.value) for header in stored.headers]
    body = stored.body
    metered_bytes = 8 + len(body)
    for name, value in headers:
        metered_bytes += 2 + len(name) + len(value)
    return RecordOut(seq_num, timestamp_ms, headers, body, metered_bytes)


def _parsed(record: bytes) -> pb.AppendRecord:
    try:
        return pb.AppendRecord.FromString(record)
    except DecodeError as cause:
        raise InternalError("a stored record does not parse") from cause


def _long_record_steps(
    seq_num: int, timestamp_ms: int, record: bytes
) -> Iterator[RecordOut | None]:
    """Does what `_record_steps` does, with the headers HEADERS_AT_ONCE at a time."""
    headers: list[tuple[bytes, bytes]] = []
    body = b""
    metered_bytes = 8
    begin = position = 0
    count = 0
    while position < len(record):
        try:
            tag = record[position]
            value, position = read_varint(record, position + 1)
        except IndexError as cause:
            raise InternalError("a stored record does not parse") from cause
        position += 0 if tag == _TIMESTAMP_TAG else value
        count += 1
        if count % HEADERS_AT_ONCE == 0 or position >= len(record):
            part = _parsed(record[begin:position])
            found = [(header.name, header.value) for header in part.headers]
            metered_bytes += sum([2 + len(name) + len(value) for name, value in found])
            headers += found
            body = part.body or body
            begin = position
            yield None
    yield RecordOut(seq_num, timestamp_ms, headers, body, metered_bytes + len(body))
