"""What probes and scrapers ask, and the description of the interface: for everybody."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.api import console, health
from svc_cluster.gateway.openapi.media_schemas import PROTO_PATH
from svc_cluster.gateway.openapi.schemas import TEXT, ref
from svc_cluster.gateway.openapi.vocabulary import SCRIPT, STYLE, TEXT_HTML, TEXT_PLAIN, query
from svc_cluster.gateway.request.endpoint import FREE, Description, Endpoint
from svc_cluster.http.message import JSON

PROBES: Final = (
    Endpoint(
        operation="health",
        method="GET",
        paths=(
            "/health",
            "/ping",
        ),
        handler=health.health,
        need=FREE,
        description=Description(
            summary="Whether requests are served, for probes",
            status=200,
            answer={TEXT_PLAIN: TEXT},
            plain_statuses=(503,),
        ),
    ),
    Endpoint(
        operation="livez",
        method="GET",
        paths=("/livez",),
        handler=health.livez,
        need=FREE,
        description=Description(
            summary="Whether the process answers",
            status=200,
            answer={TEXT_PLAIN: TEXT},
            parameters=(
                query("verbose", TEXT, "A line for each check, when it is there."),
                query("exclude", TEXT, "Leave one check out."),
            ),
            errors=(ErrorCode.BAD_QUERY,),
        ),
    ),
    Endpoint(
        operation="readyz",
        method="GET",
        paths=("/readyz",),
        handler=health.readyz,
        need=FREE,
        description=Description(
            summary="Whether requests are served, check by check",
            status=200,
            answer={TEXT_PLAIN: TEXT},
            parameters=(
                query("verbose", TEXT, "A line for each check, when it is there."),
                query("exclude", TEXT, "Leave one check out."),
            ),
            errors=(ErrorCode.BAD_QUERY,),
            plain_statuses=(503,),
        ),
    ),
    Endpoint(
        operation="metrics",
        method="GET",
        paths=("/metrics",),
        handler=health.exposition,
        need=FREE,
        description=Description(
            summary="Metrics in the text format of Prometheus",
            status=200,
            answer={TEXT_PLAIN: TEXT},
        ),
    ),
    Endpoint(
        operation="version",
        method="GET",
        paths=("/version",),
        handler=health.version,
        need=FREE,
        description=Description(
            summary="Name and version of the server",
            status=200,
            answer={JSON: ref("Version")},
        ),
    ),
    Endpoint(
        operation="openapi",
        method="GET",
        paths=("/openapi.json",),
        handler=health.openapi,
        need=FREE,
        is_page=True,
        description=Description(
            summary="This document",
            status=200,
            answer={JSON: {"type": "object"}},
            errors=(ErrorCode.UNAVAILABLE,),
        ),
    ),
    Endpoint(
        operation="docs",
        method="GET",
        paths=("/docs",),
        handler=health.docs,
        need=FREE,
        is_page=True,
        description=Description(
            summary="This document as a page for people",
            status=200,
            answer={TEXT_HTML: TEXT},
            errors=(ErrorCode.UNAVAILABLE,),
        ),
    ),
    Endpoint(
        operation="console",
        method="GET",
        paths=("/console",),
        handler=console.console,
        need=FREE,
        is_page=True,
        description=Description(
            summary="A page for people, which asks this interface with their access token",
            status=200,
            answer={TEXT_HTML: TEXT},
            errors=(ErrorCode.UNAVAILABLE,),
        ),
    ),
    Endpoint(
        operation="console-asset",
        method="GET",
        paths=("/console/{asset}",),
        handler=console.console_asset,
        need=FREE,
        is_page=True,
        description=Description(
            summary="A file of the console",
            status=200,
            answer={SCRIPT: TEXT, STYLE: TEXT},
            errors=(ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE),
        ),
    ),
    Endpoint(
        operation="protocol",
        method="GET",
        paths=(PROTO_PATH,),
        handler=health.protocol,
        need=FREE,
        is_page=True,
        description=Description(
            summary="The messages of protobuf, as the `.proto` file that defines them",
            status=200,
            answer={TEXT_PLAIN: TEXT},
            errors=(ErrorCode.UNAVAILABLE,),
        ),
    ),
)
