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
    "SvcNodeLongAway": "nodes",
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
    "SvcScrubOverdue": "content",
    "SvcFollowerLagging": "content",
    "SvcDiskLow": "disk",
    "SvcDiskWillFill": "disk",
    "SvcReadOnly": "disk",
    "SvcCertExpiringSoon": "certificates",
    "SvcCertExpiring": "certificates",
}

NOT_FIRED: Final[Mapping[str, str]] = {}

THRESHOLDS: Final[Mapping[str, tuple[str, str]]] = {
    "SvcScrubOverdue": ("> 7 * 86400", "> 20"),
    "SvcFollowerLagging": ("> 10000", "> 300"),
}
"""Alerts that are fired at a test value, as nothing real reaches the shipped one within minutes:
what stands for it in the rule, and the value."""


def of_scene(scene: str) -> set[str]:
    return {alert for alert, where in FIRED.items() if where == scene}
