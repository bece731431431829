"""A node's administration as part of its process: from the settings to listeners."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from svc_cluster.administration.admin_service import Administration
from svc_cluster.administration.call_gate import CallGate
from svc_cluster.administration.draining import Draining, drain
from svc_cluster.administration.exporting import Exporter
from svc_cluster.administration.last_backup import LastBackup
from svc_cluster.administration.listener import Listener
from svc_cluster.administration.node_health import NodeHealth
from svc_cluster.administration.operations import SERVICE
from svc_cluster.administration.views import Build, Space
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.boot import unlistenable
from svc_cluster.cli.processes.tls_files import peer_tls
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.settings import NodeSettings

MIB: Final = 1024 * 1024
STOP_SECONDS: Final = 1.0
"""What calls under way have when the process ends."""

log = get_logger("administration")


class NodeAdministration:
    """The listeners of one node. Everything about it is asked when a caller asks."""

    def __init__(self, settings: NodeSettings, node: ReplicaNode, metrics: Metrics) -> None:
        self._settings = settings
        self._draining = Draining(partial(drain, node))
        self._tls = peer_tls(settings)

        def is_ready() -> bool:
            return all(node.readiness().values())

        def count(operation: str, outcome: str) -> None:
            metrics.admin_calls.labels(operation=operation, outcome=outcome).inc()

        own = NodeId(settings.node_id)
        gate = CallGate(own, node.services.clock, count, secured=self._tls is not None)
        self._listener = Listener(gate, NodeHealth(is_ready, (SERVICE,)))
        self._listener.serve(
            Administration(
                node,
                self._draining,
                settings=msgspec.to_builtins(settings),
                build=Build(version("svc-cluster"), os.environ.get("SVC_CLUSTER_REVISION", "")),
                space=lambda: _space(Path(settings.data_dir)),
                exporter=Exporter(node, settings.backup_mib_per_second * MIB),
                last_backup=LastBackup(
                    Path(settings.data_dir),
                    metrics.backup_last_success.set,
                    node.services.clock.wall_ms,
                ),
            )
        )
        self._health = ClearHealth(settings, is_ready, count)

    async def start(self) -> int:
        """Return the port. Raises SettingsError for one that cannot be listened on."""
        settings = self._settings
        with _listening("admin_rpc_address", settings.admin_rpc_address):
            port = self._listener.bind(settings.admin_rpc_address, self._tls)
        await self._listener.start()
        await self._health.start()
        host = settings.admin_rpc_address.rpartition(":")[0]
        log.info("administration_listening", address=f"{host}:{port}", tls=self._tls is not None)
        return port

    async def stop(self) -> None:
        await self._listener.stop(STOP_SECONDS)
        await self._health.stop()
        await self._draining.close()


class ClearHealth:
    """Health alone, at `health_rpc_address`, where that is set."""

    def __init__(
        self,
        settings: NodeSettings,
        is_ready: Callable[[], bool],
        count: Callable[[str, str], None],
    ) -> None:
        self._address = settings.health_rpc_address
        gate = CallGate(NodeId(settings.node_id), SystemClock(), count, secured=False)
        self._listener = Listener(gate, NodeHealth(is_ready))

    async def start(self) -> None:
        """Raises SettingsError."""
        if self._address is not None:
            with _listening("health_rpc_address", self._address):
                self._listener.bind(self._address, None)
            await self._listener.start()

    async def stop(self) -> None:
        await self._listener.stop(STOP_SECONDS)


@contextmanager
def _listening(key: str, address: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as cause:
        raise unlistenable(f"{key} {address}", cause) from cause


def _space(directory: Path) -> Space:
    disk = os.statvfs(directory)
    return Space(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
