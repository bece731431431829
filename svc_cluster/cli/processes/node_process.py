"""A replica node as a process: real disk, real store, real sockets, put together."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.audit_file import audit_sink
from svc_cluster.cli.processes.boot import announce, node_ports, unlistenable
from svc_cluster.cli.processes.join import wait_for_membership
from svc_cluster.cli.processes.loop_faults import hear_loop_faults
from svc_cluster.cli.processes.loop_turns import LoopTurns
from svc_cluster.cli.processes.node_administration import ClearHealth, NodeAdministration
from svc_cluster.cli.processes.node_config import addresses, node_config, quotas, store_settings
from svc_cluster.cli.processes.node_metrics import NodeMetrics
from svc_cluster.cli.processes.node_pages import AdminApp
from svc_cluster.cli.processes.node_spans import NodeSpans
from svc_cluster.cli.processes.own_certificate import show_expiry
from svc_cluster.cli.processes.process import exit_fatal
from svc_cluster.cli.processes.reload import Reloader
from svc_cluster.cli.processes.root_token import RootTokenChanges, given_change
from svc_cluster.cli.processes.start_checks import (
    check_data_dir,
    check_members,
    remember_members,
    unusable,
)
from svc_cluster.cli.processes.tls_files import peer_tls
from svc_cluster.http.server import serve
from svc_cluster.replica.identity import IdentityError
from svc_cluster.replica.link_server import LinkServer
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_parts import Seams
from svc_cluster.replica.peer_links import connectors
from svc_cluster.replica.peers import LinkPeers
from svc_cluster.replica.quota_change import change_quotas
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_checks import is_loopback, read_secret
from svc_cluster.settings_errors import DirectoryError, SettingsError
from svc_cluster.storage.damage import is_marked, set_aside
from svc_cluster.storage.disk import DirectoryInUseError, RealDisk, lock_directory
from svc_cluster.storage.harm import HarmFormatError
from svc_cluster.storage.payload.payload_settings import PayloadFormatError
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore, StoreDamagedError, StoreOpenError
from svc_cluster.storage.wal.wal_settings import WalFormatError


class RunningNode:
    """A node with its ports. `close` ends it without a hand-over; `retire` comes before that."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.secret = read_secret(settings.secret_file)
        directory = Path(settings.data_dir)
        check_data_dir(directory)
        try:
            self._lock = lock_directory(directory)
        except DirectoryInUseError as cause:
            raise DirectoryError(f"data_dir {cause}") from cause
        except OSError as cause:
            raise unusable(directory, cause) from cause
        check_members(directory, settings)
        loop = asyncio.get_running_loop()
        rng = random.SystemRandom()
        self.disk = RealDisk(directory / "wal", loop)
        nodes = addresses(settings)
        self._peers = LinkPeers(
            loop=loop,
            peers=tuple(node for node in nodes if node != settings.node_id),
            clock=SystemClock().wall_ms,
            open_link=connectors(
                loop=loop,
                addresses=nodes,
                secret=self.secret,
                speaker=lambda: self.node.speaker(),
                check=lambda speaker: self.node.services.version.check(speaker),
                check_raft=lambda speaker: self.node.check_raft(speaker),
                rng=rng,
                tls=peer_tls(settings),
            ),
            addresses=nodes,
        )
        self._seams = (loop, rng)
        self.out: str | None = None
        """Why the cluster never takes this node."""
        self.on_out: Callable[[], None] = lambda: None
        self._tasks = Tasks()
        self._directory = directory

    async def start(self) -> None:
        """Recover and listen. Raises SettingsError for a directory or port that cannot be used."""
        settings = self.settings
        sink = audit_sink(settings.audit_log)
        given = None
        if settings.root_token_file is not None:
            given = given_change(Path(settings.root_token_file))
        loop, rng = self._seams
        try:
            self.store = open_store(self._directory / "state", loop, store_settings(settings))
        except (StoreOpenError, HarmFormatError) as cause:
            raise DirectoryError(str(cause)) from cause
        declared = Metrics(process=True)
        self._spans = NodeSpans(settings, self._peers, declared)
        seams = Seams(
            loop=loop,
            clock=SystemClock(),
            rng=rng,
            disk=self.disk,
            store=self.store,
            peers=self._peers,
            snapshots=self._peers,
            formation=self._peers,
            links=self._peers,
            traces=self._spans.traces,
        )
        try:
            self.node = ReplicaNode(node_config(settings), seams, on_fatal=exit_fatal)
        except (IdentityError, WalFormatError, PayloadFormatError) as cause:
            raise SettingsError(str(cause)) from cause
        except OSError as cause:
            raise unusable(self._directory, cause) from cause
        came_later = self.node.former.formation.record.joined
        if settings.join_token_file is None and not came_later:
            remember_members(self._directory, settings)
        host, _, port = settings.admin_address.rpartition(":")
        self.audit = AuditTrail(sink, declared.audit_failures.inc)
        if settings.peer_tls_cert is not None:
            show_expiry(declared, "peer", Path(settings.peer_tls_cert))
        hear_loop_faults(declared)
        self._tasks.spawn(LoopTurns(declared).run(), "watch the event loop")
        metrics = NodeMetrics(
            declared,
            self.node,
            self._directory,
            self._peers,
            self.disk,
            self.store.reads,
            settings.metrics_basins_max,
        )
        try:
            app = AdminApp(self.node, metrics, debug=is_loopback(settings.admin_address))
            self._admin = await serve(app, host.strip("[]"), int(port), plain=False)
        except OSError as cause:
            raise unlistenable(f"admin_address {settings.admin_address}", cause) from cause
        self._administration = NodeAdministration(settings, self.node, declared)
        administration = await self._administration.start()
        self._rpc = LinkServer(self.node, self.secret, peer_tls(settings), called=self._peers.knock)
        try:
            peers = await self._rpc.start(settings.rpc_address)
        except OSError as cause:
            key = "nodes" if settings.listen_address is None else "listen_address"
            raise unlistenable(f"{key} of this node, {settings.rpc_address},", cause) from cause
        self._begin()
        self._root_token = RootTokenChanges(self.node, self._directory, given, self.audit)
        self._root_token.start()
        ports = node_ports(
            settings, peers=peers, admin=self._admin.port, administration=administration
        )
        announce("node", settings, ports)

    def _begin(self) -> None:
        self._peers.start()
        self.node.sessions.update(self._peers.sessions)
        self.node.on_out = self._stays_out
        self.node.start(self._meet_peers)

    def _stays_out(self, why: str) -> None:
        self.out = why
        self.on_out()

    def _meet_peers(self) -> None:
        host = self.node.host
        self._peers.connect(host.news.up, host.news.down, host.news.room)

    def hand_over_on(self, number: signal.Signals) -> None:
        """Let this signal, which would end the process, make the node give its leaderships away.
        It then says that it is not ready, and goes on following until it is told to end."""
        asyncio.get_running_loop().add_signal_handler(
            number, lambda: self._tasks.spawn(self.node.retire(), "hand over")
        )

    async def close(self) -> None:
        await self._tasks.cancel_all()
        await self._root_token.close()
        self.audit.close()
        await self._administration.stop()
        await self._admin.close()
        await self._rpc.stop()
        await self._peers.close()
        await self.node.stop()
        await self._spans.close()
        await self.node.wal.close()
        self.node.services.store.close()
        self.disk.close()
        os.close(self._lock)


def open_store(
    directory: Path, loop: asyncio.AbstractEventLoop, settings: RocksSettings | None = None
) -> RocksStore:
    """Return the state store. An empty one comes in place of one that is damaged, whose content
    then comes from the log or from the other nodes. Raises StoreOpenError."""
    if is_marked(directory):
        _set_aside(directory, "a process has read damaged blocks")
    try:
        return RocksStore(directory, loop, settings)
    except StoreDamagedError as damage:
        _set_aside(directory, str(damage))
        return RocksStore(directory, loop, settings)


def _set_aside(directory: Path, why: str) -> None:
    place = set_aside(directory)
    get_logger("node").error("state_store_set_aside", moved_to=str(place), reason=why)


async def run_node(
    settings: NodeSettings, read: Callable[[], NodeSettings], stop: asyncio.Event
) -> None:
    """Run until `stop`, then hand leadership over and end. With `join`, wait for that first. `read`
    reads the settings again, for SIGHUP; it raises SettingsError."""
    if settings.join:
        health = ClearHealth(settings, lambda: False, lambda operation, outcome: None)
        await health.start()
        try:
            await wait_for_membership(settings, stop)
        finally:
            await health.stop()
        if stop.is_set():
            return
    running = RunningNode(settings)
    running.on_out = stop.set
    await running.start()
    reloader = Reloader(
        settings,
        read,
        lambda fresh: change_quotas(running.node.host, quotas(fresh)),
        audit=running.audit,
        clock=SystemClock(),
        who={"role": "node", "node": settings.node_id},
    )
    reloader.start()
    running.hand_over_on(signal.SIGUSR1)
    await stop.wait()
    await reloader.close()
    await running.node.retire()
    await running.close()
    if running.out is not None:
        raise SettingsError(running.out)
