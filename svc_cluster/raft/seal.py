"""The entry that ends a configuration: alone in its place, and nothing behind it has any effect.

It is an entry of the engine's own kind, not a proposal: applying it changes no state but who the
members are. Its bytes are read here only, and an entry of a format that is not known here is none.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.configuration import (
    Configuration,
    ConfigurationFormatError,
    Members,
    decode_members,
    encode_members,
)
from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.model import versions

SEAL_TYPE: Final = 10
"""First byte of a seal. The engine does nothing with it."""
SEAL_HEAD: Final = bytes([SEAL_TYPE])

FORMAT: Final = versions.newest_read(versions.SEAL_ENTRY)
_HEAD: Final = struct.Struct("<BBQ")


class SealFormatError(ValueError):
    """The bytes are no seal, or one of a format that is not known here."""


@dataclass(frozen=True, slots=True)
class GroupSeal:
    """A seal names the change that it decides, and who the next members are."""

    change_id: int
    members: Members


def encode_seal(seal: GroupSeal) -> bytes:
    return _HEAD.pack(SEAL_TYPE, FORMAT, seal.change_id) + encode_members(seal.members)


def decode_seal(payload: bytes) -> GroupSeal:
    """Raises SealFormatError for what `encode_seal` does not make."""
    if len(payload) < _HEAD.size:
        raise SealFormatError(f"a seal of {len(payload)} bytes")
    kind, version, change_id = _HEAD.unpack_from(payload)
    if (kind, version) != (SEAL_TYPE, FORMAT):
        raise SealFormatError(f"a seal of type {kind} and format {version}")
    try:
        members = decode_members(payload[_HEAD.size :])
    except ConfigurationFormatError as error:
        raise SealFormatError(str(error)) from error
    return GroupSeal(change_id, members)


def is_seal_payload(payload: bytes) -> bool:
    """Whether this is a whole seal of a format that is known here."""
    try:
        decode_seal(payload)
    except SealFormatError:
        return False
    return True


def successor(configuration: Configuration, entry: LogEntry) -> Configuration:
    """The configuration that begins behind the seal `entry`, which is committed. It is the first in
    the log of `configuration`, which ends with it."""
    seal = decode_seal(entry.payload)
    return Configuration(
        configuration.number + 1, seal.members, LogIndex(entry.log_index), Term(entry.term)
    )
