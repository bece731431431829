"""JSON bodies of appends of the plain shape, by the native core.

Plain is what clients send: known members, each once, whole numbers, text or base64 that is right,
no command records, nothing above a limit.
"""

from __future__ import annotations

from typing import Final

from svc_cluster._native import core
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX
from svc_cluster.model.record import StoredBatch

BODY_BYTES_MAX: Final = METERED_BYTES_MAX * 3 // 2
"""Taken in one go, which is as much as a batch takes in base64, and some more. Of nothing but
escapes it takes the core about 5 ms; see `python -m tests.benchmarks.native_codec`."""

Plain = tuple[StoredBatch, int | None, str | None]
"""The batch, the number to match and the fencing token, which is not yet checked."""


def plain_append(body: bytes, *, is_base64: bool) -> Plain | None:
    """The append that `body` asks for; None: it is not of the plain shape, or there is no core."""
    encode = core.encode_append
    if encode is None or len(body) > BODY_BYTES_MAX:
        return None
    found = encode(body, is_base64)
    if found is None:
        return None
    records, count, metered_bytes, latest_ms, given, first_ms, match_seq_num, token = found
    batch = StoredBatch(
        records=records,
        record_count=count,
        metered_bytes=metered_bytes,
        timestamp_max_ms=latest_ms,
        timestamps_given=given,
        timestamp_first_ms=first_ms,
    )
    return batch, match_seq_num, token
