"""Short words for configurations and seals, shared by their tests."""

from __future__ import annotations

from svc_cluster.base.configuration import TERM_BITS, Configuration, GroupMember, Members
from svc_cluster.base.ids import LogIndex, NodeId, ReplicaId, Term
from svc_cluster.base.log_ops import LogEntry, RecoveredLog
from svc_cluster.raft.seal import GroupSeal, encode_seal
from tests.unit.raft.harness import Node, log_of

ONE = 1 << TERM_BITS
"""The first term of configuration 1, in which nobody leads."""


def members(*nodes: int) -> Members:
    return tuple(GroupMember(NodeId(node), ReplicaId(100 + node)) for node in nodes)


def configuration(number: int, seal: tuple[int, int], *nodes: int) -> Configuration:
    """`seal`: index and term of the entry that began it."""
    return Configuration(number, members(*nodes), LogIndex(seal[0]), Term(seal[1]))


def seal_of(*nodes: int) -> GroupSeal:
    return GroupSeal(77, members(*nodes))


def sealed(log_index: int, term: int, *nodes: int) -> LogEntry:
    return LogEntry(LogIndex(log_index), Term(term), encode_seal(seal_of(*nodes)))


def noop(log_index: int, term: int) -> LogEntry:
    return LogEntry(LogIndex(log_index), Term(term), b"\x01")


def begun(number: int, seal: tuple[int, int], *nodes: int, terms: tuple[int, ...]) -> RecoveredLog:
    """A durable log in a later configuration, with entries of these terms from index 1 on."""
    log = log_of(*terms, term=max((number << TERM_BITS, *terms)))
    log.configuration = configuration(number, seal, *nodes)
    return log


def committed_kinds(node: Node) -> list[int]:
    """The first byte of everything that was handed out to be applied."""
    return [entry.payload[0] for entry in node.applied]
