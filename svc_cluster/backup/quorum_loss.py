"""A backup of a cluster that has lost its quorum for good, from the data directories that are left.

Nothing is forced on directories that may come to life again: what they hold becomes a backup, and
a new cluster is restored from it, whose nodes refuse the old ones by their incarnations.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.catalog_rows import read_catalog
from svc_cluster.backup.coverage import RecordRange, streams_of
from svc_cluster.backup.row_frames import Row
from svc_cluster.backup.salvage import Salvage, described, is_among_batches
from svc_cluster.backup.source import GroupContent, GroupUnreachableError, StreamBegins
from svc_cluster.backup.surviving import Chosen, choose
from svc_cluster.backup.survivor import ROWS_END, SurvivingGroup, Survivor
from svc_cluster.backup.survivor_copy import copied
from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog import catalog_state
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.model.places import Places, merged
from svc_cluster.stream import keys
from svc_cluster.stream.export_walk import all_but_batches, batches_between

STREAMS_TOLD_MAX: Final = 100
"""Streams of one basin whose last positions are told; the rest are counted."""
RANGES_TOLD_MAX: Final = 20
"""Ranges of lost records of one stream that are told; the rest are counted."""
RUNS_TOLD_MAX: Final = 5
"""The last so many runs of records between the losses of one stream are told."""
GROUPS_TOLD_MAX: Final = 100
"""Replicas that cannot be read, and groups that no catalog knows, so many of each are named; the
rest are counted."""


@dataclass(frozen=True, slots=True)
class _Survived:
    group: SurvivingGroup
    chosen: Chosen


class Recovery:
    """What several survivors have together, as a Source of a backup; `close` it at the end."""

    def __init__(self, survivors: Sequence[Survivor], clock: Clock) -> None:
        """Raises BackupError where the directories are not of one cluster, or have no catalog."""
        self._survivors = survivors
        self._clock = clock
        self._check_survivors()
        self.cluster_id = survivors[0].identity.cluster_id
        catalog = self._choose(CATALOG_GROUP, self._nodes(), 0)
        if catalog is None:
            raise BackupError(
                "none of the directories has the catalog, whole enough to be read: name "
                "another node's"
            )
        self._found = {CATALOG_GROUP: catalog}
        content = read_catalog(catalog.group.reader.scan(b"", ROWS_END))
        self._check_places(content.places)
        self._known = {CATALOG_GROUP, *(record.group_id for record in content.basins)}
        self.basins = [record for record in content.basins if record.deleted_at_ms is None]
        self.lost: list[BasinRecord] = []
        """Basins of which no replica is here."""
        for record in content.basins:
            found = self._choose(record.group_id, record.replicas, record.configuration)
            if found is not None:
                self._found[record.group_id] = found
            elif record.deleted_at_ms is None:
                self.lost.append(record)

    def _check_survivors(self) -> None:
        clusters = {survivor.identity.cluster_id for survivor in self._survivors}
        if len(clusters) != 1:
            raise BackupError(f"the directories are of several clusters: {sorted(clusters)}")
        nodes = [survivor.identity.node_id for survivor in self._survivors]
        if len(set(nodes)) < len(nodes):
            raise BackupError(f"two directories are of one node, of the nodes {sorted(nodes)}")

    def _check_places(self, given: Places) -> None:
        """What a directory was asked no more for, it does not have: it would count for a member."""
        given = merged(given, *(survivor.record.places for survivor in self._survivors))
        for survivor in self._survivors:
            if survivor.has_lost_its_place(given):
                raise BackupError(
                    f"node {survivor.identity.node_id}'s place was given to another directory than "
                    f"{survivor.directory}: leave it out"
                )

    def _nodes(self) -> tuple[NodeId, ...]:
        """Who votes in the catalog is what the cluster was formed of. Where no directory says that,
        it is all nodes that any surviving catalog knows."""
        formed = {node for survivor in self._survivors for node, _ in survivor.record.members}
        if formed:
            return tuple(sorted(formed))
        known = {survivor.identity.node_id for survivor in self._survivors}
        for survivor in self._survivors:
            group = survivor.groups.get(CATALOG_GROUP)
            if group is not None:
                content = read_catalog(group.reader.scan(b"", ROWS_END))
                known |= {NodeId(node) for node, _ in content.nodes}
        return tuple(sorted(known))

    def _choose(
        self, group_id: GroupId, members: Sequence[NodeId], configuration: int
    ) -> _Survived | None:
        here = {
            survivor.identity.node_id: survivor.groups[group_id]
            for survivor in self._survivors
            if group_id in survivor.groups
        }
        if not here:
            return None
        chosen = choose([group.replica for group in here.values()], members, configuration)
        return _Survived(here[chosen.node_id], chosen)

    async def close(self) -> None:
        for survivor in self._survivors:
            await survivor.close()

    # -- what is told

    def told(self) -> list[str]:
        """What is there, what may be missing, and what is lost, as lines for a person."""
        lines = [f"catalog: {self._of(CATALOG_GROUP)}"]
        for record in self.basins:
            if record.group_id not in self._found:
                continue
            lines.append(f"{record.name}: {self._of(record.group_id)}")
            reader = self._found[record.group_id].group.reader
            streams = sorted(
                (stream.name, int(stream.tail_seq_num))
                for stream in streams_of(record.name, reader.scan(*keys.streams_range())).values()
            )
            lines += [
                f"   {name}: ends before record {tail}" for name, tail in streams[:STREAMS_TOLD_MAX]
            ]
            if len(streams) > STREAMS_TOLD_MAX:
                lines.append(f"   and {len(streams) - STREAMS_TOLD_MAX} streams more")
            lines += _missing(record.name, self._found[record.group_id].group.salvage)
        lines += [self._lost_line(record) for record in self.lost]
        return lines + self._left_out()

    def _lost_line(self, record: BasinRecord) -> str:
        for survivor in self._survivors:
            if record.group_id in survivor.unreadable:
                reason = survivor.unreadable[record.group_id]
                return f"{record.name}: LOST, what is left cannot be read: {reason}"
        nodes = ", ".join(map(str, record.replicas))
        return f"{record.name}: LOST, its replicas were on the nodes {nodes} alone"

    def _left_out(self) -> list[str]:
        """The replicas that nothing is taken of."""
        damaged, unknown = [], []
        for survivor in self._survivors:
            node = survivor.identity.node_id
            damaged += [
                f"group {group}: the replica in {survivor.directory}, of node {node}, cannot be "
                f"read, and is left out: {survivor.unreadable[group]}"
                for group in sorted(survivor.unreadable)
            ]
            unknown += [
                f"group {group}: node {node} has a replica, and the catalog that is left does not "
                "know this group: it is LEFT OUT"
                for group in sorted(
                    (survivor.groups.keys() | survivor.unreadable.keys()) - self._known
                )
            ]
        return _bounded(damaged, "replicas") + _bounded(unknown, "replicas of unknown groups")

    def _of(self, group_id: GroupId) -> str:
        found = self._found[group_id]
        place = f"as node {found.chosen.node_id} has it, index {found.group.machine.applied_index}"
        if not found.chosen.doubt:
            return f"{place}; nothing that was acknowledged is missing"
        return f"{place}; LATER RECORDS MAY HAVE BEEN ACKNOWLEDGED: {found.chosen.doubt}"

    # -- the source of a backup

    async def content(self, group_id: int) -> GroupContent:
        found = self._group(group_id)
        machine = found.machine
        lost = {catalog_state.BASIN + record.name.encode() for record in self.lost}
        if group_id == CATALOG_GROUP:
            kept = [row for row in found.reader.scan(b"", ROWS_END) if row[0] not in lost]
        else:
            kept = list(all_but_batches(found.reader, ROWS_END))
        return GroupContent(
            self.cluster_id,
            group_id,
            machine.applied_index,
            machine.applied_term,
            self._clock.wall_ms(),
            machine.known.encoding,
            tuple(sorted(machine.kinds)),
            tuple(kept),
        )

    async def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        group = self._group(group_id)
        lost = {} if group.salvage is None else group.salvage.streams
        for wanted in ranges:
            walk = batches_between(group.reader, wanted.stream_id, wanted.first, wanted.end)
            begins_at = walk.trim_point or 0
            if wanted.stream_id in lost:
                # batches ahead of it come all the same: a restore up to one of them has them
                begins_at = lost[wanted.stream_id].begins_at
            yield StreamBegins(wanted.stream_id, begins_at, gone=walk.trim_point is None)
            for each in walk.batches:
                yield each

    async def finished(self, finished_at_ms: int) -> None:
        """Nobody is left to be told."""

    def _group(self, group_id: int) -> SurvivingGroup:
        found = self._found.get(GroupId(group_id))
        if found is None:
            raise GroupUnreachableError("no replica of it is left")
        return found.group


def _missing(basin: str, salvage: Salvage | None) -> list[str]:
    """What is missing of a replica that is gone on with."""
    if salvage is None:
        return []
    lines = []
    for loss in sorted(salvage.streams.values(), key=lambda one: one.name):
        ranges = ", ".join(f"{first} to {end - 1}" for first, end in loss.ranges[:RANGES_TOLD_MAX])
        if len(loss.ranges) > RANGES_TOLD_MAX:
            ranges += f" and {len(loss.ranges) - RANGES_TOLD_MAX} ranges more"
        lines.append(f"   {loss.name}: the records {ranges} cannot be read, and are LOST")
        if loss.runs:
            runs = " or ".join(
                f"--until {basin}/{loss.name}={end}" for end in loss.runs[-RUNS_TOLD_MAX:]
            )
            lines.append(
                f"   {loss.name}: it goes on from record {loss.begins_at}; what can be read ahead "
                f"of that is in the backup as well: restore it elsewhere with {runs}"
            )
    rows = [f"   {line}" for line in salvage.mended]
    rows += [f"   {described(hole)}" for hole in salvage.holes if not is_among_batches(hole)]
    return _bounded(lines, "lines on lost records") + _bounded(rows, "lines on lost rows")


def _bounded(lines: list[str], what: str) -> list[str]:
    rest = len(lines) - GROUPS_TOLD_MAX
    return lines[:GROUPS_TOLD_MAX] + ([f"and {rest} {what} more"] if rest > 0 else [])


async def open_recovery(directories: Sequence[Path], work: Path, clock: Clock) -> Recovery:
    """Copy the directories into `work`, which is empty, and open the copies. Raises BackupError."""
    survivors: list[Survivor] = []
    try:
        for place, directory in enumerate(directories, 1):
            beneath = work / str(place)
            beneath.mkdir()
            survivors.append(await Survivor.open(copied(directory, beneath), directory.resolve()))
        return Recovery(survivors, clock)
    except BaseException:
        for survivor in survivors:
            await survivor.close()
        raise
