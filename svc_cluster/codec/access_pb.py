"""Access tokens between values and protobuf."""

from __future__ import annotations

from functools import cache
from typing import Final

from svc_cluster._pb.cluster.v1 import access_pb2 as pb
from svc_cluster.model.access import NameSet, Op, OpGroups, ReadWrite, Scope
from svc_cluster.model.access_token import AccessToken, Expiry

_OPS: Final = {op.value: op for op in Op}
_HALVES: Final = 6


class AccessFormatError(Exception):
    """The message is none that this version writes."""


def put_token(out: pb.AccessToken, token: AccessToken, *, with_hash: bool = True) -> None:
    out.serial = token.serial
    out.token_id = token.token_id
    if with_hash:
        out.secret_hash = token.secret_hash
    out.parent = token.parent
    _put_scope(out.scope, token.scope)
    out.auto_prefix_streams = token.auto_prefix_streams
    out.name_prefix = token.name_prefix
    if token.expires_at is not None:
        out.expires_at.text = token.expires_at.text
        out.expires_at.unix_ns = token.expires_at.stored_ns


def get_token(message: pb.AccessToken) -> AccessToken:
    """Raises AccessFormatError."""
    expires_at = None
    if message.HasField("expires_at"):
        try:
            expires_at = Expiry.restored(message.expires_at.text, message.expires_at.unix_ns)
        except ValueError as cause:
            raise AccessFormatError("an expiry that names no moment") from cause
    return AccessToken(
        serial=message.serial,
        token_id=message.token_id,
        secret_hash=message.secret_hash,
        parent=message.parent,
        scope=_get_scope(message.scope),
        auto_prefix_streams=message.auto_prefix_streams,
        name_prefix=message.name_prefix,
        expires_at=expires_at,
    )


def _put_scope(out: pb.Scope, scope: Scope) -> None:
    out.SetInParent()
    if scope.basins is not None:
        _put_names(out.basins, scope.basins)
    if scope.streams is not None:
        _put_names(out.streams, scope.streams)
    if scope.access_tokens is not None:
        _put_names(out.access_tokens, scope.access_tokens)
    account, basin, stream = (
        scope.op_groups.account,
        scope.op_groups.basin,
        scope.op_groups.stream,
    )
    out.groups.extend(
        (account.read, account.write, basin.read, basin.write, stream.read, stream.write)
    )
    out.ops.extend(op.value for op in scope.ops)


def _get_scope(message: pb.Scope) -> Scope:
    groups = message.groups
    ops = tuple(map(_OPS.get, message.ops))
    if len(groups) != _HALVES or None in ops:
        raise AccessFormatError("a scope of another version")
    return Scope(
        basins=_get_names(message.basins) if message.HasField("basins") else None,
        streams=_get_names(message.streams) if message.HasField("streams") else None,
        access_tokens=(
            _get_names(message.access_tokens) if message.HasField("access_tokens") else None
        ),
        op_groups=_op_groups(*groups),
        ops=tuple(op for op in ops if op is not None),
    )


@cache
def _op_groups(
    account_read: bool,
    account_write: bool,
    basin_read: bool,
    basin_write: bool,
    stream_read: bool,
    stream_write: bool,
) -> OpGroups:
    """There are 64, and a list of tokens is full of them."""
    return OpGroups(
        ReadWrite(account_read, account_write),
        ReadWrite(basin_read, basin_write),
        ReadWrite(stream_read, stream_write),
    )


def _put_names(out: pb.NameSet, names: NameSet) -> None:
    out.value = names.value
    out.is_prefix = names.is_prefix


def _get_names(message: pb.NameSet) -> NameSet:
    return NameSet(message.value, message.is_prefix)
