"""Liveness, readiness, metrics, version and the description of the interface: unauthenticated,
without secrets."""

from __future__ import annotations

import functools
from collections.abc import Generator, Mapping
from typing import Final

from svc_cluster._pb.s2.v1 import s2_proto
from svc_cluster.base import metrics
from svc_cluster.codec.json_body import encode_object
from svc_cluster.gateway.api.context import Call, Services
from svc_cluster.gateway.api.turns import DEAR_BYTES
from svc_cluster.gateway.openapi.reference_page import PAGE_HEADERS
from svc_cluster.gateway.request.compress import accepted_coding
from svc_cluster.gateway.request.error_answers import RETRY_AFTER_MS, retry_after
from svc_cluster.gateway.request.negotiation import Query
from svc_cluster.http.message import Response, json_response, text_response

_PROTOCOL: Final = s2_proto.TEXT.encode()


async def health(call: Call) -> Response:
    """`OK` or 503, by readiness; the form that existing clients poll."""
    return text_response(200, "OK") if all(_checks(call).values()) else _not_ready("not ready")


async def livez(call: Call) -> Response:
    """The check is that this is answered at all."""
    return _report(call, {"ping": True})


async def readyz(call: Call) -> Response:
    siblings = call.services.siblings
    if siblings is None or Query(call.request.query).text("verbose") is None:
        return _report(call, _checks(call))
    answering, processes = await siblings.answering()
    return _report(call, _checks(call), f"{answering} of {processes} processes answer")


async def exposition(call: Call) -> Response:
    """Those of all processes that serve the port. Many may ask at once, and need show nothing."""
    services = call.services
    siblings = services.siblings
    make = functools.partial(own_page, services) if siblings is None else siblings.page
    coding = accepted_coding(call.request.headers) if services.compression else None
    body = await services.metrics_page.get(make, coding)
    coded = [] if coding is None else [("content-encoding", coding)]
    return Response(200, [("content-type", metrics.CONTENT_TYPE), *coded], body)


async def own_page(services: Services) -> bytes:
    """Return the metrics of this process, in the text format of Prometheus."""
    return await services.turns.run(_exposition_steps(services), DEAR_BYTES + 1)


def _exposition_steps(services: Services) -> Generator[None, None, bytes]:
    # a step of its own: of a hundred that ask at once, each looks in its turn
    services.memory.show()
    yield
    return (yield from services.metrics.expose_steps())


async def version(call: Call) -> Response:
    body = {"name": "svc-cluster", "version": call.services.version}
    return json_response(200, encode_object(body))


async def openapi(call: Call) -> Response:
    return json_response(200, call.services.reference().document)


async def docs(call: Call) -> Response:
    return Response(200, list(PAGE_HEADERS), call.services.reference().page)


async def protocol(_call: Call) -> Response:
    return Response(200, [("content-type", "text/plain; charset=utf-8")], _PROTOCOL)


def pages(services: Services) -> list[bytes]:
    """Return what is told here of the interface, which is the same for everybody."""
    reference = services.reference()
    return [reference.document, reference.page, _PROTOCOL]


def _checks(call: Call) -> dict[str, bool]:
    return {
        **call.services.readiness(),
        "not_draining": not call.services.draining.is_set(),
    }


def _report(call: Call, checks: Mapping[str, bool], *told: str) -> Response:
    """One line a check with `?verbose`, and what else is told; `?exclude=name` leaves a check
    out."""
    query = Query(call.request.query)
    excluded = query.text("exclude")
    checks = {name: holds for name, holds in checks.items() if name != excluded}
    ready = all(checks.values())
    answer = functools.partial(text_response, 200) if ready else _not_ready
    if query.text("verbose") is None:
        return answer("ok" if ready else "not ready")
    lines = [
        f"[{'+' if ok else '-'}]{name} {'ok' if ok else 'failed'}" for name, ok in checks.items()
    ]
    return answer("\n".join([*lines, *told, "ready" if ready else "not ready", ""]))


def _not_ready(text: str) -> Response:
    """A definite 503, which says like every other when to come again."""
    response = text_response(503, text)
    response.headers += retry_after(RETRY_AFTER_MS)
    return response
