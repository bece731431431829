"""Records as lines: text, JSON with strings, or JSON with base64, a record a line."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
import pybase64

from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.wire_records import METERED_BYTES_MAX, AppendRecord, ReadRecord

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A line that holds one record, as JSON with everything in it escaped."""


class RecordFormat(StrEnum):
    """What a line is: its body alone, or an object with `body`, `headers` and `timestamp`."""

    TEXT = "text"
    JSON = "json"
    JSON_BASE64 = "json-base64"


class _RecordLine(msgspec.Struct, forbid_unknown_fields=True):
    body: str = ""
    headers: list[tuple[str, str]] = []
    timestamp: int | None = None
    seq_num: int | None = None
    """What a record that was read has, and is passed over: another stream takes what one gives."""


class _WrittenLine(msgspec.Struct, omit_defaults=True):
    seq_num: int
    timestamp: int
    headers: list[tuple[str, str]] = []
    body: str = ""


def parse_line(line: bytes, form: RecordFormat, number: int) -> AppendRecord:
    """Return the record of one line, which is `number` of its input. Raises ClientError."""
    record = AppendRecord(line) if form is RecordFormat.TEXT else _from_json(line, form, number)
    if record.metered_bytes() > METERED_BYTES_MAX:
        raise ClientError(
            f"line {number} makes a record of {record.metered_bytes()} bytes, at most "
            f"{METERED_BYTES_MAX} fit: cut it"
        )
    return record


def _from_json(line: bytes, form: RecordFormat, number: int) -> AppendRecord:
    try:
        found = msgspec.json.decode(line, type=_RecordLine)
        read = _decoded if form is RecordFormat.JSON_BASE64 else str.encode
        headers = tuple((read(name), read(value)) for name, value in found.headers)
        return AppendRecord(read(found.body), headers, found.timestamp)
    except (msgspec.DecodeError, ValueError) as cause:
        raise ClientError(
            f"line {number} is no record in {form.value} ({cause}): it is an object such as "
            '{"body":"...","headers":[["name","value"]]}'
        ) from cause


def _decoded(text: str) -> bytes:
    return pybase64.b64decode(text, validate=True)


def record_line(record: ReadRecord, form: RecordFormat) -> bytes:
    """Return the line of a record, with its end. As text a command record has none."""
    if form is RecordFormat.TEXT:
        return b"" if record.is_command else record.body + b"\n"
    shown = _encoded if form is RecordFormat.JSON_BASE64 else _readable
    headers = [(shown(name), shown(value)) for name, value in record.headers]
    line = _WrittenLine(record.seq_num, record.timestamp, headers, shown(record.body))
    return msgspec.json.encode(line) + b"\n"


def is_spoilt(record: ReadRecord) -> bool:
    """Whether JSON with strings cannot hold what is in it."""
    try:
        record.body.decode()
        for name, value in record.headers:
            name.decode()
            value.decode()
    except UnicodeDecodeError:
        return True
    return False


def _encoded(data: bytes) -> str:
    return pybase64.b64encode(data).decode()


def _readable(data: bytes) -> str:
    """What is not UTF-8 in it is U+FFFD: json-base64 keeps every byte."""
    return data.decode(errors="replace")
