"""One node's log, damaged and opened again, in this process: is every group whole or damaged?"""

from __future__ import annotations

import asyncio
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from svc_cluster.base.ids import GroupId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.replica.identity import open_identity
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from tests.corruption import damage
from tests.corruption.dataset import SETTINGS, Dataset

MIB = 1024 * 1024
Logs = dict[GroupId, RecoveredLog]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is unharmed, truncated, refused (found, waits for its peers) or wrong."""

    outcome: str
    what: str


class _UnsyncedDisk(RealDisk):
    """Trials never cut the power, so what is read again needs no sync."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, loop, native=False)

    def _sync(self, handle: int) -> None:
        pass

    def _sync_directory(self) -> None:
        pass


def open_logs(dataset: Dataset, node: Path) -> tuple[Logs, bool]:
    """What a node would find at its start, and whether it knows that replicas may be missing from
    it, which it then distrusts. Repairs what a start repairs."""
    loop = asyncio.new_event_loop()
    disk = _UnsyncedDisk(node / "wal", loop)
    try:
        number = int(node.name.removeprefix("node-"))
        rng = random.Random(1)
        identity = open_identity(disk, dataset.cluster_id, number, rng)  # type: ignore[arg-type]
        settings = WalSettings(segment_bytes=SETTINGS["wal_segment_mib"] * MIB, reserve_bytes=0)
        wal = Wal.open(disk, identity.tag, settings)
        logs, has_losses = wal.recovered, wal.has_losses
        loop.run_until_complete(wal.close())
        return logs, has_losses
    finally:
        disk.close()
        loop.close()


class WalTrials:
    """Trials on the log of one node. Each works on the same copy, restored before it."""

    def __init__(self, dataset: Dataset, node: int, scratch: Path) -> None:
        self._dataset = dataset
        self._source = dataset.directory / f"node-{node}"
        self._node = scratch / f"node-{node}"
        self._restore()
        self._expected, has_losses = open_logs(dataset, self._node)
        assert not has_losses
        assert self._expected, "the data set holds groups"
        assert not any(log.damaged for log in self._expected.values()), "and is whole"

    def damaged(self, kind: str, seed: int) -> Verdict:
        self._restore()
        what = damage.WAL[kind](self._node, random.Random(seed))
        return self._judge(what, torn=False)

    def torn(self, distance: int, fill: str) -> Verdict:
        self._restore()
        what = damage.torn_tail(self._node, distance, fill, random.Random(distance))
        return self._judge(what, torn=True)

    def _restore(self) -> None:
        shutil.rmtree(self._node, ignore_errors=True)
        shutil.copytree(self._source / "wal", self._node / "wal")

    def _judge(self, what: str, *, torn: bool) -> Verdict:
        worst = "unharmed"
        for start in ("first", "second"):
            found, has_losses = open_logs(self._dataset, self._node)
            for group, expected in self._expected.items():
                log = found.get(group)
                if log is None:
                    outcome = "refused" if has_losses else "wrong"
                else:
                    outcome = _compare(expected, log, torn=torn)
                if outcome == "wrong":
                    return Verdict("wrong", f"{what}: group {group} at the {start} start")
                if outcome == "refused" or worst == "unharmed":
                    worst = outcome
        return Verdict(worst, what)


def _compare(expected: RecoveredLog, found: RecoveredLog, *, torn: bool) -> str:
    known = {entry.log_index: entry for entry in expected.entries}
    if any(known.get(entry.log_index, entry) != entry for entry in found.entries):
        return "wrong"
    if found.damaged:
        return "refused"
    same = (found.base_index, found.term, found.voted_for, found.entries) == (
        expected.base_index,
        expected.term,
        expected.voted_for,
        expected.entries,
    )
    if same:
        return "unharmed"
    return "truncated" if torn and found.last_index <= expected.last_index else "wrong"
