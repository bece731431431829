"""Records as the public interface carries them in JSON, their content in base64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import quote

import msgspec
import pybase64

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

RECORDS_MAX: Final = 1000
"""The most in one append, or one answer to a read."""
METERED_BYTES_MAX: Final = 1024 * 1024
"""The most of one append, or one answer to a read, and of one record."""


@dataclass(frozen=True, slots=True)
class AppendRecord:
    """A record to append. `timestamp`: Unix milliseconds; None: the server's moment."""

    body: bytes
    headers: Headers = ()
    timestamp: int | None = None

    def metered_bytes(self) -> int:
        """Return the size that limits count, which is 8 + 2 per header + names and values +
        body."""
        return 8 + len(self.body) + sum(2 + len(n) + len(v) for n, v in self.headers)


class ReadRecord(msgspec.Struct):
    """A record as read, with its position. `timestamp`: Unix milliseconds."""

    seq_num: int
    timestamp: int
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""

    @property
    def is_command(self) -> bool:
        """Whether it fences or trims."""
        return len(self.headers) == 1 and self.headers[0][0] == b""

    def metered_bytes(self) -> int:
        """Return the size that limits count."""
        return 8 + len(self.body) + sum(2 + len(n) + len(v) for n, v in self.headers)


class _ReadBody(msgspec.Struct):
    records: list[ReadRecord]


_BATCH: Final = msgspec.json.Decoder(_ReadBody)


def decode_batch(body: bytes) -> list[ReadRecord]:
    """The records of a JSON read batch in base64. Raises msgspec.DecodeError."""
    return _BATCH.decode(body).records


def append_body(
    records: Sequence[AppendRecord],
    match_seq_num: int | None = None,
    fencing_token: str | None = None,
) -> bytes:
    """The JSON body of an append; record content in base64."""
    parts: list[bytes] = []
    for record in records:
        part = b'{"body":"' + pybase64.b64encode(record.body) + b'"'
        if record.timestamp is not None:
            part += b',"timestamp":%d' % record.timestamp
        if record.headers:
            pairs = b",".join(
                b'["' + pybase64.b64encode(n) + b'","' + pybase64.b64encode(v) + b'"]'
                for n, v in record.headers
            )
            part += b',"headers":[' + pairs + b"]"
        parts.append(part + b"}")
    condition = b"" if match_seq_num is None else b',"match_seq_num":%d' % match_seq_num
    if fencing_token is not None:
        condition += b',"fencing_token":' + msgspec.json.encode(fencing_token)
    return b'{"records":[' + b",".join(parts) + b"]" + condition + b"}"


def stream_path(stream: str) -> str:
    """Return the path of a stream, its name as one segment."""
    # a segment of dots alone would be taken for a step up; the service has no such names
    return f"/v1/streams/{quote(stream, safe='')}"


def records_path(stream: str) -> str:
    """Return the path of a stream's records."""
    return f"{stream_path(stream)}/records"
