"""Locations."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.api import locations
from svc_cluster.gateway.openapi.schemas import LOCATION_NAME, ref
from svc_cluster.gateway.openapi.vocabulary import BODY_ERRORS, REQUEST_TOKEN_HEADER
from svc_cluster.gateway.request.endpoint import Description, Endpoint, Names, Need, of_account
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

LOCATIONS: Final = (
    Endpoint(
        operation="list-locations",
        method="GET",
        paths=("/v1/locations",),
        handler=locations.list_locations,
        need=Need(Names.NONE, (Op.LIST_LOCATIONS,)),
        counted=of_account(Op.LIST_LOCATIONS),
        description=Description(
            summary="List the locations that basins can have",
            status=200,
            answer={JSON: {"type": "array", "items": ref("Location"), "minItems": 1}},
        ),
    ),
    Endpoint(
        operation="get-default-location",
        method="GET",
        paths=("/v1/locations/default",),
        handler=locations.get_default_location,
        need=Need(Names.NONE, (Op.GET_DEFAULT_LOCATION,)),
        counted=of_account(Op.GET_DEFAULT_LOCATION),
        description=Description(
            summary="The location of new basins that name none",
            status=200,
            answer={JSON: ref("Location")},
        ),
    ),
    Endpoint(
        operation="set-default-location",
        method="PUT",
        paths=("/v1/locations/default",),
        handler=locations.set_default_location,
        need=Need(Names.ACCOUNT, (Op.SET_DEFAULT_LOCATION,)),
        is_audited=True,
        counted=of_account(Op.SET_DEFAULT_LOCATION),
        description=Description(
            summary="Choose the location of new basins that name none",
            status=200,
            answer={JSON: ref("Location")},
            body={JSON: LOCATION_NAME},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(*BODY_ERRORS, ErrorCode.TRANSACTION_CONFLICT),
        ),
    ),
)
