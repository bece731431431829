"""What a read returns, encoded in steps of a bounded time, between which others may work.

The bytes are those of `json_body.encode_read_batch` and `proto_body.encode_read_batch`: both forms
are the records one behind the other, and within a record its headers. A step takes as many of them
as are looked at in one go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

import pybase64

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec import json_body, proto_body
from svc_cluster.codec.batch_codec import HEADERS_AT_ONCE, RUN_BYTES_MAX, RecordOut
from svc_cluster.codec.json_body import DataFormat, encode_object
from svc_cluster.codec.plain_read import EncodedRun, Piece
from svc_cluster.codec.varint import varint
from svc_cluster.model.record import Position

HEADERS_FORGOTTEN_AT_ONCE: Final = 8192
"""Each is an object of its own, and where they are far from each other in memory, 0.1 us."""
_TEXT_BYTES: Final = 240 * 1024
"""How much of a long body is encoded at one go; base64 of a multiple of 3 goes on without
padding."""
_JSON_BEGIN: Final = b'{"records":['
_JSON_END: Final = b"]}"
_RECORDS: Final = b"\x0a"


def json_steps(
    records: Sequence[Piece], tail: Position | None, data_format: DataFormat
) -> Generator[None, None, bytes]:
    """ReadBatch as one line of JSON. Runs that are encoded are so in `data_format`."""
    parts: list[bytes] = []
    for portion in _portions(records):
        if isinstance(portion, EncodedRun):
            parts.append(portion.encoded)
            continue
        if parts:
            yield
        if _is_long(portion[0]):
            parts.append((yield from _long_json_steps(portion[0], data_format)))
            continue
        encoded = json_body.encode_read_batch(portion, None, data_format)
        parts.append(encoded[len(_JSON_BEGIN) : -len(_JSON_END)])
    empty = json_body.encode_read_batch([], tail, data_format)
    return b"%b%b%b" % (_JSON_BEGIN, b",".join(parts), empty[len(_JSON_BEGIN) :])


def proto_steps(records: Sequence[Piece], tail: Position | None) -> Generator[None, None, bytes]:
    """ReadBatch as protobuf, as are runs that are encoded."""
    parts: list[bytes] = []
    for portion in _portions(records):
        if isinstance(portion, EncodedRun):
            parts.append(portion.encoded)
            continue
        if parts:
            yield
        if _is_long(portion[0]):
            parts.append((yield from _long_proto_steps(portion[0])))
        else:
            parts.append(proto_body.encode_read_batch(portion, None))
    parts.append(proto_body.encode_read_batch((), tail))
    return b"".join(parts)


def forget_steps(records: list[Piece]) -> Generator[None, None, None]:
    """Let go of records that nobody needs any more, in steps. The list is empty then, and so are
    the long ones of headers: 350,000 at one go take as long as all steps that have encoded them."""
    left = HEADERS_FORGOTTEN_AT_ONCE
    while records:
        piece = records.pop()
        if isinstance(piece, EncodedRun):
            continue
        headers = piece.headers
        while len(headers) > HEADERS_FORGOTTEN_AT_ONCE:
            yield
            del headers[-HEADERS_FORGOTTEN_AT_ONCE:]
        left -= len(headers)
        if left <= 0:
            yield
            left = HEADERS_FORGOTTEN_AT_ONCE


def _portions(pieces: Sequence[Piece]) -> Iterator[list[RecordOut] | EncodedRun]:
    """Records that are encoded together; one that is long is alone, and what is encoded as well."""
    portion: list[RecordOut] = []
    size = headers = 0
    for piece in pieces:
        if isinstance(piece, EncodedRun):
            if portion:
                yield portion
            portion, size, headers = [], 0, 0
            yield piece
            continue
        size += piece.metered_bytes
        headers += len(piece.headers)
        if portion and (size > RUN_BYTES_MAX or headers > HEADERS_AT_ONCE):
            yield portion
            portion, size, headers = [], piece.metered_bytes, len(piece.headers)
        portion.append(piece)
    if portion:
        yield portion


def _is_long(record: RecordOut) -> bool:
    return record.metered_bytes > RUN_BYTES_MAX or len(record.headers) > HEADERS_AT_ONCE


def _long_json_steps(record: RecordOut, data_format: DataFormat) -> Generator[None, None, bytes]:
    parts = [b'{"seq_num":%d,"timestamp":%d' % (record.seq_num, record.timestamp_ms)]
    for at in range(0, len(record.headers), HEADERS_AT_ONCE):
        some = record.headers[at : at + HEADERS_AT_ONCE]
        alone = RecordOut(0, 0, some, b"", 0)
        encoded = json_body.encode_read_batch([alone], None, data_format)
        parts.append(b',"headers":[' if at == 0 else b",")
        parts.append(encoded[encoded.index(b"[[") + 1 : -len(b"]}]}")])
        yield
    if record.headers:
        parts.append(b"]")
    if record.body:
        parts.append(b',"body":"')
        yield from _text_steps(record.body, data_format, parts)
        parts.append(b'"')
    parts.append(b"}")
    return b"".join(parts)


def _text_steps(
    body: bytes, data_format: DataFormat, parts: list[bytes]
) -> Generator[None, None, None]:
    if data_format is DataFormat.BASE64:
        for at in range(0, len(body), _TEXT_BYTES):
            parts.append(pybase64.b64encode(body[at : at + _TEXT_BYTES]))
            yield
        return
    text = body.decode("utf-8", "replace")  # as a whole: a slice may end within a character
    for at in range(0, len(text), _TEXT_BYTES):
        yield
        parts.append(encode_object(text[at : at + _TEXT_BYTES])[1:-1])


def _long_proto_steps(record: RecordOut) -> Generator[None, None, bytes]:
    first = pb.SequencedRecord(seq_num=record.seq_num, timestamp=record.timestamp_ms)
    parts = [first.SerializeToString()]
    for at in range(0, len(record.headers), HEADERS_AT_ONCE):
        some = pb.SequencedRecord()
        for name, value in record.headers[at : at + HEADERS_AT_ONCE]:
            some.headers.add(name=name, value=value)
        parts.append(some.SerializeToString())
        yield
    parts.append(pb.SequencedRecord(body=record.body).SerializeToString())
    size = sum(map(len, parts))
    return b"".join([_RECORDS, varint(size), *parts])
