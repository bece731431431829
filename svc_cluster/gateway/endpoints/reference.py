"""The interface as it is told of itself: the OpenAPI document, and the page that shows it."""

from __future__ import annotations

from functools import cache

from svc_cluster.codec.json_body import encode_object
from svc_cluster.gateway.api.context import Reference
from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.gateway.openapi.document import build_document
from svc_cluster.gateway.openapi.reference_page import render_page


@cache
def reference_of(version: str) -> Reference:
    """Both are made once in a process. It takes longer than a turn of the loop should, so that
    gateways make them before they serve anybody."""
    document = build_document(ROUTER.resources, version)
    return Reference(document=encode_object(document), page=render_page(document))
