"""How long a request of a gateway or a node may be, by what it asks: before it is parsed. Only the
records of an append, which stay as they are, are long."""

from __future__ import annotations

from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.codec.wire_fields import find_field

SHORT_BYTES_MAX: Final = 128 * 1024
"""Bytes of a request, but for the records of an append. So many are parsed in 5 ms at the worst."""

_FIELDS_MAX: Final = 16
"""Fields of a long request, and of its append, among which is the one that makes it long. Who
writes them in their order has it as the seventh at most."""


def is_too_long(data: bytes) -> bool:
    """Whether an encoded Request is longer than what it asks needs."""
    if len(data) <= SHORT_BYTES_MAX:
        return False
    try:
        append = _find(data, 0, len(data), pb.Request.APPEND_FIELD_NUMBER)
        if append is None:
            return True
        records = _find(data, *append, pb.AppendRequest.RECORDS_FIELD_NUMBER)
    except ValueError:
        return True
    if records is None:
        return True
    start, end = records
    return len(data) - (end - start) > SHORT_BYTES_MAX


def _find(data: bytes, position: int, end: int, wanted: int) -> tuple[int, int] | None:
    return find_field(data, position, end, wanted, _FIELDS_MAX)
