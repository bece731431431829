"""When the last backup was finished, by the words of commands whose clocks may be wrong."""

from __future__ import annotations

from pathlib import Path

from svc_cluster.administration.last_backup import AHEAD_MS_MAX, LastBackup

NOW_MS = 1_800_000_000_000


def test_the_newest_is_told_and_kept_unless_it_lies_in_the_future(tmp_path: Path) -> None:
    """Earlier ones change nothing, also behind a restart; what a clock said that was ahead is told,
    which an alert sees, and gives way to the next word that is not."""
    shown: list[float] = []

    def opened() -> LastBackup:
        return LastBackup(tmp_path, shown.append, lambda: NOW_MS)

    last = opened()
    last.taken(NOW_MS - 5_000)
    last.taken(NOW_MS - 9_000)
    assert shown == [(NOW_MS - 5_000) / 1000]
    last.taken(NOW_MS + AHEAD_MS_MAX)
    last.taken(NOW_MS)
    ahead = (NOW_MS + AHEAD_MS_MAX) / 1000
    assert shown[1:] == [ahead]
    last.taken(NOW_MS + AHEAD_MS_MAX + 1)
    last = opened()
    assert shown[2:] == [ahead + 0.001, ahead + 0.001]
    last.taken(NOW_MS - 1_000)
    assert shown[4:] == [(NOW_MS - 1_000) / 1000]
    opened()
    assert shown[5:] == [(NOW_MS - 1_000) / 1000]
