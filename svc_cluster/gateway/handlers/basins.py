"""Basins: create, ensure, reconfigure, list, configuration, delete."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.config_json import (
    CreateBasinJson,
    basin_config_from_json,
    basin_config_to_json,
    basin_info_to_json,
)
from svc_cluster.codec.creation_hash import basin_creation_hash
from svc_cluster.codec.ensure_json import ensured_basin
from svc_cluster.codec.json_body import decode_object, encode_object
from svc_cluster.codec.location_json import checked_location
from svc_cluster.codec.reconfigure_json import decode_basin_patch
from svc_cluster.gateway.authorization import require
from svc_cluster.gateway.backend import BasinInfo, ProvisionedBasin
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.handlers.repeating import writer
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.message import Request, Response, json_response
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
from svc_cluster.model.access import visible
from svc_cluster.model.provision import Provision
from svc_cluster.model.stream_config import BasinConfig

PROVISION_RESULT: Final = "s2-provision-result"


_OUTCOMES: Final = {
    Provision.CREATED: "created",
    Provision.UPDATED: "updated",
    Provision.NOOP: "noop",
}


def provision_header(outcome: Provision) -> tuple[str, str]:
    return (PROVISION_RESULT, _OUTCOMES[outcome])


def creation_token(request: Request) -> str | None:
    """What makes a create repeatable; None where there is none or it is empty."""
    return request.header("s2-request-token") or None


async def create_basin(call: Call) -> Response:
    """With a `s2-request-token` it can be repeated too."""
    token = check_request_token(call.request, creates=True)
    body = await json_body(call.request)
    wire = decode_object(body, CreateBasinJson)
    if not names.is_basin_name(wire.basin):
        raise MalformedError(ErrorCode.BAD_JSON, BASIN_NAME_RULE)
    call.subject.basin = wire.basin
    require(call.caller.grant, basin=wire.basin)
    location = None if wire.location is None else checked_location(wire.location)
    config = BasinConfig()
    if wire.config is not None:
        config = basin_config_from_json(wire.config, alias=call.dialect is not Dialect.S2)
    made = await writer(call, token, body, wire.basin).create_basin(
        wire.basin,
        config,
        basin_creation_hash(creation_token(call.request), config, location),
        location=location,
        asked_by=call.caller.asked_by,
    )
    return _provisioned(201, made)


async def ensure_basin(call: Call) -> Response:
    """Replace the configuration as a whole; create the basin where there is none."""
    name = basin_of(call.request, call.match.basin)
    token = check_request_token(call.request)
    body = await json_body(call.request)
    wanted = ensured_basin(body, alias=call.dialect is not Dialect.S2)
    location = None if wanted.location is None else checked_location(wanted.location)
    made = await writer(call, token, body, name).ensure_basin(
        name,
        wanted.config,
        wanted.storage_class,
        location=location,
        asked_by=call.caller.asked_by,
    )
    return _provisioned(201 if made.outcome is Provision.CREATED else 200, made)


async def reconfigure_basin(call: Call) -> Response:
    """Change what is said and leave the rest alone."""
    name = basin_of(call.request, call.match.basin)
    token = check_request_token(call.request)
    alias = call.dialect is not Dialect.S2
    body = await json_body(call.request)
    patch = decode_basin_patch(body, alias=alias)
    config = await writer(call, token, body, name).reconfigure_basin(name, patch)
    return json_response(200, encode_object(basin_config_to_json(config, alias=alias)))


def _provisioned(status: int, made: ProvisionedBasin) -> Response:
    return json_response(status, encode_object(_info(made.info)), [provision_header(made.outcome)])


async def list_basins(call: Call) -> Response:
    query = Query(call.request.query)
    prefix, start_after = page_range(query, strict=call.dialect is Dialect.SEED)
    for name, value in (("prefix", prefix), ("start_after", start_after)):
        if not names.is_basin_prefix(value):
            raise MalformedError(ErrorCode.BAD_QUERY, f"{name} is not the beginning of a name")
    limit = page_limit(query)
    part = visible(call.caller.grant.basins, prefix)
    infos: list[BasinInfo] = []
    has_more = False
    if part is not None:
        infos, has_more = await call.services.backend.list_basins(part.prefix, start_after, limit)
        if part.only is not None:
            infos, has_more = [info for info in infos if info.name == part.only], False
    body = {"basins": [_info(info) for info in infos], "has_more": has_more}
    return json_response(200, encode_object(body))


async def get_basin_config(call: Call) -> Response:
    name = basin_of(call.request, call.match.basin)
    config = await call.services.backend.get_basin_config(name)
    body = basin_config_to_json(config, alias=call.dialect is not Dialect.S2)
    return json_response(200, encode_object(body))


async def delete_basin(call: Call) -> Response:
    name = basin_of(call.request, call.match.basin)
    token = check_request_token(call.request)
    await writer(call, token, b"", name).delete_basin(name)
    return Response(202)


def _info(info: BasinInfo) -> dict[str, object]:
    return basin_info_to_json(info.name, info.created_at_ms, info.deleted_at_ms, info.location)
