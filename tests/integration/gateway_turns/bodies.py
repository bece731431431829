"""Bodies at their limits, and beyond them, of every kind that a gateway takes."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, Final

import zstandard

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.proto_body import PROTO_BODY_BYTES_MAX
from svc_cluster.codec.session_frame import FRAME_BYTES_MAX
from svc_cluster.gateway.request.negotiation import CONTROL_BODY_BYTES_MAX, JSON_BODY_BYTES_MAX
from svc_cluster.model.access import Op
from tests.integration.gateway_turns.backend import SHAPES

CODINGS: Final = {
    "identity": lambda body: body,
    "gzip": lambda body: gzip.compress(body, 1),
    "zstd": zstandard.ZstdCompressor(level=1).compress,
}

NUL_FREE: Final = "\x01"
"""Six characters in JSON."""


def json_append(shape: str, form: DataFormat) -> bytes:
    def text(data: bytes) -> str:
        if form is DataFormat.BASE64:
            return base64.b64encode(data).decode()
        return data.decode("utf-8", "replace")

    # the records of a shape are alike
    _, headers, body = SHAPES[shape][0]
    record = {"headers": [[text(n), text(v)] for n, v in headers], "body": text(body)}
    said = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return b'{"records":[%b]}' % b",".join([said.encode()] * len(SHAPES[shape]))


def proto_append(shape: str) -> bytes:
    _, headers, body = SHAPES[shape][0]
    record = pb.AppendRecord(body=body)
    for name, value in headers:
        record.headers.add(name=name, value=value)
    one = pb.AppendInput(records=[record]).SerializeToString()
    return one * len(SHAPES[shape])


def filled(begin: bytes, unit: bytes, end: bytes, size: int = JSON_BODY_BYTES_MAX) -> bytes:
    return begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end


ODD_JSON: Final = {
    "arrays in arrays": b"[" * JSON_BODY_BYTES_MAX,
    "arrays in a member": filled(b'{"records":[{}],"a":', b"[", b""),
    "objects in objects": filled(b'{"records":[{}],"a":', b'{"a":', b""),
    "empty records": filled(b'{"records":[', b"{},", b"{}]}"),
    "empty arrays": filled(b'{"records":[{}],"a":[', b"[],", b"[]]}"),
    "zeros": filled(b'{"records":[{}],"a":[', b"0,", b"0]}"),
    "members": filled(b'{"records":[{}]', b',"a":0', b"}"),
    "quotes": filled(b'{"records":[{}],"a":[', b'"",', b'""]}'),
    "escapes": filled(b'{"records":[{"body":"', b"\\u0001", b'"}]}'),
    "escaped pairs": filled(b'{"records":[{"body":"', b"\\ud83d\\ude00", b'"}]}'),
    "backslashes": filled(b'{"records":[{"body":"', b"\\\\", b'"}]}'),
    "digits": filled(b'{"records":[{}],"match_seq_num":', b"1", b"}"),
    "digits behind a point": filled(b'{"records":[{}],"a":0.', b"1", b"}"),
    "digits of an unknown number": filled(b'{"records":[{}],"a":', b"1", b"}"),
    "blanks": filled(b'{"records":[{}]', b" ", b"}"),
    "a doubled member": filled(b'{"records":[{"body":"', b"x", b'"}],"a":0,"a":0}'),
    "no JSON": filled(b"", b"\xff", b""),
    "a name without end": filled(b'{"', b"a", b""),
    "colons in a body": filled(b'{"records":[{"body":"', b":", b'"}]}'),
    "long unknown text": filled(b'{"records":[{}],"a":"', b"\\u0001", b'"}'),
    "headers of two letters": b'{"records":[{"headers":[%b]}]}'
    % b",".join([b'["ab",""]'] * 262_000),
    "headers without end": filled(b'{"records":[{"headers":[', b'["",""],', b'["",""]]}]}'),
}
"""Of 8 MiB each; what is not JSON, or more than a batch, is refused."""

ODD_PROTO: Final = {
    "records": b"\x0a\x00" * (PROTO_BODY_BYTES_MAX // 2),
    "unknown fields": b"\x7a\x00" * (PROTO_BODY_BYTES_MAX // 2),
    "groups": b"\x7b\x7c" * (PROTO_BODY_BYTES_MAX // 2),
    "groups in groups": b"\x7b" * PROTO_BODY_BYTES_MAX,
    "a number without end": b"\xff" * PROTO_BODY_BYTES_MAX,
    "unknown within a record": b"\x0a\xfc\xff\x7f" + b"\x7a\x00" * (PROTO_BODY_BYTES_MAX // 2 - 4),
    "a group beside headers": b"\x0a\xc0\x84\x3d" + b"\x12\x00" * 500_000 + b"\x7b\x7c",
    "headers of nothing": b"\x0a\xfc\xff\x7f" + b"\x12\x00" * (PROTO_BODY_BYTES_MAX // 2 - 4),
}

BOMBS: Final = {
    "gzip": gzip.compress(bytes(64 << 20)),
    "zstd": zstandard.ZstdCompressor().compress(bytes(64 << 20)),
    "gzip of members": gzip.compress(b"") * 20_000,
    "gzip of small members": gzip.compress(b"x" * 4000) * 2_000,
    "gzip of garbage": gzip.compress(b"")[:10] + bytes(8 << 20),
}


def control(body: Any) -> list[bytes]:
    """A legal body, filled up with blanks to the most there may be, and others of that size that
    are refused."""
    size = CONTROL_BODY_BYTES_MAX
    return [
        json.dumps(body).encode().ljust(size),
        b"[" * size,
        filled(b'{"a":', b'{"a":', b"", size),
        filled(b"{", b'"a":0,', b'"a":0}', size),
        filled(b'{"a":[', b"{},", b"{}]}", size),
        filled(b'{"a":', b"1", b"}", size),
    ]


STREAM_CONFIG: Final[dict[str, Any]] = {
    "storage_class": "standard",
    "retention_policy": {"age": 2**53},
    "timestamping": {"mode": "client-require", "uncapped": False},
    "delete_on_empty": {"min_age_secs": 2**53},
}
BASIN_CONFIG: Final[dict[str, Any]] = {
    "default_stream_config": STREAM_CONFIG,
    "create_stream_on_append": False,
    "create_stream_on_read": False,
    "storage_class": "standard",
}
TICKET: Final[dict[str, Any]] = {
    "basin": "b" * 48,
    "streams": {"prefix": NUL_FREE * 512},
    "expires_in_secs": 3600,
}
TOKEN: Final[dict[str, Any]] = {
    "id": NUL_FREE * 96,
    "scope": {
        "basins": {"exact": "b" * 48},
        "streams": {"prefix": NUL_FREE * 512},
        "access_tokens": {"prefix": NUL_FREE * 96},
        "op_groups": {
            group: {"read": True, "write": True} for group in ("account", "basin", "stream")
        },
        "ops": [op.value for op in Op],
    },
    "auto_prefix_streams": True,
    "expires_at": "2099-12-31T23:59:59.999999999+23:59",
}

FRAME_MAX: Final = FRAME_BYTES_MAX
