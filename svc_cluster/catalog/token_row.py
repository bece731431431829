"""The stored form of an access token."""

from __future__ import annotations

from typing import Final

import msgspec

from svc_cluster.model.access import NameSet, Op, OpGroups, ReadWrite, Scope
from svc_cluster.model.access_token import AccessToken, Expiry

_OPS: Final = {op.value: op for op in Op}

_Set = tuple[str, bool] | None


class _Row(msgspec.Struct, array_like=True):
    serial: int
    token_id: str
    secret_hash: bytes
    parent: int
    basins: _Set
    streams: _Set
    access_tokens: _Set
    groups: int
    """One bit for each half of a group: account read, account write, basin read ..."""
    ops: list[str]
    auto_prefix_streams: bool
    name_prefix: str
    expires_text: str | None
    expires_ns: int
    """`Expiry.stored_ns`."""


def token_to_bytes(token: AccessToken) -> bytes:
    scope = token.scope
    expiry = token.expires_at
    return msgspec.msgpack.encode(
        _Row(
            serial=token.serial,
            token_id=token.token_id,
            secret_hash=token.secret_hash,
            parent=token.parent,
            basins=_set(scope.basins),
            streams=_set(scope.streams),
            access_tokens=_set(scope.access_tokens),
            groups=groups_to_bits(scope.op_groups),
            ops=[op.value for op in scope.ops],
            auto_prefix_streams=token.auto_prefix_streams,
            name_prefix=token.name_prefix,
            expires_text=None if expiry is None else expiry.text,
            expires_ns=0 if expiry is None else expiry.stored_ns,
        )
    )


def token_from_bytes(raw: bytes) -> AccessToken:
    """Raises msgspec.DecodeError for what no version of this program wrote."""
    row = msgspec.msgpack.decode(raw, type=_Row)
    expiry = None
    if row.expires_text is not None:
        try:
            expiry = Expiry.restored(row.expires_text, row.expires_ns)
        except ValueError as cause:
            raise msgspec.DecodeError("an expiry that names no moment") from cause
    return AccessToken(
        serial=row.serial,
        token_id=row.token_id,
        secret_hash=row.secret_hash,
        parent=row.parent,
        scope=Scope(
            basins=_names(row.basins),
            streams=_names(row.streams),
            access_tokens=_names(row.access_tokens),
            op_groups=groups_from_bits(row.groups),
            ops=tuple(_OPS[op] for op in row.ops if op in _OPS),
        ),
        auto_prefix_streams=row.auto_prefix_streams,
        name_prefix=row.name_prefix,
        expires_at=expiry,
    )


def groups_to_bits(groups: OpGroups) -> int:
    bits = 0
    for group in (groups.account, groups.basin, groups.stream):
        bits = bits << 2 | group.read << 1 | group.write
    return bits


def groups_from_bits(bits: int) -> OpGroups:
    return OpGroups(*(ReadWrite(bool(bits >> s & 2), bool(bits >> s & 1)) for s in (4, 2, 0)))


def _set(names: NameSet | None) -> _Set:
    return None if names is None else (names.value, names.is_prefix)


def _names(stored: _Set) -> NameSet | None:
    return None if stored is None else NameSet(*stored)
