"""The one table that says what each route needs, and the checks by it.

Whoever may not do a thing is told so before anything is looked up: a refusal is the same whether or
not what was asked for exists. An operation that the table does not know is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError, PermissionDeniedError
from svc_cluster.gateway.http.message import Request
from svc_cluster.gateway.http.negotiation import STREAM_NAME_RULE, basin_of
from svc_cluster.gateway.http.router import Match, Operation, is_name_of_stream
from svc_cluster.model.access import FULL_GRANT, Grant, Op
from svc_cluster.model.record import CommandKind, StoredBatch


class Names(Enum):
    """The names of a request that have to be within the token's sets."""

    NONE = "none"
    """None, or those that are listed: the page is cut to the set."""
    BASIN = "basin"
    STREAM = "stream"
    """The basin and, in it, the stream."""
    ACCOUNT = "account"
    """None, and what is done is done to all basins: only a token for all of them may."""
    TOKEN = "token"
    IN_BODY = "in body"
    """The handler checks it once it knows it (`require`). A basin beside it is checked here."""


@dataclass(frozen=True, slots=True)
class Need:
    """`all_of` are needed together, and one `any_of` where there are some."""

    names: Names
    all_of: tuple[Op, ...] = ()
    any_of: tuple[Op, ...] = ()
    basin_beside: bool = False


NEEDS: Final[dict[Operation, Need]] = {
    Operation.LIST_BASINS: Need(Names.NONE, (Op.LIST_BASINS,)),
    Operation.CREATE_BASIN: Need(Names.IN_BODY, (Op.CREATE_BASIN,)),
    Operation.ENSURE_BASIN: Need(Names.BASIN, (Op.CREATE_BASIN, Op.RECONFIGURE_BASIN)),
    Operation.GET_BASIN_CONFIG: Need(Names.BASIN, (Op.GET_BASIN_CONFIG,)),
    Operation.RECONFIGURE_BASIN: Need(Names.BASIN, (Op.RECONFIGURE_BASIN,)),
    Operation.DELETE_BASIN: Need(Names.BASIN, (Op.DELETE_BASIN,)),
    Operation.LIST_STREAMS: Need(Names.BASIN, (Op.LIST_STREAMS,)),
    Operation.CREATE_STREAM: Need(Names.IN_BODY, (Op.CREATE_STREAM,), basin_beside=True),
    Operation.ENSURE_STREAM: Need(Names.STREAM, (Op.CREATE_STREAM, Op.RECONFIGURE_STREAM)),
    Operation.GET_STREAM_CONFIG: Need(Names.STREAM, (Op.GET_STREAM_CONFIG,)),
    Operation.RECONFIGURE_STREAM: Need(Names.STREAM, (Op.RECONFIGURE_STREAM,)),
    Operation.DELETE_STREAM: Need(Names.STREAM, (Op.DELETE_STREAM,)),
    # which of the three is known with the records: `require_append`
    Operation.APPEND: Need(Names.STREAM, any_of=(Op.APPEND, Op.FENCE, Op.TRIM)),
    Operation.READ: Need(Names.STREAM, (Op.READ,)),
    Operation.CHECK_TAIL: Need(Names.STREAM, (Op.CHECK_TAIL,)),
    Operation.LIST_TOKENS: Need(Names.NONE, (Op.LIST_ACCESS_TOKENS,)),
    Operation.ISSUE_TOKEN: Need(Names.IN_BODY, (Op.ISSUE_ACCESS_TOKEN,)),
    Operation.REVOKE_TOKEN: Need(Names.TOKEN, (Op.REVOKE_ACCESS_TOKEN,)),
    # active basins are cut to the set, and the operations of all need `require_account`
    Operation.ACCOUNT_METRICS: Need(Names.NONE, (Op.ACCOUNT_METRICS,)),
    Operation.BASIN_METRICS: Need(Names.BASIN, (Op.BASIN_METRICS,)),
    Operation.STREAM_METRICS: Need(Names.STREAM, (Op.STREAM_METRICS,)),
    Operation.LIST_LOCATIONS: Need(Names.NONE, (Op.LIST_LOCATIONS,)),
    Operation.GET_DEFAULT_LOCATION: Need(Names.NONE, (Op.GET_DEFAULT_LOCATION,)),
    Operation.SET_DEFAULT_LOCATION: Need(Names.ACCOUNT, (Op.SET_DEFAULT_LOCATION,)),
}
"""What the records of a stream need has no more to do with the mode (unary, session, events) than
with the format: all modes are one operation. A stream that is made because records are appended to
it, or read, needs nothing beyond that."""

FREE: Final = frozenset(
    {
        Operation.HEALTH,
        Operation.LIVEZ,
        Operation.READYZ,
        Operation.METRICS,
        Operation.VERSION,
        Operation.OPENAPI,
    }
)
"""Answered without a token."""

_DENIED: Final = "the access token does not allow this"


def authorize(grant: Grant, match: Match, request: Request) -> Match:
    """The match with the stream's full name. Raises PermissionDeniedError, and MalformedError where
    the request does not say which basin it means or a name gets too long."""
    if grant is FULL_GRANT or match.operation in FREE:
        return match
    need = NEEDS.get(match.operation)
    if need is None or not grant.allows(need.all_of):
        raise PermissionDeniedError(_DENIED)
    if need.any_of and grant.operations.isdisjoint(need.any_of):
        raise PermissionDeniedError(_DENIED)
    if need.names in (Names.BASIN, Names.STREAM) or need.basin_beside:
        require(grant, basin=basin_of(request, match.basin))
    if need.names is Names.STREAM:
        assert match.stream is not None, "the route has a stream in its path"
        stream = full_name(grant, match.stream, ErrorCode.BAD_PATH, match.operation)
        require(grant, stream=stream)
        return replace(match, stream=stream)
    if need.names is Names.ACCOUNT:
        require_account(grant)
    if need.names is Names.TOKEN:
        require(grant, token_id=match.token_id)
    return match


def require(
    grant: Grant,
    *operations: Op,
    basin: str | None = None,
    stream: str | None = None,
    token_id: str | None = None,
) -> None:
    """Raises PermissionDeniedError. `stream` is the full name."""
    if not grant.allows(operations, basin=basin, stream=stream, token_id=token_id):
        raise PermissionDeniedError(_DENIED)


def require_account(grant: Grant) -> None:
    """For what tells of or changes all basins together. Raises PermissionDeniedError for a token of
    only some of them."""
    if not grant.is_account_wide:
        raise PermissionDeniedError(_DENIED)


def require_append(grant: Grant, batch: StoredBatch) -> None:
    """Each kind of command record needs its own operation, and data records theirs. Raises
    PermissionDeniedError."""
    if grant is FULL_GRANT:
        return
    needed = {_COMMAND_OPS[command.kind] for command in batch.commands}
    if batch.record_count > len(batch.commands):
        needed.add(Op.APPEND)
    require(grant, *needed)


_COMMAND_OPS: Final = {CommandKind.FENCE: Op.FENCE, CommandKind.TRIM: Op.TRIM}
assert _COMMAND_OPS.keys() == set(CommandKind), "every command record needs an operation"


def full_name(grant: Grant, stream: str, code: ErrorCode, operation: Operation) -> str:
    """The stream that the caller means. The rules of names that hold for the operation hold for
    the whole. Raises MalformedError with `code`."""
    if not grant.name_prefix:
        return stream
    name = grant.name_prefix + stream
    if not is_name_of_stream(operation, name):
        raise MalformedError(code, STREAM_NAME_RULE)
    return name
