"""Which alert is fired by which scene, and why one is not: a test of `tests/tidy` keeps it whole,
and each scene has to fire all of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIRED: Final[Mapping[str, str]] = {
    "SvcUpgradeOutstanding": "nodes",
    "SvcSlowSync": "nodes",
    "SvcAppendLatencyHigh": "nodes",
    "SvcQuotaNearlyUsed": "nodes",
    "SvcClockAway": "nodes",
    "SvcEventLoopBlocked": "nodes",
    "SvcBackupStale": "nodes",
    "SvcNodeDown": "nodes",
    "SvcTooFewNodes": "nodes",
    "SvcNoLeader": "nodes",
    "SvcHighErrorRate": "nodes",
    "SvcVeryHighErrorRate": "nodes",
    "SvcHighLeaderChanges": "nodes",
    "SvcNodeRefused": "nodes",
    "SvcNotFormed": "nodes",
    "SvcGatewayDown": "nodes",
    "SvcGroupStopped": "faults",
    "SvcGroupParked": "faults",
    "SvcLoopFault": "faults",
    "SvcStateDivergence": "content",
    "SvcScrubInDoubt": "content",
    "SvcDiskLow": "disk",
    "SvcDiskWillFill": "disk",
    "SvcReadOnly": "disk",
    "SvcCertExpiringSoon": "certificates",
    "SvcCertExpiring": "certificates",
}

NOT_FIRED: Final[Mapping[str, str]] = {
    "SvcFollowerLagging": "one leader has to be ten thousand entries ahead: under the load of the "
    "other scenes that was not reached within two minutes, a fifth of what all of them may take",
    "SvcScrubOverdue": "its bound of seven days is counted by a monotonic clock from the start of "
    "the process on, which no fault of a disk, network or wall clock moves: promtool plays it",
}


def of_scene(scene: str) -> set[str]:
    return {alert for alert, where in FIRED.items() if where == scene}
