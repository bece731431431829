"""Basins: create, list, configuration, delete."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import (
    ErrorCode,
    InvalidError,
    MalformedError,
    NotImplementedYetError,
)
from svc_cluster.codec.config_json import (
    CreateBasinJson,
    basin_config_from_json,
    basin_config_to_json,
    basin_info_to_json,
)
from svc_cluster.codec.json_body import decode_object, encode_object
from svc_cluster.gateway.backend import BasinInfo
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.message import Response, json_response
from svc_cluster.gateway.http.negotiation import (
    BASIN_NAME_RULE,
    Query,
    basin_of,
    check_request_token,
    json_body,
    page_limit,
    page_range,
)
from svc_cluster.model import names
from svc_cluster.model.stream_config import BasinConfig

PROVISION_RESULT: Final = "s2-provision-result"


def provision_header(*, existed: bool) -> tuple[str, str]:
    return (PROVISION_RESULT, "noop" if existed else "created")


async def create_basin(call: Call) -> Response:
    check_request_token(call.request, creates=True)
    wire = decode_object(await json_body(call.request), CreateBasinJson)
    if not names.is_basin_name(wire.basin):
        raise MalformedError(ErrorCode.BAD_JSON, BASIN_NAME_RULE)
    if wire.location is not None:
        raise InvalidError("there is no such location")
    config = BasinConfig()
    if wire.config is not None:
        config = basin_config_from_json(wire.config, alias=call.dialect is not Dialect.S2)
    if config.stream_cipher is not None:
        # To store the wish and then keep records in the clear would be worse than to refuse.
        raise NotImplementedYetError("stream_cipher is not served yet")
    created = await call.services.backend.create_basin(wire.basin, config)
    assert isinstance(created.info, BasinInfo), "creating a basin answers with a basin"
    body = encode_object(_info(created.info))
    return json_response(201, body, [provision_header(existed=created.existed)])


async def list_basins(call: Call) -> Response:
    query = Query(call.request.query)
    prefix, start_after = page_range(query, strict=call.dialect is Dialect.SEED)
    for name, value in (("prefix", prefix), ("start_after", start_after)):
        if not names.is_basin_prefix(value):
            raise MalformedError(ErrorCode.BAD_QUERY, f"{name} is not the beginning of a name")
    infos, has_more = await call.services.backend.list_basins(
        prefix, start_after, page_limit(query)
    )
    body = {"basins": [_info(info) for info in infos], "has_more": has_more}
    return json_response(200, encode_object(body))


async def get_basin_config(call: Call) -> Response:
    name = basin_of(call.request, call.match.basin)
    config = await call.services.backend.get_basin_config(name)
    body = basin_config_to_json(config, alias=call.dialect is not Dialect.S2)
    return json_response(200, encode_object(body))


async def delete_basin(call: Call) -> Response:
    name = basin_of(call.request, call.match.basin)
    check_request_token(call.request)
    await call.services.backend.delete_basin(name)
    return Response(202)


def _info(info: BasinInfo) -> dict[str, object]:
    return basin_info_to_json(info.name, info.created_at_ms, info.deleted_at_ms, info.location)
