"""Records between their two forms: what a client gives or gets, and the stored batch.

`build_batch` makes a stored batch of records in decoded bytes; `proto_body` makes one of a protobuf
body, by the rules that stand here. `cut` is the only way back: whole stored batches in, the records
that a read may return out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import InternalError, InvalidError
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.base.steps import at_once
from svc_cluster.model import names
from svc_cluster.model.record import CommandKind, CommandRecord, SequencedBatch, StoredBatch
from svc_cluster.stream.timestamping import stamp

RECORDS_MAX: Final = BATCH_RECORDS_MAX
METERED_BYTES_MAX: Final = 1_048_576
U64_MAX: Final = 2**64 - 1

RECORD_COUNT_RULE: Final = f"a batch has 1 to {RECORDS_MAX} records"
METERED_BYTES_RULE: Final = f"a batch holds at most {METERED_BYTES_MAX} metered bytes"
FENCING_TOKEN_RULE: Final = f"a fencing token has at most {names.FENCING_TOKEN_BYTES_MAX} bytes"

EMPTY_NAME_RULE: Final = "a header name may be empty only as the one header of a command record"
HEADERS_AT_ONCE: Final = 4096
"""Counted and encoded between two chances for others to work."""

_TRIM_BODY_BYTES: Final = 8

Open = Callable[[bytes], bytes]
"""Turns a sealed data record into what was sealed. Raises DecryptionFailedError."""

SEALED_RUN_RECORDS_MAX: Final = 256
"""Opening so many takes about 2 ms."""
RUN_BYTES_MAX: Final = 256 * 1024
"""Metered, of the records that are looked at in one go; a single one may be larger."""

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
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    metered_bytes: int


def build_batch(records: Sequence[RecordIn]) -> StoredBatch:
    """All of `build_batch_steps` at once."""
    return at_once(build_batch_steps(records))


def build_batch_steps(records: Sequence[RecordIn]) -> Generator[None, None, StoredBatch]:
    """Encode, count and check the records of one append, in steps of at most HEADERS_AT_ONCE
    headers.

    Raises InvalidError: no record, more than 1000, more than 1 MiB metered, or a header with an
    empty name that does not make a proper command record.
    """
    if not 1 <= len(records) <= RECORDS_MAX:
        raise InvalidError(RECORD_COUNT_RULE)
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
            raise InvalidError(METERED_BYTES_RULE)
    return StoredBatch(
        records=stored.SerializeToString(),
        record_count=len(records),
        metered_bytes=metered_bytes,
        timestamp_max_ms=timestamp_max_ms,
        timestamps_given=timestamps_given,
        commands=tuple(commands),
        timestamp_first_ms=timestamp_first_ms,
    )


def command_record(
    offset: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> CommandRecord:
    """What a record of which a header has an empty name commands. Raises InvalidError."""
    if len(headers) != 1:
        raise InvalidError(EMPTY_NAME_RULE)
    match headers[0][1]:
        case b"fence":
            try:
                token = body.decode()
            except UnicodeDecodeError:
                raise InvalidError("a fencing token is UTF-8") from None
            if not names.is_fencing_token(token):
                raise InvalidError(FENCING_TOKEN_RULE)
            return CommandRecord(offset=offset, kind=CommandKind.FENCE, token=token)
        case b"trim":
            if len(body) != _TRIM_BODY_BYTES:
                raise InvalidError("the body of a trim command is a big-endian 64-bit number")
            trim_point = int.from_bytes(body, "big")
            return CommandRecord(offset=offset, kind=CommandKind.TRIM, trim_point=trim_point)
        case _:
            raise InvalidError("a command record is `fence` or `trim`")


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
        """Whether a record of that timestamp can be returned, before it is known how large it is:
        one that cannot is not looked at."""
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


def cut(
    batches: Iterable[SequencedBatch],
    start_seq_num: int,
    budget: ReadBudget,
    open_record: Open | None = None,
) -> list[RecordOut]:
    """The records of whole batches from `start_seq_num` on that `budget` allows, which is reduced.
    `open_record` is for streams whose data records are sealed.

    Raises InternalError when stored bytes are not what was stored, and what `open_record` raises.
    """
    records: list[RecordOut] = []
    for run in cut_runs(batches, start_seq_num, budget, open_record):
        records += run
    return records


def cut_runs(
    batches: Iterable[SequencedBatch],
    start_seq_num: int,
    budget: ReadBudget,
    open_record: Open | None,
) -> Iterator[list[RecordOut]]:
    """As `cut`, in runs of bounded length, only the last of which may be empty. Of `budget` is
    taken what is in the runs that were given out."""
    records_max = RECORDS_MAX if open_record is None else SEALED_RUN_RECORDS_MAX
    run: list[RecordOut] = []
    run_bytes = 0
    for batch in batches:
        if batch.placement.end_seq_num <= start_seq_num:
            continue
        for seq_num, timestamp_ms, stored in _sequenced(batch, start_seq_num):
            if timestamp_ms < budget.from_ms:
                continue
            if not budget.allows(timestamp_ms):
                yield run
                return
            if len(run) == records_max:
                yield run
                run = []
                run_bytes = 0
            record = _record(seq_num, timestamp_ms, stored, open_record)
            if run and run_bytes + record.metered_bytes > RUN_BYTES_MAX:
                yield run
                run = []
                run_bytes = 0
            if not budget.take(record):
                yield run
                return
            run.append(record)
            run_bytes += record.metered_bytes
    yield run


def _sequenced(
    batch: SequencedBatch, start_seq_num: int
) -> Iterator[tuple[int, int, pb.AppendRecord]]:
    """Sequence number, timestamp and record as stored, from `start_seq_num` on."""
    try:
        stored = pb.AppendInput.FromString(batch.records).records
    except DecodeError as cause:
        raise InternalError("a stored batch does not parse") from cause
    placement = batch.placement
    if len(stored) != placement.record_count:
        raise InternalError("a stored batch has another number of records than its placement")
    given = [record.timestamp if record.HasField("timestamp") else None for record in stored]
    stamped = stamp(placement, given)
    skip = max(0, start_seq_num - placement.first_seq_num)
    for offset in range(skip, len(stored)):
        yield placement.first_seq_num + offset, stamped[offset], stored[offset]


def _record(
    seq_num: int, timestamp_ms: int, stored: pb.AppendRecord, open_record: Open | None
) -> RecordOut:
    if open_record is not None and not stored.headers:
        # Only commands have headers there: those of data records are sealed with the body.
        try:
            stored = pb.AppendRecord.FromString(open_record(stored.body))
        except DecodeError as cause:
            raise InternalError("an opened record does not parse") from cause
    headers = tuple([(header.name, header.value) for header in stored.headers])
    body = stored.body
    metered_bytes = 8 + len(body)
    for name, value in headers:
        metered_bytes += 2 + len(name) + len(value)
    return RecordOut(seq_num, timestamp_ms, headers, body, metered_bytes)
