"""Which replicas a group is made of, from which entry on; and how that is written down.

A group's log is cut into *configurations*, numbered from 0. Each has fixed members, and ends with a
seal that names the next members; the next one begins behind it. The terms of configuration `c` are
those from `c << TERM_BITS` on, so that a term names its configuration.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import LogIndex, NodeId, ReplicaId, Term

TERM_BITS: Final = 40
"""Elections of one configuration, as a power of two."""

CONFIGURATIONS_MAX: Final = 2**20
"""Configurations of one group: their terms stay far below 2**62, which is the most on the wire."""

MEMBERS_MAX: Final = 7
"""Members of one configuration."""

FORMAT: Final = 1
"""The format of the encoding below: its first byte."""

_HEAD: Final = struct.Struct("<BBIQQ")
_MEMBER: Final = struct.Struct("<QQ")


class ConfigurationFormatError(ValueError):
    """The bytes are no configuration, or one of a format that is not known here."""


@dataclass(frozen=True, slots=True, order=True)
class GroupMember:
    """A member is one replica: a node, and the number of this placement, which is never reused."""

    node_id: NodeId
    replica_id: ReplicaId


Members = tuple[GroupMember, ...]
"""In the order of their nodes."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A decided configuration. `(seal_index, seal_term)` is the entry that began it, and (0, 0) of
    configuration 0, which began with nothing."""

    number: int
    members: Members
    seal_index: LogIndex = LogIndex(0)
    seal_term: Term = Term(0)

    @property
    def first_term(self) -> Term:
        """Below all terms in which anybody leads it."""
        return Term(self.number << TERM_BITS)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(member.node_id for member in self.members)

    @property
    def quorum(self) -> int:
        return len(self.members) // 2 + 1

    def includes(self, replica_id: ReplicaId) -> bool:
        return any(member.replica_id == replica_id for member in self.members)


def first_configuration(nodes: Sequence[NodeId]) -> Configuration:
    """The configuration of a group that never changed its members: the replica on each node has
    the node's number. Those of later placements are above all of these."""
    return Configuration(0, tuple(GroupMember(node, ReplicaId(node)) for node in sorted(nodes)))


def configuration_of(term: Term) -> int:
    """The number of the configuration that a term is of."""
    return term >> TERM_BITS


def are_members(members: Sequence[GroupMember]) -> bool:
    """Whether these can be the members of a configuration, each on another node and in order."""
    nodes = [member.node_id for member in members]
    replicas = {member.replica_id for member in members}
    in_order = nodes == sorted(set(nodes))
    return 0 < len(members) <= MEMBERS_MAX and in_order and len(replicas) == len(members)


def encode_configuration(configuration: Configuration) -> bytes:
    members, number = configuration.members, configuration.number
    head = _HEAD.pack(
        FORMAT, len(members), number, configuration.seal_index, configuration.seal_term
    )
    return head + encode_members(members)


def encode_members(members: Members) -> bytes:
    return b"".join(_MEMBER.pack(member.node_id, member.replica_id) for member in members)


def decode_configuration(data: bytes) -> Configuration:
    """Raises ConfigurationFormatError for what `encode_configuration` does not make."""
    if len(data) < _HEAD.size or data[0] != FORMAT:
        raise ConfigurationFormatError("not a configuration of a format that is known here")
    _, count, number, seal_index, seal_term = _HEAD.unpack_from(data)
    members = decode_members(data[_HEAD.size :])
    if len(members) != count or not number < CONFIGURATIONS_MAX:
        raise ConfigurationFormatError("a configuration with another number of members")
    return Configuration(number, members, LogIndex(seal_index), Term(seal_term))


def decode_members(data: bytes) -> Members:
    """Raises ConfigurationFormatError for what cannot be the members of a configuration."""
    if not 0 < len(data) <= MEMBERS_MAX * _MEMBER.size or len(data) % _MEMBER.size:
        raise ConfigurationFormatError(f"{len(data)} bytes of members")
    members = tuple(
        GroupMember(NodeId(node), ReplicaId(replica)) for node, replica in _MEMBER.iter_unpack(data)
    )
    if not are_members(members):
        raise ConfigurationFormatError("members that stand twice, or out of order")
    return members


def is_of_newer_format(data: bytes) -> bool:
    """Whether the bytes say that a newer release wrote them."""
    return bool(data) and data[0] > FORMAT
