"""What is done to the account, counted in the catalog as gateways report it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.model.usage import (
    ACCOUNT_OPS,
    MINUTE_MS,
    UsageReport,
    is_report,
    with_minutes_near,
)
from svc_cluster.model.usage_table import UsageDraft, UsageTable

_REPORTERS_KIND: Final = 250
MINUTES_KIND: Final = 252


@dataclass(frozen=True, slots=True)
class ReportAccountUsage:
    """What a gateway counted. One that was taken before has no effect."""

    at_ms: TimestampMs
    report: UsageReport


def account_table(reader: KeyReader) -> UsageTable:
    """The counts of the account; not held in memory."""
    return UsageTable(reader, MINUTES_KIND, _REPORTERS_KIND)


def take(draft: UsageDraft, command: ReportAccountUsage) -> str | None:
    """Why the report is rejected, or None."""
    if not is_report(command.report, ACCOUNT_OPS):
        return "no gateway writes such a report"
    draft.take(command.report, command.at_ms // MINUTE_MS)
    return None


def sequence_report(
    table: UsageTable, counted: UsageReport, now_ms: TimestampMs
) -> ReportAccountUsage | None:
    """None: it was taken before. Raises InvalidError for what no gateway of ours writes."""
    if not is_report(counted, ACCOUNT_OPS):
        raise InvalidError("no gateway writes such a report")
    if table.was_taken(counted):
        return None
    return ReportAccountUsage(now_ms, with_minutes_near(counted, now_ms // MINUTE_MS))
