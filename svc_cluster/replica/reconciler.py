"""When a node looks at what the catalog wants of it: behind each change of that, in a walk.

An entry that changes the rows of some basins has these alone looked at. Anything else, such as an
opened catalog, another active version or a basin that is gone, has all of them looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import GroupId, LogIndex
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.group_walks import GroupWalks
from svc_cluster.replica.openings import is_named


class Reconciler:
    """The one of a node. What changes while a walk is under way is looked at in another one."""

    def __init__(
        self,
        services: GroupServices,
        walks: GroupWalks,
        *,
        catalog: Callable[[], CatalogReplica | None],
        here: Callable[[], Iterable[GroupId]],
        visit: Callable[[GroupId], None],
        on_whole: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`here`: the groups of which something is on this node, in no order that matters. `visit`
        brings one to where the catalog wants it. `on_whole` is called behind each walk over all
        that the catalog of the start had."""
        self._services = services
        self._walks = walks
        self._catalog = catalog
        self._here = here
        self._visit = visit
        self._on_whole = on_whole
        self._guarded = guarded(self.run, on_fatal)
        services.version.on_active = self.schedule
        self._is_scheduled = False
        self._is_walking = False
        self._looks_at_all = True
        self._changed: dict[GroupId, None] = {}
        """Whose rows have changed since the last walk began, in their order."""
        self._stopped = False
        self.known = LogIndex(0)
        """What the catalog's log reached to at the start."""
        self.is_open = False
        """Every replica that the catalog wanted here at first was opened, or cannot be."""

    @property
    def is_current(self) -> bool:
        """Whether the catalog here has come to what it had before this process began. Behind that
        it is no older than the word by which anything was done here."""
        catalog = self._catalog()
        return catalog is not None and catalog.group.applied_index >= self.known

    def stop(self) -> None:
        self._stopped = True

    def schedule(self, groups: Iterable[GroupId] | None = None) -> None:
        """Look soon. `groups`: whose rows have changed; None: anything may be otherwise."""
        if groups is None:
            self._looks_at_all = True
        else:
            self._changed.update(dict.fromkeys(groups))
            if not (self._changed or self._looks_at_all):
                return
        if not self._is_scheduled and not self._stopped:
            self._is_scheduled = True
            self._services.loop.call_soon(self._guarded)

    def run(self) -> None:
        """Make what the catalog wants here, destroy what it has dropped. Repeatable."""
        if self._is_walking:
            return  # done again behind the walk that is under way
        self._is_scheduled = False
        catalog = self._catalog()
        if self._stopped or catalog is None or catalog.group.engine.recovery:
            self._looks_at_all = True
            return  # nothing is made or destroyed by the word of a damaged catalog
        if self.is_open and self.is_current and not self._looks_at_all:
            groups, self._changed = list(self._changed), {}
            self._is_walking = True
            self._walks.start(groups, self._visit, self._walked)
            return
        self._looks_at_all = False
        self._changed = {}
        records = catalog.state.basins.values()
        wanted = [one.group_id for one in records if is_named(one, self._services.node_id)]
        is_whole = self.is_current
        # the store may have forgotten a removal that the log has not; once it has all that was in
        # the log, what it wants here is another replica
        destroyed = frozenset[GroupId]() if is_whole else self._services.wal.destroyed()
        self._is_walking = True
        self._walks.start(
            list(dict.fromkeys(one for one in [*wanted, *self._here()] if one not in destroyed)),
            self._visit,
            partial(self._done, catalog, is_whole=is_whole),
        )

    def _walked(self) -> None:
        self._is_walking = False
        if self._is_scheduled:
            self._services.loop.call_soon(self._guarded)

    def _done(self, catalog: CatalogReplica, *, is_whole: bool) -> None:
        self._walked()
        if catalog is not self._catalog() or catalog.group.engine.recovery:
            return
        self.is_open = True
        if is_whole:
            self._on_whole()
