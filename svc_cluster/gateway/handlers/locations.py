"""Locations: which there are, and which of them basins get that name none."""

from __future__ import annotations

from svc_cluster.codec.json_body import encode_object
from svc_cluster.codec.location_json import decode_location_name, location_to_json
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.handlers.repeating import writer
from svc_cluster.gateway.http.message import Response, json_response
from svc_cluster.gateway.http.negotiation import check_request_token, json_body


async def list_locations(call: Call) -> Response:
    locations, _ = await call.services.backend.locations()
    return json_response(200, encode_object([location_to_json(each) for each in locations]))


async def get_default_location(call: Call) -> Response:
    _, default = await call.services.backend.locations()
    return json_response(200, encode_object(location_to_json(default)))


async def set_default_location(call: Call) -> Response:
    """Basins that exist stay where they are."""
    token = check_request_token(call.request)
    body = await json_body(call.request)
    name = decode_location_name(body)
    call.subject.location = name
    chosen = await writer(call, token, body).set_default_location(name)
    return json_response(200, encode_object(location_to_json(chosen)))
