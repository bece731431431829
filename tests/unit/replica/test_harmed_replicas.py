"""Replicas with damaged bytes beside the state store: their logs say so, and nobody else's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import Generation, GroupId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.replica.lost_replicas import LostReplicas
from tests.memory_store import KnownHarm
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.wal_driver import create, entries, open_wal, put


def test_a_harmed_replica_is_distrusted_durably_and_no_other() -> None:
    """It is damaged for this start, and for the next one without the note, which goes once the log
    has it on the disk."""
    disk = FakeDisk()
    wal = open_wal(disk)
    for group in (1, 2):
        put(wal, disk, group, create(generation=group + 6), entries(group, 1, 3))
    harm = KnownHarm({7})
    services: Any = SimpleNamespace(wal=wal, store=SimpleNamespace(harm=harm))
    generations: Any = None
    lost = LostReplicas(services, generations)
    logs = [RecoveredLog(GroupId(group), Generation(group + 6)) for group in (1, 2)]
    assert [lost.checked(log).damaged for log in logs] == [True, False]
    assert harm.generations == {7}, "the log is not synced"
    disk.run()
    assert harm.generations == frozenset()
    again = open_wal(disk.crash()).recovered
    assert [again[GroupId(group)].damaged for group in (1, 2)] == [True, False]
