"""A group may go without ticks while nothing is under way in it: when, and how it goes on then."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex
from svc_cluster.raft.core import Core
from svc_cluster.raft.follower import FollowerSide
from svc_cluster.raft.leader import LeaderSide
from svc_cluster.raft.log_view import LogView


class Stillness:
    """The implementation of `Standstill`; see there."""

    def __init__(
        self, core: Core, log: LogView, leading: LeaderSide, following: FollowerSide
    ) -> None:
        self._core = core
        self._log = log
        self._leading = leading
        self._following = following

    def is_possible(self, commit_index: LogIndex) -> bool:
        log, last = self._log, self._log.last_index
        is_whole = not (self._following.recovery or self._core.is_candidate)
        is_durable = log.hard_state_durable and log.durable_index == last
        return is_whole and is_durable and commit_index == last

    def is_over(self, now: float, *, leader_lives: bool) -> None:
        self._core.enter(now)
        if self._core.is_leader:
            self._core.count_as_heard()
            self._leading.flush_due = True
        else:
            self._core.postpone_election(now)
            self._following.count_as_heard(now if leader_lives else None)
