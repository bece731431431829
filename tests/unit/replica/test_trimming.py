"""A replica's log in memory is trimmed up to what of this very state was flushed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId
from svc_cluster.raft.group import Event, Role, Trim
from svc_cluster.replica.housekeeping import Housekeeper, HousekeepingSettings
from svc_cluster.replica.leadership_news import GroupNames

GROUP = GroupId(7)


class Follower:
    """A follower whose log may be trimmed as far as it is flushed."""

    def __init__(self, generation: int, base_index: int, applied_index: int) -> None:
        self.group = self.engine = self
        self.group_id = GROUP
        self.generation = Generation(generation)
        self.base_index = LogIndex(base_index)
        self.applied_index = LogIndex(applied_index)
        self.recovery = False
        self.role = Role.FOLLOWER
        self.trims: list[int] = []

    def index_keeping_bytes(self, _: int) -> LogIndex:
        return self.applied_index

    def step(self, event: Event) -> None:
        assert isinstance(event, Trim)
        self.trims.append(event.log_index)


class Node:
    """A housekeeper of one replica, which may be another one from a moment on."""

    def __init__(self, replica: Follower) -> None:
        self.is_here = True
        self.replica = replica
        self.flushed: list[tuple[GroupId, LogIndex]] = []
        services = SimpleNamespace(
            node_id=NodeId(1),
            log=None,
            names=GroupNames(),
            clock=SimpleNamespace(monotonic=lambda: 0.0),
            store=SimpleNamespace(flush=lambda done: done()),
            wal=SimpleNamespace(
                set_flushed=lambda *what: self.flushed.append(what), release=lambda: None
            ),
        )
        host: Any = SimpleNamespace(
            services=services,
            settings=SimpleNamespace(nodes=[NodeId(1)]),
            guarded=_as_it_is,
            replicas=lambda: [self.replica] if self.is_here else [],
            replica=lambda _: self.replica if self.is_here else None,
            sender=SimpleNamespace(holds=SimpleNamespace(release_all=lambda _: None)),
        )
        self.housekeeper = Housekeeper(host, HousekeepingSettings())

    def trim(self) -> list[int]:
        self.housekeeper._trim_log(self.replica, 0.0)  # type: ignore[arg-type]
        return self.replica.trims


def _as_it_is(callback: Callable[..., object]) -> Callable[..., object]:
    return callback


def test_a_flush_before_an_installed_snapshot_trims_nothing_behind_it() -> None:
    """The snapshot may be of a lower index than what was flushed; what came behind it is in memory
    alone, and the log is kept until it is flushed too."""
    node = Node(Follower(1, base_index=0, applied_index=100))
    assert node.trim() == [], "nothing was flushed"
    node.housekeeper.flush()
    assert node.trim() == [100]
    node.replica = Follower(2, base_index=50, applied_index=80)
    assert node.trim() == [], "nothing of this state was flushed"
    node.housekeeper.flush()
    assert (node.trim(), node.flushed) == ([80], [(GROUP, 100), (GROUP, 80)])


def test_what_is_known_of_a_state_goes_with_it() -> None:
    """However many snapshots are installed, and when the group is destroyed."""
    node = Node(Follower(1, base_index=0, applied_index=10))
    keeper = node.housekeeper
    for generation in range(1, 20):
        node.replica = Follower(generation, base_index=0, applied_index=10)
        keeper.flush()
        node.trim()
        keeper._forget_destroyed()
        assert list(keeper._flushed) == list(keeper._marks) == [generation]
    node.is_here = False
    keeper._forget_destroyed()
    assert not keeper._flushed and not keeper._marks
