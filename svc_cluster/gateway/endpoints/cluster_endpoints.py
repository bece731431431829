"""The cluster as a whole, for who may do with all of it."""

from __future__ import annotations

from typing import Final

from svc_cluster.gateway.api import cluster
from svc_cluster.gateway.openapi.schemas import ref
from svc_cluster.gateway.request.endpoint import Description, Endpoint, Names, Need, of_account
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

CLUSTER: Final = (
    Endpoint(
        operation="get-cluster",
        method="GET",
        paths=("/v1/cluster",),
        handler=cluster.cluster,
        need=Need(Names.ACCOUNT, (Op.LIST_BASINS, Op.ACCOUNT_METRICS)),
        counted=of_account(Op.ACCOUNT_METRICS),
        description=Description(
            summary="The nodes as they are now, and which basins each of them leads",
            status=200,
            answer={JSON: ref("Cluster")},
        ),
    ),
    Endpoint(
        operation="list-activity",
        method="GET",
        paths=("/v1/activity",),
        handler=cluster.activity,
        need=Need(Names.ACCOUNT, (Op.LIST_BASINS, Op.LIST_ACCESS_TOKENS, Op.ACCOUNT_METRICS)),
        counted=of_account(Op.LIST_ACCESS_TOKENS),
        description=Description(
            summary="The newest events of this gateway's audit log, the newest first",
            status=200,
            answer={JSON: ref("Activity")},
        ),
    ),
)
