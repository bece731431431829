"""What a node tells of sampled appends, on its way to their collector, where it is told of one."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.span_export import SpanExport, span_export
from svc_cluster.link.features import TRACES
from svc_cluster.replica.node_traces import NodeTraces
from svc_cluster.replica.peers import LinkPeers
from svc_cluster.settings import NodeSettings


class NodeSpans:
    """The spans of one node. `traces`: None: nothing is told."""

    def __init__(self, settings: NodeSettings, peers: LinkPeers, metrics: Metrics) -> None:
        """Raises SettingsError."""
        self.traces: NodeTraces | None = None
        self._export: SpanExport | None = None
        url, node_id = settings.traces_endpoint, NodeId(settings.node_id)
        if url is None:
            return
        self._export = span_export(url, "svc-cluster-node", f"node-{node_id}", metrics)
        self.traces = NodeTraces(
            node_id=node_id,
            clock=SystemClock().monotonic,
            random_bytes=os.urandom,
            sink=self._export,
            takes=partial(peers.names, TRACES),
        )

    async def close(self) -> None:
        """Send what there is, or give up after some seconds."""
        if self._export is not None:
            await asyncio.to_thread(self._export.close)
