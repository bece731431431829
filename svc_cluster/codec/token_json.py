"""Access tokens in JSON: what is asked for, and what is listed. Null and absent mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.base.telling import listed, quoted
from svc_cluster.codec.json_body import decode_object
from svc_cluster.model import names
from svc_cluster.model.access import (
    NameSet,
    Op,
    OpGroups,
    ReadWrite,
    Scope,
    exact,
    is_empty,
    prefix,
    seen_from,
)
from svc_cluster.model.access_token import AccessToken, Expiry, TokenRequest
from svc_cluster.model.ticket_request import TICKET_SECONDS_MAX, TicketRequest

_OPS: Final = {op.value: op for op in Op}


class NameSetJson(msgspec.Struct):
    exact: str | None = None
    prefix: str | None = None


class HalvesJson(msgspec.Struct):
    read: bool | None = None
    write: bool | None = None


class OpGroupsJson(msgspec.Struct):
    account: HalvesJson | None = None
    basin: HalvesJson | None = None
    stream: HalvesJson | None = None


class ScopeJson(msgspec.Struct):
    basins: NameSetJson | None = None
    streams: NameSetJson | None = None
    access_tokens: NameSetJson | None = None
    op_groups: OpGroupsJson | None = None
    ops: list[str] | None = None


class IssueTokenJson(msgspec.Struct):
    id: str
    scope: ScopeJson
    auto_prefix_streams: bool | None = None
    expires_at: str | None = None


class ReadTicketJson(msgspec.Struct):
    basin: str
    streams: NameSetJson
    expires_in_secs: int | None = None


def decode_token_request(body: bytes, *, strict: bool = False) -> TokenRequest:
    """With `strict` unknown members are refused. Raises MalformedError (bad_json), also for names
    that break their rules."""
    return token_request(decode_object(body, IssueTokenJson, strict=strict))


def token_request(wire: IssueTokenJson) -> TokenRequest:
    """The token that is asked for. Raises MalformedError (bad_json) for names that break their
    rules, for unknown operations, and for an expiry that is no moment."""
    if not names.is_token_id(wire.id):
        raise _bad(names.not_a_token_id(wire.id))
    groups = wire.scope.op_groups or OpGroupsJson()
    ops: dict[Op, None] = {}
    for word in wire.scope.ops or ():
        if word not in _OPS:
            raise _bad(f"ops has {quoted(word)}; the operations are {listed(_OPS)}")
        ops[_OPS[word]] = None
    return TokenRequest(
        token_id=wire.id,
        scope=Scope(
            basins=_set("basins", wire.scope.basins, names.is_basin_name, names.is_basin_prefix),
            streams=_set(
                "streams", wire.scope.streams, names.is_stream_name, names.is_stream_prefix
            ),
            access_tokens=_set(
                "access_tokens",
                wire.scope.access_tokens,
                names.is_token_id,
                names.is_token_id_prefix,
            ),
            op_groups=OpGroups(
                _halves(groups.account), _halves(groups.basin), _halves(groups.stream)
            ),
            ops=tuple(ops),
        ),
        auto_prefix_streams=bool(wire.auto_prefix_streams),
        expires_at=None if wire.expires_at is None else parse_moment(wire.expires_at),
    )


def decode_ticket_request(body: bytes, *, strict: bool = False) -> TicketRequest:
    """With `strict` unknown members are refused. Raises MalformedError (bad_json), also for names
    that break their rules, and InvalidError for a time that no ticket holds."""
    wire = decode_object(body, ReadTicketJson, strict=strict)
    if not names.is_basin_name(wire.basin):
        raise _bad(names.not_a_basin_name(wire.basin))
    streams = _set("streams", wire.streams, names.is_stream_name, names.is_stream_prefix)
    if streams is None or is_empty(streams):
        raise _bad("streams has the empty name")
    seconds = TICKET_SECONDS_MAX if wire.expires_in_secs is None else wire.expires_in_secs
    if not 1 <= seconds <= TICKET_SECONDS_MAX:
        raise InvalidError(f"expires_in_secs is 1 to {TICKET_SECONDS_MAX}, not {seconds}")
    return TicketRequest(wire.basin, streams, seconds)


def parse_moment(text: str) -> Expiry:
    """An RFC 3339 date and time, up to nanoseconds. Raises MalformedError (bad_json)."""
    try:
        return Expiry.parse(text)
    except ValueError as cause:
        raise _bad(str(cause)) from cause


def token_to_json(token: AccessToken, name_prefix: str = "") -> dict[str, Any]:
    """Return the token's JSON for somebody whose stream names get `name_prefix`."""
    scope = token.scope
    groups = scope.op_groups
    return {
        "id": token.token_id,
        "expires_at": None if token.expires_at is None else token.expires_at.text,
        "auto_prefix_streams": token.auto_prefix_streams,
        "scope": {
            "basins": _set_to_json(scope.basins),
            "streams": _set_to_json(seen_from(name_prefix, scope.streams)),
            "access_tokens": _set_to_json(scope.access_tokens),
            "op_groups": {
                name: {"read": half.read, "write": half.write}
                for name, half in (
                    ("account", groups.account),
                    ("basin", groups.basin),
                    ("stream", groups.stream),
                )
            },
            "ops": [op.value for op in scope.ops],
        },
    }


def _set(
    member: str,
    wire: NameSetJson | None,
    is_name: Callable[[str], bool],
    is_prefix: Callable[[str], bool],
) -> NameSet | None:
    if wire is None:
        return None
    if (wire.exact is None) == (wire.prefix is None):
        given = "neither" if wire.exact is None else "both"
        raise _bad(f"{member} has one of exact and prefix, this one has {given}")
    if wire.exact is not None:
        if wire.exact and not is_name(wire.exact):
            raise _bad(f"{member} has a name that cannot be")
        return exact(wire.exact)
    assert wire.prefix is not None, "one of them is given"
    if not is_prefix(wire.prefix):
        raise _bad(f"{member} has a prefix that no name begins with")
    return prefix(wire.prefix)


def _halves(wire: HalvesJson | None) -> ReadWrite:
    return ReadWrite() if wire is None else ReadWrite(bool(wire.read), bool(wire.write))


def _set_to_json(names_: NameSet | None) -> dict[str, str] | None:
    if names_ is None:
        return None
    return {"prefix" if names_.is_prefix else "exact": names_.value}


def _bad(message: str) -> MalformedError:
    return MalformedError(ErrorCode.BAD_JSON, message)
