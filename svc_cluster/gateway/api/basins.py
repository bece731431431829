"""Basins: create, ensure, reconfigure, list, configuration, delete."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.config_json import (
    CreateBasinJson,
    basin_config_from_json,
    basin_config_to_json,
    basin_info_to_json,
    unknown_in_basin,
)
from svc_cluster.codec.creation_hash import basin_creation_hash
from svc_cluster.codec.ensure_json import ensured_basin
from svc_cluster.codec.json_body import decode_object, encode_object
from svc_cluster.codec.json_list import page_steps
from svc_cluster.codec.location_json import checked_location
from svc_cluster.codec.reconfigure_json import decode_basin_patch
from svc_cluster.codec.replication_json import checked_factor
from svc_cluster.gateway.access.authorization import require
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.paging import ROW_BYTES
from svc_cluster.gateway.api.request_token import write_key
from svc_cluster.gateway.cluster.backend import BasinInfo, ProvisionedBasin
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import (
    PROVISION_RESULTS,
    Query,
    check_request_token,
    page_limit,
    page_range,
)
from svc_cluster.http.message import Headers, Request, Response, json_response
from svc_cluster.model import names
from svc_cluster.model.access import Op, visible
from svc_cluster.model.provision import Provision
from svc_cluster.model.stream_config import BasinConfig

_OUTCOMES: Final = {
    Provision.CREATED: "created",
    Provision.UPDATED: "updated",
    Provision.NOOP: "noop",
}


def provision_headers(dialect: Dialect, outcome: Provision) -> Headers:
    """The outcome by the name of each family; in the S2 dialect by its own. Rule: contract 9.1."""
    told = PROVISION_RESULTS[1:] if dialect is Dialect.S2 else PROVISION_RESULTS
    return [(name, _OUTCOMES[outcome]) for name in told]


def creation_token(request: Request) -> str | None:
    """What makes a create repeatable; None where there is none or it is empty."""
    return request.header("s2-request-token") or None


async def create_basin(call: Call) -> Response:
    """With a `s2-request-token` it can be repeated too."""
    token = check_request_token(call.request, creates=True)
    body = await call.json_body()
    alias = call.dialect is not Dialect.S2
    wire = decode_object(
        body,
        CreateBasinJson,
        strict=call.head.is_strict,
        without=unknown_in_basin(alias=alias),
    )
    if not names.is_basin_name(wire.basin):
        raise MalformedError(ErrorCode.BAD_JSON, names.not_a_basin_name(wire.basin))
    call.subject.basin = wire.basin
    require(call.caller.grant, Op.CREATE_BASIN, basin=wire.basin)
    location = None if wire.location is None else checked_location(wire.location)
    factor = checked_factor(wire.replication_factor)
    config = BasinConfig()
    if wire.config is not None:
        config = basin_config_from_json(wire.config, alias=alias)
    made = await call.services.backend.create_basin(
        wire.basin,
        config,
        basin_creation_hash(creation_token(call.request), config, location, factor),
        location=location,
        replication_factor=factor,
        asked_by=call.caller.asked_by,
        request_key=write_key(call, token, body, wire.basin),
    )
    return _provisioned(call, 201, made)


async def ensure_basin(call: Call) -> Response:
    """Replace the configuration as a whole; create the basin where there is none."""
    name = call.head.basin
    token = check_request_token(call.request)
    body = await call.json_body()
    alias = call.dialect is not Dialect.S2
    wanted = ensured_basin(body, alias=alias, strict=call.head.is_strict)
    location = None if wanted.location is None else checked_location(wanted.location)
    made = await call.services.backend.ensure_basin(
        name,
        wanted.config,
        wanted.storage_class,
        location=location,
        replication_factor=checked_factor(wanted.replication_factor),
        asked_by=call.caller.asked_by,
        request_key=write_key(call, token, body, name),
    )
    return _provisioned(call, 201 if made.outcome is Provision.CREATED else 200, made)


async def reconfigure_basin(call: Call) -> Response:
    """Change what is said and leave the rest alone."""
    name = call.head.basin
    token = check_request_token(call.request)
    alias = call.dialect is not Dialect.S2
    body = await call.json_body()
    patch = decode_basin_patch(body, alias=alias, strict=call.head.is_strict)
    config = await call.services.backend.reconfigure_basin(
        name,
        patch,
        request_key=write_key(call, token, body, name),
    )
    return json_response(200, encode_object(basin_config_to_json(config, alias=alias)))


def _provisioned(call: Call, status: int, made: ProvisionedBasin) -> Response:
    return json_response(
        status, encode_object(_info(made.info)), provision_headers(call.dialect, made.outcome)
    )


async def list_basins(call: Call) -> Response:
    query = Query(call.request.query)
    prefix, start_after = page_range(query, strict=call.dialect is Dialect.SEED)
    for name, value in (("prefix", prefix), ("start_after", start_after)):
        if not names.is_basin_prefix(value):
            raise MalformedError(
                ErrorCode.BAD_QUERY,
                f"{name} is not the beginning of a name: {names.BASIN_NAME_RULE}",
            )
    limit = page_limit(query)
    part = visible(call.caller.grant.basins, prefix)
    infos: list[BasinInfo] = []
    has_more = False
    if part is not None:
        infos, has_more = await call.services.backend.list_basins(part.prefix, start_after, limit)
        if part.only is not None:
            infos, has_more = [info for info in infos if info.name == part.only], False
    steps = page_steps("basins", map(_info, infos), has_more=has_more)
    return json_response(200, await call.services.turns.run(steps, ROW_BYTES * len(infos)))


async def get_basin_config(call: Call) -> Response:
    name = call.head.basin
    config = await call.services.backend.get_basin_config(name)
    body = basin_config_to_json(config, alias=call.dialect is not Dialect.S2)
    return json_response(200, encode_object(body))


async def delete_basin(call: Call) -> Response:
    name = call.head.basin
    token = check_request_token(call.request)
    await call.services.backend.delete_basin(
        name,
        request_key=write_key(call, token, b"", name),
    )
    return Response(202)


def _info(info: BasinInfo) -> dict[str, object]:
    return basin_info_to_json(info.name, info.created_at_ms, info.deleted_at_ms, info.location)
