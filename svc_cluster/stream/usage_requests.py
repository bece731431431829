"""What comes of a report of usage, and when a basin begins to count: decisions of the leader."""

from __future__ import annotations

from svc_cluster.base.errors import InvalidError, UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.usage import (
    BASIN_OPS,
    MINUTE_MS,
    UsageReport,
    is_report,
    with_minutes_near,
)
from svc_cluster.stream import provision_rules
from svc_cluster.stream.basin_usage import BasinUsage
from svc_cluster.stream.commands import CountUsage, KeepUsage, ReportUsage
from svc_cluster.stream.effects import View


def report(
    view: View, usage: BasinUsage, counted: UsageReport, now_ms: TimestampMs
) -> ReportUsage | None:
    """None: it was taken before. Raises InvalidError (no gateway of ours writes this),
    UnavailableError (nothing is counted yet, or the basin is still being created),
    BasinDeletionPendingError."""
    if not is_report(counted, BASIN_OPS):
        raise InvalidError("no gateway writes such a report")
    provision_rules.open_basin(view)
    if not usage.counts:
        raise UnavailableError("the basin's usage is not counted yet")
    if usage.table.was_taken(counted):
        return None
    return ReportUsage(now_ms, with_minutes_near(counted, now_ms // MINUTE_MS))


def begin(view: View, usage: BasinUsage, now_ms: TimestampMs) -> CountUsage | None:
    """For a basin from before usage was counted. None: it is. Raises UnavailableError,
    BasinDeletionPendingError."""
    provision_rules.open_basin(view)
    return None if usage.counts else CountUsage(now_ms)


def keep_hours(view: View, usage: BasinUsage) -> KeepUsage | None:
    """For a basin whose log does not say yet that hours are kept. None: it does. Raises
    UnavailableError, BasinDeletionPendingError."""
    provision_rules.open_basin(view)
    return KeepUsage() if usage.counts and not usage.keeps_hours else None
