"""What followers share of an encoding, and by what it is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svc_cluster.codec.plain_read import Piece


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Records as one format has them, without what belongs to a connection."""

    encoded: bytes
    count: int
    metered_bytes: int
    end_seq_num: int
    """Behind the last one; of no meaning without records."""

    @classmethod
    def of(cls, records: Sequence[Piece], encoded: bytes = b"") -> EncodedPart:
        count = sum([record.count for record in records])
        metered_bytes = sum([record.metered_bytes for record in records])
        end_seq_num = records[-1].end_seq_num if records else 0
        return cls(encoded, count, metered_bytes, end_seq_num)


PartKey = tuple[tuple[int, int], int, int, str, bytes]
"""Incarnation, start and end of what was read, format, fingerprint of the key that opened it."""
