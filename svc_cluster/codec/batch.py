"""Batches: what arose in one turn of the event loop, as messages of a bounded size.

Members are encoded before they are put together and decoded after they are taken apart, each by
itself: one that cannot be written or read harms no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.limits import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX

MEMBER_OVERHEAD_BYTES_MAX: Final = 6
"""A member's tag and length: 1 byte, and at most 5."""

MEMBER_BYTES_MAX: Final = MESSAGE_BYTES_MAX - MEMBER_OVERHEAD_BYTES_MAX
"""A longer member fits in no message."""


class BatchError(Exception):
    """The bytes are no batch."""


class MemberTooLongError(ValueError):
    """The member fits in no message that the other side would take."""


def check_member(member: bytes) -> bytes:
    """`member` itself. Raises MemberTooLongError for one of more than MEMBER_BYTES_MAX bytes."""
    if len(member) > MEMBER_BYTES_MAX:
        raise MemberTooLongError(f"{len(member)} bytes; a message takes {MEMBER_BYTES_MAX}")
    return member


class Packed(NamedTuple):
    data: bytes
    member_count: int
    """Members in it."""


def pack(members: Iterable[bytes]) -> list[Packed]:
    """The members in their order, in messages of at most BATCH_BYTES_MAX bytes; a member that is
    longer than that, and passes `check_member`, has a message of its own."""
    messages: list[Packed] = []
    batch: list[bytes] = []
    size = 0
    for member in members:
        more = len(member) + MEMBER_OVERHEAD_BYTES_MAX
        if batch and size + more > BATCH_BYTES_MAX:
            messages.append(_packed(batch))
            batch, size = [], 0
        batch.append(member)
        size += more
    if batch:
        messages.append(_packed(batch))
    return messages


def _packed(batch: list[bytes]) -> Packed:
    return Packed(pb.Batch(members=batch).SerializeToString(), len(batch))


def unpack(message: bytes) -> Sequence[bytes]:
    """The members of a message. Raises BatchError."""
    try:
        return pb.Batch.FromString(message).members
    except DecodeError as cause:
        raise BatchError("not a batch") from cause
