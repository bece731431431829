"""The checks by what an endpoint needs.

Whoever may not do a thing is told so before anything is looked up: a refusal is the same whether or
not what was asked for exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError, PermissionDeniedError
from svc_cluster.base.telling import listed, quoted
from svc_cluster.gateway.request.endpoint import Endpoint, Names
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.request.router import Match
from svc_cluster.model import names
from svc_cluster.model.access import EVERYTHING, FULL_GRANT, Grant, Op, is_subset
from svc_cluster.model.record import CommandKind, StoredBatch


def authorize(grant: Grant, match: Match, head: RequestHead) -> Match:
    """The match with the stream's full name. Raises PermissionDeniedError, and MalformedError where
    the request does not say which basin it means or a name gets too long."""
    need = match.endpoint.need
    if grant is FULL_GRANT or need is None:
        return match
    if not grant.allows(need.all_of):
        missing = [op for op in need.all_of if op not in grant.operations]
        raise _denied(missing, _place(match, head))
    if need.any_of and grant.operations.isdisjoint(need.any_of):
        raise _denied(need.any_of, _place(match, head))
    needed = (*need.all_of, *need.any_of)
    is_in_basin = need.is_of_stream or need.names is Names.BASIN
    if is_in_basin and not grant.allows(basin=head.basin):
        raise _denied(needed, _place(match, head))
    if need.names is Names.STREAM:
        assert match.stream is not None, "the route has a stream in its path"
        stream = full_name(grant, match.stream, ErrorCode.BAD_PATH, match.endpoint)
        if not grant.allows(stream=stream):
            raise _denied(needed, _place(match, head))
        return match if stream == match.stream else replace(match, stream=stream)
    if need.names is Names.ACCOUNT:
        require_account(grant, *needed)
    if need.names is Names.TOKEN and not grant.allows(token_id=match.token_id):
        raise _denied(needed, _place(match, head))
    return match


def require(
    grant: Grant,
    operation: Op,
    *,
    basin: str | None = None,
    stream: str | None = None,
    token_id: str | None = None,
) -> None:
    """Raises PermissionDeniedError, which names the operation and what the caller named. `stream`
    is the full name; it is told without the prefix that the caller's token puts in front."""
    if not grant.allows((operation,), basin=basin, stream=stream, token_id=token_id):
        named = None if stream is None else stream.removeprefix(grant.name_prefix)
        raise _denied([operation], _told(basin, named, token_id))


def require_account(grant: Grant, *operations: Op) -> None:
    """For what tells of or changes all basins together. Raises PermissionDeniedError for a token of
    only some of them."""
    if not grant.is_account_wide:
        raise _denied(operations, " on all basins together")


def require_everything(grant: Grant, *operations: Op) -> None:
    """For what names basins, streams and access tokens, whichever they are. Raises
    PermissionDeniedError for a token that does not see all of them."""
    require_account(grant, *operations)
    if grant.name_prefix or not all(
        is_subset(EVERYTHING, names) for names in (grant.streams, grant.access_tokens)
    ):
        raise _denied(operations, " on all streams and access tokens together")


def require_append(grant: Grant, batch: StoredBatch, stream: str) -> None:
    """Each kind of command record needs its own operation, and data records theirs. Raises
    PermissionDeniedError."""
    if grant is FULL_GRANT or (not batch.commands and Op.APPEND in grant.operations):
        return
    needed = {_COMMAND_OPS[command.kind] for command in batch.commands}
    if batch.record_count > len(batch.commands):
        needed.add(Op.APPEND)
    missing = needed - grant.operations
    if missing:
        named = stream.removeprefix(grant.name_prefix)
        raise _denied(sorted(missing, key=lambda op: op.value), _told(None, named, None))


def _denied(operations: Iterable[Op], place: str) -> PermissionDeniedError:
    """What is told: the operations, of which the caller may not do all, and what it named."""
    told = listed([operation.value for operation in operations])
    return PermissionDeniedError(f"the access token does not allow {told}{place}")


def _place(match: Match, head: RequestHead) -> str:
    """What the request names by itself; the stream as the caller calls it."""
    basin = match.basin
    need = match.endpoint.need
    if need is not None and need.is_of_stream:
        try:
            basin = head.basin
        except MalformedError:
            basin = None
    return _told(basin, match.stream, match.token_id)


def _told(basin: str | None, stream: str | None, token_id: str | None) -> str:
    if token_id is not None:
        return f" on the access token {quoted(token_id)}"
    within = "" if basin is None else f" the basin {quoted(basin)}"
    if stream is not None:
        return f" on the stream {quoted(stream)}" + (within and f" of{within}")
    return within and f" on{within}"


_COMMAND_OPS: Final = {CommandKind.FENCE: Op.FENCE, CommandKind.TRIM: Op.TRIM}
assert _COMMAND_OPS.keys() == set(CommandKind), "every command record needs an operation"


def full_name(grant: Grant, stream: str, code: ErrorCode, endpoint: Endpoint) -> str:
    """The stream that the caller means. The rules of names that hold for the endpoint hold for the
    whole. Raises MalformedError with `code`."""
    if not grant.name_prefix:
        return stream
    name = grant.name_prefix + stream
    if not endpoint.is_name_of_stream(name):
        raise MalformedError(code, f"with the prefix of the access token: {names.STREAM_NAME_RULE}")
    return name
