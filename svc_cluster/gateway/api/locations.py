"""Locations: which there are, and which of them basins get that name none."""

from __future__ import annotations

from svc_cluster.codec.json_body import encode_object
from svc_cluster.codec.location_json import decode_location_name, location_to_json
from svc_cluster.gateway.api.auto_create import storage_class_default
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.request_token import write_key
from svc_cluster.gateway.request.negotiation import check_request_token
from svc_cluster.http.message import Response, json_response
from svc_cluster.model.location import Location


async def list_locations(call: Call) -> Response:
    locations, _ = await call.services.backend.locations()
    return json_response(200, encode_object([_told(call, each) for each in locations]))


async def get_default_location(call: Call) -> Response:
    _, default = await call.services.backend.locations()
    return json_response(200, encode_object(_told(call, default)))


async def set_default_location(call: Call) -> Response:
    """Basins that exist stay where they are."""
    token = check_request_token(call.request)
    body = await call.json_body()
    name = decode_location_name(body)
    call.subject.location = name
    chosen = await call.services.backend.set_default_location(
        name,
        request_key=write_key(call, token, body),
    )
    return json_response(200, encode_object(_told(call, chosen)))


def _told(call: Call, location: Location) -> dict[str, object]:
    return location_to_json(location, storage_class_default(call.dialect))
