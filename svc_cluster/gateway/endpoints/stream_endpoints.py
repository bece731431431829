"""Streams."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.api import streams
from svc_cluster.gateway.openapi.schemas import STREAM_PREFIX, nullable, ref
from svc_cluster.gateway.openapi.vocabulary import (
    BASIN_ERRORS,
    BODY_ERRORS,
    CREATE_TOKEN_HEADER,
    REQUEST_TOKEN_HEADER,
    STREAM_ERRORS,
    page,
)
from svc_cluster.gateway.request.endpoint import Description, Endpoint, Names, Need, of_basin
from svc_cluster.gateway.request.negotiation import PROVISION_RESULTS
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

STREAMS: Final = (
    Endpoint(
        operation="list-streams",
        method="GET",
        paths=("/v1/streams", "/v1/basins/{basin}/streams"),
        handler=streams.list_streams,
        need=Need(Names.BASIN, (Op.LIST_STREAMS,)),
        counted=of_basin(Op.LIST_STREAMS),
        description=Description(
            summary="List a basin's streams in the order of their names",
            status=200,
            answer={JSON: ref("StreamList")},
            parameters=page(STREAM_PREFIX),
            seed_errors=(ErrorCode.INVALID,),
            errors=(ErrorCode.BAD_QUERY, ErrorCode.BASIN_NOT_FOUND),
        ),
    ),
    Endpoint(
        operation="create-stream",
        method="POST",
        paths=("/v1/streams", "/v1/basins/{basin}/streams"),
        handler=streams.create_stream,
        need=Need(Names.IN_BODY, (Op.CREATE_STREAM,), basin_beside=True),
        is_audited=True,
        counted=of_basin(Op.CREATE_STREAM),
        description=Description(
            summary="Create a stream",
            status=201,
            answer={JSON: ref("StreamInfo")},
            body={JSON: ref("CreateStream")},
            parameters=(REQUEST_TOKEN_HEADER, CREATE_TOKEN_HEADER),
            errors=(
                *BODY_ERRORS,
                *BASIN_ERRORS,
                ErrorCode.STREAM_DELETION_PENDING,
                ErrorCode.RESOURCE_ALREADY_EXISTS,
            ),
            answer_headers=PROVISION_RESULTS,
        ),
    ),
    Endpoint(
        operation="get-stream-config",
        method="GET",
        paths=("/v1/streams/{stream}", "/v1/basins/{basin}/streams/{stream}"),
        handler=streams.get_stream_config,
        need=Need(Names.STREAM, (Op.GET_STREAM_CONFIG,)),
        counted=of_basin(Op.GET_STREAM_CONFIG),
        takes_stored_names=True,
        description=Description(
            summary="The configuration of a stream",
            status=200,
            answer={JSON: ref("StreamConfig")},
            errors=(
                ErrorCode.BAD_PATH,
                ErrorCode.BASIN_NOT_FOUND,
                ErrorCode.STREAM_NOT_FOUND,
                ErrorCode.STREAM_DELETION_PENDING,
            ),
        ),
    ),
    Endpoint(
        operation="ensure-stream",
        method="PUT",
        paths=("/v1/streams/{stream}", "/v1/basins/{basin}/streams/{stream}"),
        handler=streams.ensure_stream,
        need=Need(Names.STREAM, (Op.CREATE_STREAM, Op.RECONFIGURE_STREAM)),
        is_audited=True,
        counted=of_basin(Op.RECONFIGURE_STREAM, creating=Op.CREATE_STREAM),
        description=Description(
            summary="Create a stream, or replace its configuration as a whole",
            status=200,
            further_status=201,
            answer={JSON: ref("StreamInfo")},
            body={JSON: nullable(ref("EnsureStream"))},
            body_is_optional=True,
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(
                *BODY_ERRORS,
                ErrorCode.BAD_PATH,
                *BASIN_ERRORS,
                ErrorCode.STREAM_DELETION_PENDING,
            ),
            answer_headers=PROVISION_RESULTS,
        ),
    ),
    Endpoint(
        operation="reconfigure-stream",
        method="PATCH",
        paths=("/v1/streams/{stream}", "/v1/basins/{basin}/streams/{stream}"),
        handler=streams.reconfigure_stream,
        need=Need(Names.STREAM, (Op.RECONFIGURE_STREAM,)),
        is_audited=True,
        counted=of_basin(Op.RECONFIGURE_STREAM),
        description=Description(
            summary="Change parts of a stream's configuration",
            status=200,
            answer={JSON: ref("StreamConfig")},
            body={JSON: ref("PartialStreamConfig")},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(*BODY_ERRORS, ErrorCode.BAD_PATH, *STREAM_ERRORS),
        ),
    ),
    Endpoint(
        operation="delete-stream",
        method="DELETE",
        paths=("/v1/streams/{stream}", "/v1/basins/{basin}/streams/{stream}"),
        handler=streams.delete_stream,
        need=Need(Names.STREAM, (Op.DELETE_STREAM,)),
        is_audited=True,
        counted=of_basin(Op.DELETE_STREAM),
        takes_stored_names=True,
        description=Description(
            summary="Delete a stream with all its records",
            status=202,
            answer={},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(ErrorCode.BAD_PATH, *STREAM_ERRORS),
        ),
    ),
)
