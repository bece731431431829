"""Which nodes may come to the cluster, and which may leave it. Pure.

An operator announces a node by its id: a ticket is open until a node shows the secret behind its
hash, the time is over, or it is withdrawn. The command that spends it makes the node's row.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.catalog_commands import AdmitNode, OpenTicket, RemoveNode
from svc_cluster.catalog.node_rows import (
    REMOVED,
    NodeRecord,
    come_again,
    registered,
    removed,
    why_never_again,
)
from svc_cluster.model.formation import MEMBERS_MAX
from svc_cluster.model.join_token import HASH_BYTES, MEMBER_ALREADY, NODE_ID_MAX

TICKETS: Final = b"\x06"
"""The kind of the rows: one for each open ticket, behind it the node's id."""

TICKETS_MAX: Final = 16
"""Tickets that are open at one time."""

UNKNOWN_TOKEN: Final = "the join token is good no more, or never was: ask for another one"
"""It was spent or withdrawn, its time is over, or it is another cluster's; who asks is not told
which."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What is kept of a join token: not the secret."""

    node_id: NodeId
    secret_hash: bytes
    expires_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome of a command: the node's row, and the tickets that go."""

    node: NodeRecord | None
    gone: tuple[NodeId, ...] = ()


TicketRows = Mapping[NodeId, Ticket]
Nodes = Mapping[NodeId, NodeRecord]


def expired(tickets: TicketRows, now_ms: int) -> list[NodeId]:
    """The nodes whose tickets are over."""
    return sorted(node for node, one in tickets.items() if one.expires_at_ms <= now_ms)


def why_not_opened(tickets: TicketRows, nodes: Nodes, command: OpenTicket) -> str | None:
    """Return one sentence for an operator; None: the ticket is opened."""
    node_id = command.node_id
    known = nodes.get(node_id)
    if not 0 < node_id <= NODE_ID_MAX or len(command.secret_hash) != HASH_BYTES:
        return "these cannot be a node and the hash of its secret"
    if known is not None and not known.is_removed:
        return f"node {node_id} {MEMBER_ALREADY}"
    if known is not None and (reason := why_never_again(nodes, known)) is not None:
        return reason
    still_open = set(tickets) - set(expired(tickets, command.now_ms))
    if node_id in still_open:
        return (
            f"a join token for node {node_id} is open: use that, or withdraw it first: svc-cluster "
            f"admin member remove {node_id}"
        )
    if len(still_open) >= TICKETS_MAX:
        return f"{TICKETS_MAX} join tokens are open, as many as may be: withdraw one first"
    if known is None and len(nodes) + len(still_open) >= MEMBERS_MAX:
        return f"a cluster has at most {MEMBERS_MAX} nodes, those that were removed among them"
    return None


def admitted(tickets: TicketRows, nodes: Nodes, command: AdmitNode) -> Decided | str:
    """What becomes of a node that shows a secret, or why it stays out. Shown again by the same
    directory it changes nothing: where that is by now it says as every node does, by a registration
    in its own name."""
    node_id = command.node.node_id
    known = nodes.get(node_id)
    if known is not None and not known.is_removed:
        if known.incarnation != command.node.incarnation:
            return taken(node_id)
        again = registered(nodes, command.node)
        return again if isinstance(again, str) else Decided(known)
    if known is not None and known.incarnation == command.node.incarnation:
        return REMOVED
    ticket = tickets.get(node_id)
    if ticket is None or not hmac.compare_digest(ticket.secret_hash, command.secret_hash):
        return UNKNOWN_TOKEN
    if ticket.expires_at_ms <= command.now_ms:
        return UNKNOWN_TOKEN
    if known is None:
        made = registered(nodes, command.node)
    else:
        made = why_never_again(nodes, known) or come_again(known, command.node)
    return made if isinstance(made, str) else Decided(made, (node_id,))


def taken(node_id: NodeId) -> str:
    """Why a directory does not come under the id of a member that has another one."""
    return (
        f"node {node_id} is a member with another data directory: give it that one back, or, where "
        f"that is lost for good, drain and remove node {node_id}, and let it come again with a new "
        f"join token: svc-cluster admin member add {node_id}"
    )


def left(tickets: TicketRows, nodes: Nodes, command: RemoveNode, replicas: int) -> Decided | str:
    """What becomes of a node that is to go, or why it stays. `replicas`: the basins that have one
    there, or are to have one."""
    node_id = command.node_id
    gone = (node_id,) if node_id in tickets else ()
    if node_id not in nodes:
        return Decided(None, gone) if gone else f"no node {node_id} is registered"
    row = removed(nodes[node_id], replicas)
    return row if isinstance(row, str) else Decided(row, gone)


class TicketTable:
    """The tickets that are open, or were when somebody looked last."""

    def __init__(self, reader: KeyReader) -> None:
        self.open: dict[NodeId, Ticket] = {}
        for _, value in reader.scan(TICKETS, bytes([TICKETS[0] + 1])):
            ticket = _decoded(value)
            self.open[ticket.node_id] = ticket

    def decide(
        self,
        plan: dict[NodeId, Ticket | None],
        write_set: WriteSet,
        nodes: Nodes,
        command: OpenTicket | AdmitNode | RemoveNode,
        replicas: int,
    ) -> NodeRecord | str | None:
        """The row of a node that the command makes, or why it has no effect; None: it has one, on
        tickets alone. `plan` is what the entry makes of the tickets."""
        tickets = {node: one for node, one in {**self.open, **plan}.items() if one is not None}
        if isinstance(command, OpenTicket):
            reason = why_not_opened(tickets, nodes, command)
            if reason is not None:
                return reason
            self._forget(plan, write_set, expired(tickets, command.now_ms))
            made = Ticket(command.node_id, command.secret_hash, command.expires_at_ms)
            plan[made.node_id] = made
            write_set.put(_key(made.node_id), _encoded(made))
            return None
        if isinstance(command, AdmitNode):
            found = admitted(tickets, nodes, command)
        else:
            found = left(tickets, nodes, command, replicas)
        if isinstance(found, str):
            return found
        self._forget(plan, write_set, found.gone)
        return found.node

    @staticmethod
    def _forget(
        plan: dict[NodeId, Ticket | None],
        write_set: WriteSet,
        nodes: Iterable[NodeId],
    ) -> None:
        for node in nodes:
            plan[node] = None
            write_set.delete(_key(node))

    def commit(self, plan: Mapping[NodeId, Ticket | None]) -> None:
        """Take over what has been written to the store."""
        for node, ticket in plan.items():
            if ticket is None:
                self.open.pop(node, None)
            else:
                self.open[node] = ticket


def _key(node_id: NodeId) -> bytes:
    return TICKETS + node_id.to_bytes(8, "big")


def _encoded(ticket: Ticket) -> bytes:
    return msgspec.msgpack.encode((ticket.node_id, ticket.secret_hash, ticket.expires_at_ms))


def _decoded(value: bytes) -> Ticket:
    node_id, secret_hash, expires_at_ms = msgspec.msgpack.decode(value, type=tuple[int, bytes, int])
    return Ticket(NodeId(node_id), secret_hash, TimestampMs(expires_at_ms))
