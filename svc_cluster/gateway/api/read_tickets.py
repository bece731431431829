"""Read tickets are issued here. Nothing is kept of one, and the cluster is not asked."""

from __future__ import annotations

from svc_cluster.base.errors import InvalidError, PermissionDeniedError
from svc_cluster.base.telling import quoted
from svc_cluster.codec.config_json import rfc3339
from svc_cluster.codec.json_body import encode_object
from svc_cluster.codec.token_json import decode_ticket_request
from svc_cluster.gateway.access.authorization import require
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.request.caching import NO_STORE
from svc_cluster.http.message import Response, json_response
from svc_cluster.model import names
from svc_cluster.model.access import Grant, NameSet, Op, is_subset, under


async def issue_ticket(call: Call) -> Response:
    """Raises InvalidError where nobody is asked for a token. Whatever there is can be read there
    without a ticket."""
    request = decode_ticket_request(await call.json_body(), strict=call.head.is_strict)
    call.subject.basin = request.basin
    grant = call.caller.grant
    streams = _full_names(grant, request.streams)
    if not streams.is_prefix:
        call.subject.stream = streams.value
    _require(grant, request.basin, streams)
    text, ends_at_ms = call.caller.read_ticket(request.basin, streams, request.seconds)
    told = {"read_ticket": text, "expires_at": rfc3339(ends_at_ms)}
    return json_response(201, encode_object(told), [NO_STORE])


def _full_names(grant: Grant, streams: NameSet) -> NameSet:
    """The set with the prefix that the caller's token puts in front."""
    full = under(grant.name_prefix, streams)
    assert full is not None, "a set was given"
    is_name = names.is_stream_prefix if full.is_prefix else names.is_stream_name
    if not is_name(full.value):
        raise InvalidError("with its prefix the streams set has no stream name: over 512 bytes")
    return full


def _require(grant: Grant, basin: str, streams: NameSet) -> None:
    """Raises PermissionDeniedError for what the caller may not read itself, or not all of it."""
    if not streams.is_prefix:
        require(grant, Op.READ, basin=basin, stream=streams.value)
        return
    require(grant, Op.READ, basin=basin)
    if not is_subset(streams, grant.streams):
        told = quoted(streams.value.removeprefix(grant.name_prefix))
        raise PermissionDeniedError(
            f"the access token does not allow `read` on all streams with the prefix {told} of the "
            f"basin {quoted(basin)}"
        )
