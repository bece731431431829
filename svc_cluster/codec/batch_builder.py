"""This module builds a stored batch of which the headers come a few at a time.

They are never all held as objects: letting go of them takes as long as making them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.batch_rules import (
    METERED_BYTES_MAX,
    RECORDS_MAX,
    bad_empty_name,
    bad_metered_bytes,
    bad_record_count,
    command_record,
)
from svc_cluster.codec.varint import varint
from svc_cluster.model.record import CommandRecord, StoredBatch

_RECORDS: Final = b"\x0a"


class BatchBuilder:
    """This makes of records, one after the other, what `build_batch_steps` makes of all of them.

    A record is begun by its headers or its end, and ended by `end_record`.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._headers: list[bytes] = []
        self._header_count = 0
        self._unnamed: tuple[bytes, bytes] | None = None
        self.record_count = 0
        """Records that were ended."""
        self._metered_bytes = 0
        self._timestamps_given = 0
        self._timestamp_first_ms: int | None = None
        self._timestamp_max_ms: int | None = None
        self._commands: list[CommandRecord] = []

    def add_headers(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Take the next headers of the record. The time that it takes goes with their number.
        Raises InvalidError for more than a batch holds, and for an empty name that is no command.
        """
        record = pb.AppendRecord()
        add = record.headers.add
        for name, value in headers:
            if not name:
                self._unnamed = (name, value)
            add(name=name, value=value)
            self._metered_bytes += 2 + len(name) + len(value)
        self._header_count += len(headers)
        if self._unnamed is not None and self._header_count > 1:
            raise bad_empty_name(self.record_count)
        self._check_room()
        self._headers.append(record.SerializeToString())

    def end_record(self, timestamp_ms: int | None, body: bytes) -> None:
        """End the record, which has these beside its headers. Raises InvalidError for one record
        too many, for more than a batch holds, and for what is no command."""
        if self.record_count == RECORDS_MAX:
            raise bad_record_count(RECORDS_MAX + 1)
        if self._unnamed is not None:
            self._commands.append(command_record(self.record_count, [self._unnamed], body))
        self._metered_bytes += 8 + len(body)
        self._check_room()
        # the library writes fields in the order of their numbers
        first = b""
        if timestamp_ms is not None:
            first = pb.AppendRecord(timestamp=timestamp_ms).SerializeToString()
            self._timestamps_given += 1
            if self.record_count == 0:
                self._timestamp_first_ms = timestamp_ms
            if self._timestamp_max_ms is None or timestamp_ms > self._timestamp_max_ms:
                self._timestamp_max_ms = timestamp_ms
        last = pb.AppendRecord(body=body).SerializeToString()
        size = len(first) + sum(map(len, self._headers)) + len(last)
        self._parts += [_RECORDS, varint(size), first, *self._headers, last]
        self.record_count += 1
        self._headers.clear()
        self._header_count = 0
        self._unnamed = None

    def batch(self) -> StoredBatch:
        """All records that were ended. Raises InvalidError for none."""
        assert not self._headers, "a record that was begun is ended"
        if self.record_count == 0:
            raise bad_record_count(0)
        return StoredBatch(
            records=b"".join(self._parts),
            record_count=self.record_count,
            metered_bytes=self._metered_bytes,
            timestamp_max_ms=self._timestamp_max_ms,
            timestamps_given=self._timestamps_given,
            commands=tuple(self._commands),
            timestamp_first_ms=self._timestamp_first_ms,
        )

    def _check_room(self) -> None:
        if self._metered_bytes > METERED_BYTES_MAX:
            raise bad_metered_bytes(None)
