"""The pages of a node's own listener: health, metrics and a look inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.metrics import CONTENT_TYPE
from svc_cluster.base.steps_in_turns import in_turns
from svc_cluster.cli.processes.node_metrics import NodeMetrics
from svc_cluster.gateway.request.error_answers import refused
from svc_cluster.http.message import Request, Response
from svc_cluster.replica.node import ReplicaNode


class AdminApp:
    """Health, metrics and a look inside, on the node's own listener. Nobody has to show who they
    are here, so `debug`, which names basins, is for a listener on loopback."""

    def __init__(self, node: ReplicaNode, metrics: NodeMetrics, *, debug: bool) -> None:
        self.clock: Clock = SystemClock()
        self._node = node
        self._metrics = metrics
        self._debug = debug

    def refuse(self, error: ServiceError) -> Response:
        return refused(error)

    async def _exposition(self) -> bytes:
        """The page of the metrics, made while others have their turns."""
        return await in_turns(self._metrics.expose_steps())

    async def handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _error(
                405, "method_not_allowed", "these pages are only read", [("allow", "GET")]
            )
        match request.raw_path:
            case "/livez":
                return _text(200, "OK")
            case "/readyz" | "/health" | "/ping":
                ok = all((checks := self._node.readiness()).values())
                lines = [f"[{'+' if passed else '-'}]{name}" for name, passed in checks.items()]
                if (why := self._node.why_not_formed()) is not None:
                    lines.append(why)
                # the others are served, so that it is ready; a person has to look all the same
                lines += [f"[!]group {row.group_id} {row.state}" for row in self._node.host.held()]
                text = "\n".join([*lines, "ok" if ok else "not ready"])
                return _text(200 if ok else 503, text if request.query else "OK" if ok else text)
            case "/metrics":
                return Response(200, [("content-type", CONTENT_TYPE)], await self._exposition())
            case "/debug/groups" if self._debug:
                host = self._node.host
                rows = {
                    "node": self._node.config.node_id,
                    "peers": self._node.peers(),
                    "groups": host.probe(),
                    "held": [asdict(row) for row in host.held()],
                }
                body = json.dumps(rows).encode()
                return Response(200, [("content-type", "application/json")], body)
            case _:
                return _error(404, "not_found", "no such page")


def _error(
    status: int, code: str, message: str, headers: Sequence[tuple[str, str]] = ()
) -> Response:
    body = json.dumps({"error": code, "code": code, "message": message}).encode()
    return Response(status, [("content-type", "application/json"), *headers], body)


def _text(status: int, text: str) -> Response:
    return Response(status, [("content-type", "text/plain")], text.encode() + b"\n")
