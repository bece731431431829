"""Commands that change a group's members, in the bytes of the catalog's log."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId, Term
from svc_cluster.catalog.group_change import (
    AllowSeal,
    BeginChange,
    CancelChange,
    ChangeCommand,
    Configured,
)


def put(out: pb.CatalogCommand, command: ChangeCommand) -> None:
    match command:
        case BeginChange(group_id, configuration, replicas, reason, present):
            out.begin_change.group_id = group_id
            out.begin_change.configuration = configuration
            out.begin_change.replicas.extend(replicas)
            out.begin_change.reason = reason
            out.begin_change.present.extend(present)
        case CancelChange(group_id, change_id, term):
            out.cancel_change.group_id = group_id
            out.cancel_change.change_id = change_id
            out.cancel_change.term = term
        case AllowSeal(group_id, change_id, term):
            out.allow_seal.group_id = group_id
            out.allow_seal.change_id = change_id
            out.allow_seal.term = term
        case Configured(group_id, configuration, change_id):
            out.configured.group_id = group_id
            out.configured.configuration = configuration
            out.configured.change_id = change_id


def get(command: pb.CatalogCommand) -> ChangeCommand:
    """The command, which is of one of these kinds."""
    match command.WhichOneof("command"):
        case "begin_change":
            begin = command.begin_change
            nodes = tuple(NodeId(node) for node in begin.replicas)
            return BeginChange(
                GroupId(begin.group_id),
                begin.configuration,
                nodes,
                begin.reason,
                tuple(NodeId(node) for node in begin.present),
            )
        case "cancel_change":
            cancel = command.cancel_change
            return CancelChange(GroupId(cancel.group_id), cancel.change_id, Term(cancel.term))
        case "allow_seal":
            asks = command.allow_seal
            return AllowSeal(GroupId(asks.group_id), asks.change_id, Term(asks.term))
        case kind:
            assert kind == "configured", "the caller has looked at the kind"
            said = command.configured
            return Configured(GroupId(said.group_id), said.configuration, said.change_id)
