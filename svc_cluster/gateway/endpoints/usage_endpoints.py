"""What was made use of."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.api import usage_series
from svc_cluster.gateway.openapi.schemas import ref
from svc_cluster.gateway.openapi.vocabulary import USAGE_ERRORS, of_usage
from svc_cluster.gateway.request.endpoint import (
    Description,
    Endpoint,
    Names,
    Need,
    of_account,
    of_basin,
)
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

USAGE: Final = (
    Endpoint(
        operation="account-metrics",
        method="GET",
        paths=("/v1/metrics",),
        handler=usage_series.account_metrics,
        # active basins are cut to the set, and the operations of all need `require_account`
        need=Need(Names.NONE, (Op.ACCOUNT_METRICS,)),
        counted=of_account(Op.ACCOUNT_METRICS),
        description=Description(
            summary="What the account was used for",
            status=200,
            answer={JSON: ref("Metrics")},
            parameters=of_usage("active-basins", "account-ops", "estimated-billable-usage"),
            errors=(*USAGE_ERRORS, ErrorCode.NOT_IMPLEMENTED),
        ),
    ),
    Endpoint(
        operation="basin-metrics",
        method="GET",
        paths=("/v1/metrics/{basin}",),
        handler=usage_series.basin_metrics,
        need=Need(Names.BASIN, (Op.BASIN_METRICS,)),
        counted=of_basin(Op.BASIN_METRICS),
        description=Description(
            summary="What a basin was used for; what does not exist was not used",
            status=200,
            answer={JSON: ref("Metrics")},
            parameters=of_usage(
                "storage",
                "append-ops",
                "read-ops",
                "read-throughput",
                "append-throughput",
                "basin-ops",
            ),
            errors=USAGE_ERRORS,
        ),
    ),
    Endpoint(
        operation="stream-metrics",
        method="GET",
        paths=("/v1/metrics/{basin}/{stream}",),
        handler=usage_series.stream_metrics,
        need=Need(Names.STREAM, (Op.STREAM_METRICS,)),
        counted=of_basin(Op.STREAM_METRICS),
        takes_stored_names=True,
        description=Description(
            summary="What a stream stores; what does not exist stores nothing",
            status=200,
            answer={JSON: ref("Metrics")},
            parameters=of_usage("storage"),
            errors=USAGE_ERRORS,
        ),
    ),
)
