"""Basins."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.api import basins
from svc_cluster.gateway.openapi.schemas import BASIN_PREFIX, nullable, ref
from svc_cluster.gateway.openapi.vocabulary import (
    BASIN_ERRORS,
    BODY_ERRORS,
    CREATE_TOKEN_HEADER,
    REQUEST_TOKEN_HEADER,
    page,
)
from svc_cluster.gateway.request.endpoint import Description, Endpoint, Names, Need, of_account
from svc_cluster.gateway.request.negotiation import PROVISION_RESULTS
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

BASINS: Final = (
    Endpoint(
        operation="list-basins",
        method="GET",
        paths=("/v1/basins",),
        handler=basins.list_basins,
        need=Need(Names.NONE, (Op.LIST_BASINS,)),
        counted=of_account(Op.LIST_BASINS),
        description=Description(
            summary="List basins in the order of their names",
            status=200,
            answer={JSON: ref("BasinList")},
            parameters=page(BASIN_PREFIX),
            seed_errors=(ErrorCode.INVALID,),
            errors=(ErrorCode.BAD_QUERY,),
        ),
    ),
    Endpoint(
        operation="create-basin",
        method="POST",
        paths=("/v1/basins",),
        handler=basins.create_basin,
        need=Need(Names.IN_BODY, (Op.CREATE_BASIN,)),
        is_audited=True,
        counted=of_account(Op.CREATE_BASIN),
        description=Description(
            summary="Create a basin",
            status=201,
            answer={JSON: ref("BasinInfo")},
            body={JSON: ref("CreateBasin")},
            parameters=(REQUEST_TOKEN_HEADER, CREATE_TOKEN_HEADER),
            errors=(
                *BODY_ERRORS,
                ErrorCode.RESOURCE_ALREADY_EXISTS,
                ErrorCode.BASIN_DELETION_PENDING,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
            answer_headers=PROVISION_RESULTS,
        ),
    ),
    Endpoint(
        operation="get-basin-config",
        method="GET",
        paths=("/v1/basins/{basin}",),
        handler=basins.get_basin_config,
        need=Need(Names.BASIN, (Op.GET_BASIN_CONFIG,)),
        counted=of_account(Op.GET_BASIN_CONFIG),
        description=Description(
            summary="The configuration of a basin",
            status=200,
            answer={JSON: ref("BasinConfig")},
            errors=(ErrorCode.BAD_PATH, ErrorCode.BASIN_NOT_FOUND),
        ),
    ),
    Endpoint(
        operation="ensure-basin",
        method="PUT",
        paths=("/v1/basins/{basin}",),
        handler=basins.ensure_basin,
        need=Need(Names.BASIN, (Op.CREATE_BASIN, Op.RECONFIGURE_BASIN)),
        is_audited=True,
        counted=of_account(Op.RECONFIGURE_BASIN, creating=Op.CREATE_BASIN),
        description=Description(
            summary="Create a basin, or replace its configuration as a whole",
            status=200,
            further_status=201,
            answer={JSON: ref("BasinInfo")},
            body={JSON: nullable(ref("EnsureBasin"))},
            body_is_optional=True,
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(
                *BODY_ERRORS,
                ErrorCode.BAD_PATH,
                ErrorCode.BASIN_DELETION_PENDING,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
            answer_headers=PROVISION_RESULTS,
        ),
    ),
    Endpoint(
        operation="reconfigure-basin",
        method="PATCH",
        paths=("/v1/basins/{basin}",),
        handler=basins.reconfigure_basin,
        need=Need(Names.BASIN, (Op.RECONFIGURE_BASIN,)),
        is_audited=True,
        counted=of_account(Op.RECONFIGURE_BASIN),
        description=Description(
            summary="Change parts of a basin's configuration",
            status=200,
            answer={JSON: ref("BasinConfig")},
            body={JSON: ref("BasinReconfiguration")},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(
                *BODY_ERRORS,
                ErrorCode.BAD_PATH,
                *BASIN_ERRORS,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
        ),
    ),
    Endpoint(
        operation="delete-basin",
        method="DELETE",
        paths=("/v1/basins/{basin}",),
        handler=basins.delete_basin,
        need=Need(Names.BASIN, (Op.DELETE_BASIN,)),
        is_audited=True,
        counted=of_account(Op.DELETE_BASIN),
        description=Description(
            summary="Delete a basin with all its streams",
            status=202,
            answer={},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(
                ErrorCode.BAD_PATH,
                ErrorCode.BASIN_NOT_FOUND,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
        ),
    ),
)
