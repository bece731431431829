"""Streams: create, list, configuration, delete."""

from __future__ import annotations

from dataclasses import replace

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.config_json import (
    S2_STORAGE_CLASS_DEFAULT,
    CreateStreamJson,
    stream_config_from_json,
    stream_config_to_json,
    stream_info_to_json,
)
from svc_cluster.codec.json_body import decode_object, encode_object
from svc_cluster.gateway.backend import StreamInfo
from svc_cluster.gateway.handlers.basins import provision_header
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.message import Response, json_response
from svc_cluster.gateway.http.negotiation import (
    STREAM_NAME_RULE,
    Query,
    basin_of,
    check_request_token,
    json_body,
    page_limit,
    page_range,
)
from svc_cluster.model import names
from svc_cluster.model.stream_config import PartialStreamConfig


async def create_stream(call: Call) -> Response:
    basin = basin_of(call.request, call.match.basin)
    check_request_token(call.request, creates=True)
    wire = decode_object(await json_body(call.request), CreateStreamJson)
    if not names.is_stream_name(wire.stream):
        raise MalformedError(ErrorCode.BAD_JSON, STREAM_NAME_RULE)
    config = None if wire.config is None else stream_config_from_json(wire.config)
    if call.dialect is Dialect.S2:
        config = await _with_s2_storage_class(call, basin, config or PartialStreamConfig())
    created = await call.services.backend.create_stream(basin, wire.stream, config)
    assert isinstance(created.info, StreamInfo), "creating a stream answers with a stream"
    body = encode_object(_info(created.info))
    return json_response(201, body, [provision_header(existed=created.existed)])


async def _with_s2_storage_class(
    call: Call, basin: str, config: PartialStreamConfig
) -> PartialStreamConfig:
    """The dialect's own default, where neither the request nor the basin names a class. Behind
    the gateway there is one default for all."""
    if config.storage_class is not None:
        return config
    default = (await call.services.backend.get_basin_config(basin)).default_stream_config
    if default is not None and default.storage_class is not None:
        return config
    return replace(config, storage_class=S2_STORAGE_CLASS_DEFAULT)


async def list_streams(call: Call) -> Response:
    basin = basin_of(call.request, call.match.basin)
    query = Query(call.request.query)
    prefix, start_after = page_range(query, strict=call.dialect is Dialect.SEED)
    for name, value in (("prefix", prefix), ("start_after", start_after)):
        if not names.is_stream_prefix(value):
            raise MalformedError(ErrorCode.BAD_QUERY, f"{name} has at most 512 bytes")
    infos, has_more = await call.services.backend.list_streams(
        basin, prefix, start_after, page_limit(query)
    )
    body = {"streams": [_info(info) for info in infos], "has_more": has_more}
    return json_response(200, encode_object(body))


async def get_stream_config(call: Call) -> Response:
    basin = basin_of(call.request, call.match.basin)
    assert call.match.stream is not None, "the route has a stream in its path"
    config = await call.services.backend.get_stream_config(basin, call.match.stream)
    return json_response(200, encode_object(stream_config_to_json(config)))


async def delete_stream(call: Call) -> Response:
    basin = basin_of(call.request, call.match.basin)
    assert call.match.stream is not None, "the route has a stream in its path"
    check_request_token(call.request)
    await call.services.backend.delete_stream(basin, call.match.stream)
    return Response(202)


def _info(info: StreamInfo) -> dict[str, object]:
    return stream_info_to_json(info.name, info.created_at_ms, info.deleted_at_ms, info.cipher)
