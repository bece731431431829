"""Streams: create, ensure, reconfigure, list, configuration, delete."""

from __future__ import annotations

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.config_json import (
    CreateStreamJson,
    stream_config_from_json,
    stream_config_to_json,
    stream_info_to_json,
)
from svc_cluster.codec.creation_hash import stream_creation_hash
from svc_cluster.codec.ensure_json import ensured_stream
from svc_cluster.codec.json_body import decode_object, encode_object
from svc_cluster.codec.json_list import page_steps
from svc_cluster.codec.reconfigure_json import decode_stream_patch
from svc_cluster.gateway.access.authorization import full_name, require
from svc_cluster.gateway.api.auto_create import storage_class_default
from svc_cluster.gateway.api.basins import creation_token, provision_headers
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.paging import PAGE_MAX, ROW_BYTES, with_usable_end
from svc_cluster.gateway.api.request_token import write_key
from svc_cluster.gateway.cluster.backend import ProvisionedStream, StreamInfo
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import (
    Query,
    check_request_token,
    page_limit,
    page_range,
)
from svc_cluster.http.message import Response, json_response
from svc_cluster.model import names
from svc_cluster.model.access import Op, visible
from svc_cluster.model.provision import Provision
from svc_cluster.model.stream_config import NewStream


async def create_stream(call: Call) -> Response:
    """With a `s2-request-token` it can be repeated too."""
    basin = call.head.basin
    token = check_request_token(call.request, creates=True)
    body = await call.json_body()
    wire = decode_object(body, CreateStreamJson, strict=call.head.is_strict)
    if not names.is_stream_name(wire.stream):
        raise MalformedError(ErrorCode.BAD_JSON, names.not_a_stream_name(wire.stream))
    stream = full_name(call.caller.grant, wire.stream, ErrorCode.BAD_JSON, call.match.endpoint)
    call.subject.stream = stream
    require(call.caller.grant, Op.CREATE_STREAM, stream=stream)
    config = None if wire.config is None else stream_config_from_json(wire.config)
    made = await call.services.backend.create_stream(
        basin,
        stream,
        NewStream(config, storage_class_default(call.dialect)),
        stream_creation_hash(creation_token(call.request), config),
        request_key=write_key(call, token, body, basin, stream),
    )
    return _provisioned(call, 201, made)


async def ensure_stream(call: Call) -> Response:
    """Replace the configuration as a whole; create the stream where there is none."""
    basin, stream = _names(call)
    token = check_request_token(call.request)
    body = await call.json_body()
    config = ensured_stream(body, strict=call.head.is_strict)
    new = NewStream(config, storage_class_default(call.dialect))
    made = await call.services.backend.ensure_stream(
        basin,
        stream,
        new,
        request_key=write_key(call, token, body, basin, stream),
    )
    return _provisioned(call, 201 if made.outcome is Provision.CREATED else 200, made)


async def reconfigure_stream(call: Call) -> Response:
    """Change what is said and leave the rest alone."""
    basin, stream = _names(call)
    token = check_request_token(call.request)
    body = await call.json_body()
    patch = decode_stream_patch(body, strict=call.head.is_strict)
    config = await call.services.backend.reconfigure_stream(
        basin,
        stream,
        patch,
        storage_class_default(call.dialect),
        request_key=write_key(call, token, body, basin, stream),
    )
    return json_response(200, encode_object(stream_config_to_json(config)))


async def list_streams(call: Call) -> Response:
    basin = call.head.basin
    query = Query(call.request.query)
    prefix, start_after = page_range(query, strict=call.dialect is Dialect.SEED)
    for name, value in (("prefix", prefix), ("start_after", start_after)):
        if not names.is_stream_prefix(value):
            raise MalformedError(
                ErrorCode.BAD_QUERY, names.not_a_prefix(name, value, names.STREAM_NAME_BYTES_MAX)
            )
    infos, has_more = await _page(call, basin, prefix, start_after, page_limit(query))
    steps = page_steps("streams", (_info(call, info) for info in infos), has_more=has_more)
    return json_response(200, await call.services.turns.run(steps, ROW_BYTES * len(infos)))


async def _page(
    call: Call, basin: str, prefix: str, start_after: str, limit: int
) -> tuple[list[StreamInfo], bool]:
    """What the caller may see of the streams that are asked for, in its own names."""
    grant, backend = call.caller.grant, call.services.backend
    part = visible(grant.streams, grant.name_prefix + prefix)
    if part is None:
        await backend.get_basin_config(basin)  # raises where there is none
        return [], False
    behind = grant.name_prefix + start_after if start_after else ""
    infos, has_more = await backend.list_streams(basin, part.prefix, behind, limit)
    if part.only is not None:
        return [info for info in infos if info.name == part.only], False

    async def page_behind(name: str) -> tuple[list[StreamInfo], bool]:
        return await backend.list_streams(basin, part.prefix, name, PAGE_MAX)

    return await with_usable_end(
        infos, has_more, lambda info: call.caller.shown(info.name), page_behind
    )


async def get_stream_config(call: Call) -> Response:
    basin, stream = _names(call)
    config = await call.services.backend.get_stream_config(basin, stream)
    return json_response(200, encode_object(stream_config_to_json(config)))


async def delete_stream(call: Call) -> Response:
    basin, stream = _names(call)
    token = check_request_token(call.request)
    await call.services.backend.delete_stream(
        basin,
        stream,
        request_key=write_key(call, token, b"", basin, stream),
    )
    return Response(202)


def _names(call: Call) -> tuple[str, str]:
    assert call.match.stream is not None, "the route has a stream in its path"
    return call.head.basin, call.match.stream


def _provisioned(call: Call, status: int, made: ProvisionedStream) -> Response:
    body = encode_object(_info(call, made.info))
    return json_response(status, body, provision_headers(call.dialect, made.outcome))


def _info(call: Call, info: StreamInfo) -> dict[str, object]:
    name = call.caller.shown(info.name)
    return stream_info_to_json(name, info.created_at_ms, info.deleted_at_ms, info.cipher)
