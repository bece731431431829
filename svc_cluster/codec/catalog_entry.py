"""Bytes of the catalog's log entries: type byte, format version, then protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import access_pb2 as access_message
from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.account_usage import ReportAccountUsage
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.catalog.catalog_commands import (
    AdmitNode,
    CatalogCommand,
    CatalogWrite,
    CreateBasin,
    DeleteBasin,
    DrainNode,
    ExpireCatalogIdempotencyKeys,
    IdempotentCatalogWrite,
    OpenTicket,
    RegisterNode,
    RemoveBasin,
    RemoveNode,
    ReplaceNode,
)
from svc_cluster.catalog.group_change import AllowSeal, BeginChange, CancelChange, Configured
from svc_cluster.catalog.location_table import SetDefaultLocation
from svc_cluster.catalog.token_commands import IssueToken, RevokeToken, SetRootToken
from svc_cluster.codec import access_pb, change_pb, config_pb, join_pb, usage_pb
from svc_cluster.codec.entry_since import check_since
from svc_cluster.codec.entry_version import (
    CATALOG_KINDS,
    UnknownEntryError,
    refuse_unknown_members,
    version_of,
)
from svc_cluster.model import versions
from svc_cluster.model.access_token import AccessToken
from svc_cluster.model.idempotency_table import REQUEST_KEY_BYTES
from svc_cluster.raft.group import PAYLOAD_TYPE

_VERSIONS: Final = (0x81, 0xFF)

_HEADER: Final = bytes(
    [PAYLOAD_TYPE, _VERSIONS[0] - 1 + versions.newest_read(versions.CATALOG_ENTRY)]
)
"""The engine's type byte for payloads, and the version of the catalog's format."""


class CatalogEntryFormatError(Exception):
    """The payload is an entry of no release; it is rejected alike on every replica."""


def encode_catalog_command(command: CatalogCommand, active: int = versions.NEWEST) -> bytes:
    """Does what `log_entry.encode_command` does, for the catalog. Raises NotActiveYetError for what
    came with a later version than `active`."""
    entry = pb.CatalogEntry()
    _to_pb(entry.commands.add(), command)
    check_since(entry, active)
    return entry.SerializeToString()


def join_catalog_commands(encoded: Sequence[bytes]) -> bytes:
    """Does what `log_entry.join_commands` does, for the catalog."""
    return b"".join((_HEADER, *encoded))


def encode_catalog_entry(
    commands: Sequence[CatalogCommand], active: int = versions.NEWEST
) -> bytes:
    return join_catalog_commands([encode_catalog_command(command, active) for command in commands])


def _to_pb(out: pb.CatalogCommand, command: CatalogCommand) -> None:
    match command:
        case RegisterNode():
            join_pb.put_node(out.register_node, command)
        case OpenTicket() | AdmitNode() | RemoveNode():
            join_pb.put(out, command)
        case ReplaceNode(node_id, ordinal, incarnation):
            out.replace_node.node_id = node_id
            out.replace_node.ordinal = ordinal
            out.replace_node.incarnation = incarnation
        case DrainNode(node_id, drains):
            out.drain_node.node_id = node_id
            out.drain_node.drains = drains
        case CreateBasin():
            _create_to_pb(out.create_basin, command)
        case DeleteBasin(name, deleted_at_ms):
            out.delete_basin.name = name
            out.delete_basin.deleted_at_ms = deleted_at_ms
        case RemoveBasin(group_id):
            out.remove_basin.group_id = group_id
        case IssueToken(token, issued_at_ms):
            access_pb.put_token(out.issue_token.token, token)
            out.issue_token.issued_at_ms = issued_at_ms
        case RevokeToken(serial):
            out.revoke_token.serial = serial
        case SetRootToken(secret_hash, change_id, only_if_absent):
            out.set_root_token.secret_hash = secret_hash
            out.set_root_token.change_id = change_id
            out.set_root_token.only_if_absent = only_if_absent
        case SetDefaultLocation(name, before):
            out.set_default_location.name = name
            out.set_default_location.before = before
        case IdempotentCatalogWrite(key, decided_at_ms, answer, write):
            out.keyed_write.key = key
            out.keyed_write.decided_at_ms = decided_at_ms
            out.keyed_write.answer = answer
            if write is not None:
                _to_pb(out.keyed_write.write, write)
        case ExpireCatalogIdempotencyKeys(before_ms, at_most):
            out.expire_outcomes.before_ms = before_ms
            out.expire_outcomes.at_most = at_most
        case BeginChange() | CancelChange() | AllowSeal() | Configured():
            change_pb.put(out, command)
        case ReportAccountUsage(at_ms, report):
            out.report_usage.at_ms = at_ms
            usage_pb.put_report(out.report_usage.report, report)
        case RaiseActiveVersion(version, nodes):
            out.raise_active_version.version = version
            for node in nodes:
                out.raise_active_version.nodes.add(
                    node_id=node.node_id, incarnation=node.incarnation, newest=node.newest
                )


def decode_catalog_entry(
    payload: bytes, known: frozenset[str] = CATALOG_KINDS
) -> list[CatalogCommand]:
    """The commands, all of the kinds in `known`. Raises UnknownEntryError for what a newer release
    may have written, CatalogEntryFormatError for what none has."""
    if payload[:2] != _HEADER:
        version = version_of(payload, *_VERSIONS)
        if version is None:
            raise CatalogEntryFormatError("not an entry of the catalog")
        raise UnknownEntryError(f"an entry of version {version}")
    try:
        entry = pb.CatalogEntry.FromString(payload[2:])
    except DecodeError as cause:
        raise CatalogEntryFormatError("not a catalog entry") from cause
    refuse_unknown_members(entry)
    for command in entry.commands:
        _check_known(command, known)
    return [_from_pb(command) for command in entry.commands]


def _check_known(command: pb.CatalogCommand, known: frozenset[str]) -> None:
    kind = command.WhichOneof("command")
    if kind is None:
        refuse_unknown_members(command)
        raise CatalogEntryFormatError("no command")
    if kind not in known:
        raise UnknownEntryError(f"a command of the unknown kind {kind}")
    refuse_unknown_members(command, getattr(command, kind))
    if kind == "register_node":
        refuse_unknown_members(command.register_node.facts)
    if kind == "admit_node":
        refuse_unknown_members(command.admit_node.node, command.admit_node.node.facts)
    if kind == "raise_active_version":
        refuse_unknown_members(*command.raise_active_version.nodes)
    if kind == "keyed_write" and command.keyed_write.HasField("write"):
        _check_known(command.keyed_write.write, known)


def _from_pb(command: pb.CatalogCommand) -> CatalogCommand:
    match command.WhichOneof("command"):
        case "register_node":
            return join_pb.get_node(command.register_node)
        case "open_ticket" | "admit_node" | "remove_node":
            return join_pb.get(command)
        case "replace_node":
            given = command.replace_node
            return ReplaceNode(NodeId(given.node_id), given.ordinal, given.incarnation)
        case "drain_node":
            return DrainNode(NodeId(command.drain_node.node_id), command.drain_node.drains)
        case "create_basin":
            return _create_from_pb(command.create_basin)
        case "delete_basin":
            gone = command.delete_basin
            return DeleteBasin(gone.name, TimestampMs(gone.deleted_at_ms))
        case "remove_basin":
            return RemoveBasin(GroupId(command.remove_basin.group_id))
        case "issue_token":
            issue = command.issue_token
            return IssueToken(_token_from_pb(issue.token), TimestampMs(issue.issued_at_ms))
        case "revoke_token":
            return RevokeToken(command.revoke_token.serial)
        case "set_root_token":
            root = command.set_root_token
            return SetRootToken(root.secret_hash, root.change_id, root.only_if_absent)
        case "set_default_location":
            chosen = command.set_default_location
            return SetDefaultLocation(chosen.name, chosen.before)
        case "keyed_write":
            return _idempotent_from_pb(command.keyed_write)
        case "expire_outcomes":
            expired = command.expire_outcomes
            return ExpireCatalogIdempotencyKeys(TimestampMs(expired.before_ms), expired.at_most)
        case "report_usage":
            said = command.report_usage
            report = usage_pb.get_report(said.report)
            return ReportAccountUsage(TimestampMs(said.at_ms), report)
        case "raise_active_version":
            return _raise_from_pb(command.raise_active_version)
        case "begin_change" | "cancel_change" | "allow_seal" | "configured":
            return change_pb.get(command)
        case _:
            raise UnknownEntryError("a command of an unknown kind")


def _idempotent_from_pb(idempotent: pb.IdempotentCatalogWrite) -> IdempotentCatalogWrite:
    if len(idempotent.key) != REQUEST_KEY_BYTES:
        raise CatalogEntryFormatError("a request key has another length")
    at_ms = TimestampMs(idempotent.decided_at_ms)
    if not idempotent.HasField("write"):
        return IdempotentCatalogWrite(idempotent.key, at_ms, idempotent.answer)
    write = _from_pb(idempotent.write)
    if not isinstance(write, CatalogWrite):
        raise CatalogEntryFormatError("no client asks for this kind of command")
    return IdempotentCatalogWrite(idempotent.key, at_ms, idempotent.answer, write)


def _token_from_pb(message: access_message.AccessToken) -> AccessToken:
    try:
        return access_pb.get_token(message)
    except access_pb.AccessFormatError as cause:
        raise UnknownEntryError(str(cause)) from cause


def _raise_from_pb(message: pb.RaiseActiveVersion) -> RaiseActiveVersion:
    return RaiseActiveVersion(
        message.version,
        tuple(
            NodeVersion(NodeId(node.node_id), node.incarnation, node.newest)
            for node in message.nodes
        ),
    )


def _create_to_pb(out: pb.CreateBasin, command: CreateBasin) -> None:
    out.name = command.name
    out.group_id = command.group_id
    out.replicas.extend(command.replicas)
    out.created_at_ms = command.created_at_ms
    config_pb.put_basin(out.config, command.config)
    out.creation_hash = command.creation_hash
    out.location = command.location
    out.owner = command.owner


def _create_from_pb(message: pb.CreateBasin) -> CreateBasin:
    try:
        config = config_pb.get_basin(message.config)
    except config_pb.ConfigFormatError as cause:
        raise UnknownEntryError(str(cause)) from cause
    return CreateBasin(
        name=message.name,
        group_id=GroupId(message.group_id),
        replicas=tuple(NodeId(n) for n in message.replicas),
        config=config,
        created_at_ms=TimestampMs(message.created_at_ms),
        creation_hash=message.creation_hash,
        location=message.location,
        owner=message.owner,
    )
