"""Which basins a node's page names, and what it says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from svc_cluster.base.basin_families import OTHER, BasinCounts, BasinRow
from svc_cluster.base.ids import GroupId
from svc_cluster.replica.basin import BasinReplica

METRICS_BASINS_MAX: Final = 100


class BasinRows:
    """Rows of the basins whose replicas are here. A basin that has a row of its own keeps it until
    it is gone, and what was counted for it under `other` before stays there: no counter falls."""

    def __init__(
        self, basins: Callable[[], Mapping[GroupId, BasinReplica]], basins_max: int
    ) -> None:
        """`basins`: those that are here. `basins_max`: so many are named, those that came first."""
        self._basins = basins
        self._basins_max = basins_max
        self._named: dict[GroupId, BasinCounts] = {}
        self._other = BasinCounts()
        self._seen: dict[GroupId, BasinCounts] = {}

    def rows(self) -> list[BasinRow]:
        """Return a row for each that is named and, where there are more, one for all others."""
        basins = dict(sorted(self._basins().items()))
        for gone in self._seen.keys() - basins.keys():
            del self._seen[gone]
            self._named.pop(gone, None)
        out: list[BasinRow] = []
        led = streams = stored = 0
        others = 0
        for group_id, basin in basins.items():
            head = basin.state.basin
            if head is None:
                continue
            is_led = int(basin.group.is_serving)
            reading = basin.state.usage.reading if is_led else None
            held = (0, 0) if reading is None else (reading[1].streams, reading[1].stored_bytes)
            since, until = self._looked(group_id, basin)
            if group_id not in self._named and len(self._named) < self._basins_max:
                self._named[group_id] = BasinCounts()
            if group_id in self._named:
                counts = self._named[group_id] = self._named[group_id].plus(since, until)
                out.append(BasinRow(head.name, counts, is_led, *held))
                continue
            if until != since:
                self._other = self._other.plus(since, until)
            others += 1
            led, streams, stored = led + is_led, streams + held[0], stored + held[1]
        if others or self._other != BasinCounts():
            out.append(BasinRow(OTHER, self._other, led, streams, stored))
        return out

    def _looked(self, group_id: GroupId, basin: BasinReplica) -> tuple[BasinCounts, BasinCounts]:
        """What its replica had counted at the look before, and what it has counted now. One that
        was opened anew in between has counted from nothing."""
        since, until = self._seen.get(group_id, BasinCounts()), basin.counts()
        self._seen[group_id] = until
        if until.appends < since.appends or until.reads < since.reads:
            since = BasinCounts()
        if until.commits < since.commits:
            since = BasinCounts()
        return since, until
