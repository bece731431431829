"""The catalog in a backup: what it says, and its rows for the cluster that is restored. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from svc_cluster.backup.backup_errors import DamagedError
from svc_cluster.backup.row_frames import Row
from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.catalog import active_version, catalog_state, location_table
from svc_cluster.catalog.basin_record import BasinRecord, basin_to_bytes
from svc_cluster.catalog.canonical_rows import meta_at
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.join_tickets import TICKETS
from svc_cluster.catalog.node_rows import places_of
from svc_cluster.catalog.own_group import OWN_GROUP
from svc_cluster.catalog.placement import place_basin
from svc_cluster.catalog.placement_model import PlacementNode
from svc_cluster.model.places import Places


class RowsReader:
    """Implements KeyReader over rows that are held."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = dict(rows)
        self._keys = sorted(self._rows)

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def scan(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[Row]:
        found = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        for key in reversed(found) if reverse else found:
            yield key, self._rows[key]


@dataclass(frozen=True, slots=True)
class CatalogContentRows:
    """What a catalog says of nodes and basins."""

    nodes: tuple[tuple[int, str], ...]
    """Ids and incarnations."""
    basins: tuple[BasinRecord, ...]
    active_version: int
    places: Places
    """The places of nodes that were given to other directories."""


def read_catalog(rows: Iterable[Row]) -> CatalogContentRows:
    """Raises DamagedError."""
    try:
        state = CatalogState(RowsReader(rows))
    except Exception as cause:  # whatever decoders raise for bytes that nobody wrote
        raise DamagedError(f"the catalog's rows cannot be read: {cause}") from cause
    nodes = sorted((int(node.node_id), node.incarnation) for node in state.nodes.values())
    basins = sorted(state.basins.values(), key=lambda record: record.name)
    places = places_of(state.nodes)
    return CatalogContentRows(tuple(nodes), tuple(basins), state.active_version.now, places)


def placed_anew(
    basins: Iterable[BasinRecord], nodes: tuple[NodeId, ...], replication_factor: int
) -> list[BasinRecord]:
    """The basins on other nodes; the same on every node that asks."""
    state = CatalogState(RowsReader(()))
    placed = [PlacementNode(node) for node in nodes]
    out = []
    for record in sorted(basins, key=lambda record: record.name):
        moved = replace(
            record,
            replicas=place_basin(state, placed, replication_factor),
            # the new cluster's groups begin with what they are restored to
            configuration=0,
            replica_ids=(),
            change=None,
        )
        state.basins[moved.name] = moved
        out.append(moved)
    return out


def restored_catalog(
    rows: Iterable[Row],
    basins: Mapping[str, BasinRecord],
    *,
    keeps_account: bool,
    log_index: LogIndex,
    term: Term,
    digest: int,
) -> list[Row]:
    """The rows of the catalog that a restored cluster begins with. It knows no node: each makes
    itself known. `keeps_account`: access tokens, outcomes of requests, usage and the default
    location are the account's, and stay. The active version always does: what the groups hold may
    be of it."""
    out: list[Row] = []
    for key, value in rows:
        if key == catalog_state.META:
            out.append((key, meta_at(value, log_index, term, digest)))
        elif key[:1] in (catalog_state.NODE, catalog_state.BASIN, TICKETS, OWN_GROUP):
            continue
        elif keeps_account or key in (location_table.CHOICE, active_version.ACTIVE):
            out.append((key, value))
    for name, record in basins.items():
        owner = record.owner if keeps_account else 0
        row = basin_to_bytes(replace(record, owner=owner))
        out.append((catalog_state.BASIN + name.encode(), row))
    return sorted(out)
