"""The one table of endpoints, and the router by it."""

from __future__ import annotations

from typing import Final

from svc_cluster.gateway.endpoints.basin_endpoints import BASINS
from svc_cluster.gateway.endpoints.cluster_endpoints import CLUSTER
from svc_cluster.gateway.endpoints.location_endpoints import LOCATIONS
from svc_cluster.gateway.endpoints.probe_endpoints import PROBES
from svc_cluster.gateway.endpoints.record_endpoints import RECORDS
from svc_cluster.gateway.endpoints.stream_endpoints import STREAMS
from svc_cluster.gateway.endpoints.token_endpoints import TOKENS
from svc_cluster.gateway.endpoints.usage_endpoints import USAGE
from svc_cluster.gateway.request.router import Router

ENDPOINTS: Final = (
    *BASINS,
    *STREAMS,
    *RECORDS,
    *TOKENS,
    *LOCATIONS,
    *USAGE,
    *CLUSTER,
    *PROBES,
)
"""All there are."""

ROUTER: Final = Router(ENDPOINTS)
