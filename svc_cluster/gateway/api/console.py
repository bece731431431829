"""The console's files: for everybody, since they hold nothing; what they ask needs a token."""

from __future__ import annotations

from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.console.assets import PAGE, Asset, assets
from svc_cluster.gateway.request.error_answers import RouteNotFoundError
from svc_cluster.gateway.request.router import split_path
from svc_cluster.http.message import Response


async def console(_call: Call) -> Response:
    return _served(assets()[PAGE])


async def console_asset(call: Call) -> Response:
    """Raises RouteNotFoundError for what is no file of the console."""
    asset = assets().get(split_path(call.request.raw_path)[-1])
    if asset is None:
        raise RouteNotFoundError("the console has no such file")
    return _served(asset)


def _served(asset: Asset) -> Response:
    return Response(200, list(asset.headers), asset.content)
