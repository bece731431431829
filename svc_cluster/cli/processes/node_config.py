"""What a node is told, made of its settings."""

from __future__ import annotations

import os
from pathlib import Path

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.node_facts import AnnouncedFacts
from svc_cluster.model.join_token import JoinToken
from svc_cluster.model.location import LOCATIONS_DEFAULT, Location
from svc_cluster.model.quotas import Quotas
from svc_cluster.replica import formation_file
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.housekeeping import HousekeepingSettings
from svc_cluster.replica.node_parts import NodeConfig
from svc_cluster.replica.scrub import ScrubSettings
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_checks import read_join_token
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.read_pool import ReadPoolSettings
from svc_cluster.storage.rocks_settings import WRITE_BUFFER_BYTES, RocksSettings
from svc_cluster.storage.wal.wal_settings import WalSettings

MIB = 1024 * 1024
PLACE_CHARACTERS = 64
BALANCE_SECONDS = 10.0
"""How often the catalog's leader looks whether leads are uneven."""


def store_settings(settings: NodeSettings) -> RocksSettings:
    """Return settings with a write buffer of another size on each node, from the whole down to half
    of it. Replicas that take in the same bytes then fill it, and compact what comes of it, at
    different moments."""
    nodes = sorted(map(int, settings.nodes))
    share = nodes.index(settings.node_id) / (2 * len(nodes))
    return RocksSettings(
        write_buffer_bytes=round(WRITE_BUFFER_BYTES * (1 - share)),
        reads=ReadPoolSettings(
            threads=settings.store_read_threads, waiting_max=settings.store_reads_waiting_max
        ),
    )


def addresses(settings: NodeSettings) -> dict[NodeId, str]:
    return {NodeId(int(node)): address for node, address in settings.nodes.items()}


def locations(settings: NodeSettings) -> tuple[Location, ...]:
    if settings.locations is None:
        return LOCATIONS_DEFAULT
    return tuple(Location(name, private) for name, private in settings.locations.items())


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB


def quotas(settings: NodeSettings) -> Quotas:
    """Return how many of each thing there may be."""
    return Quotas(
        basins=settings.basins_max,
        streams=settings.streams_per_basin_max,
        tokens=settings.access_tokens_max,
        chain_basins=settings.token_basins_max,
        chain_tokens=settings.token_access_tokens_max,
        account_streams=settings.streams_max,
        account_stored_bytes=_bytes(settings.stored_mib_max),
        chain_streams=settings.token_streams_max,
        chain_stored_bytes=_bytes(settings.token_stored_mib_max),
        stored_bytes=_bytes(settings.stored_mib_per_basin_max),
    )


def node_facts(settings: NodeSettings) -> AnnouncedFacts:
    """Return what the node says of itself. A name that is longer than a setting may be is the
    system's, and cut."""
    host = os.uname().nodename[:PLACE_CHARACTERS] if settings.host is None else settings.host
    return AnnouncedFacts(
        link_address=settings.advertise_address or "",
        admin_address=settings.admin_rpc_address,
        host=host,
        zone=settings.zone,
    )


def join_token(settings: NodeSettings) -> JoinToken | None:
    """The token in the settings' file, which may be gone once the directory was let in. Raises
    SettingsError."""
    if settings.join_token_file is None:
        return None
    was_let_in = (Path(settings.data_dir) / "wal" / formation_file.FILE_NAME).exists()
    if was_let_in and not Path(settings.join_token_file).exists():
        return None
    return read_join_token(settings.join_token_file, settings.node_id)


def node_config(settings: NodeSettings) -> NodeConfig:
    """Raises SettingsError for a join token that cannot be used."""
    nodes = addresses(settings)
    return NodeConfig(
        cluster_id=settings.cluster_id,
        node_id=NodeId(settings.node_id),
        addresses=nodes,
        host=HostSettings(
            tuple(sorted(nodes)),
            settings.replication_factor,
            locations=locations(settings),
            request_outcomes_max=settings.request_outcomes_max,
            rest_seconds=settings.rest_seconds,
            memory_bytes_max=settings.memory_mib * MIB,
            quotas=quotas(settings),
            replace_lost_nodes=settings.replace_lost_nodes,
            balance_seconds=BALANCE_SECONDS if settings.balance_leaders else 0.0,
        ),
        wal=WalSettings(
            segment_bytes=settings.wal_segment_mib * MIB,
            retain_bytes=settings.wal_retain_mib * MIB,
            reserve_bytes=settings.disk_reserve_mib * MIB,
            payload=PayloadSettings(
                writes=settings.payload_files,
                dead_share_max=settings.payload_dead_percent / 100,
            ),
        ),
        housekeeping=HousekeepingSettings(
            flush_seconds=settings.flush_seconds,
            log_retention_seconds=settings.log_retention_seconds,
            log_retention_bytes=settings.log_retention_mib * MIB,
        ),
        scrub=ScrubSettings(
            mib_per_second=settings.scrub_mib_per_second,
            interval_seconds=settings.scrub_interval_seconds,
        ),
        facts=node_facts(settings),
        join_token=join_token(settings),
    )
