"""Operations on the account, counted in the catalog as gateways report them."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import LogIndex, Term, TimestampMs
from svc_cluster.catalog.account_usage import ReportAccountUsage, sequence_report
from svc_cluster.catalog.active_version import RaiseActiveVersion
from svc_cluster.catalog.catalog_state import (
    CatalogApplied,
    CatalogPlan,
    CatalogRejected,
    CatalogState,
)
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.model import versions
from svc_cluster.model.usage import (
    FINE_MINUTES,
    MINUTE_MS,
    REPORTER_BYTES,
    Counts,
    UsageReport,
)
from tests.unit.stream.support import MemoryStore

MINUTE = 30_000_000
REPORTER = b"r" * REPORTER_BYTES


class Catalog:
    """A state over a store; every command goes through its bytes."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.state = CatalogState(self.store)

    def apply(self, *commands: ReportAccountUsage | RaiseActiveVersion) -> CatalogPlan:
        decoded = decode_catalog_entry(encode_catalog_entry(list(commands)))
        assert decoded == list(commands)
        index = LogIndex(self.state.applied_index + 1)
        plan = self.state.plan(index, Term(1), decoded)
        self.store.write(plan.write_set)
        self.state.commit(plan)
        return plan

    def rows(self) -> list[tuple[int, Counts]]:
        """As they are, and as a restart finds them."""
        found = self.state.usage.rows(0, 2**40, 1000)
        assert CatalogState(self.store).usage.rows(0, 2**40, 1000) == found
        return found


def command(sequence: int, minute: int = MINUTE, **ops: int) -> ReportAccountUsage:
    named = {op.replace("_", "-"): count for op, count in ops.items()}
    report = UsageReport(REPORTER, sequence, ((minute, Counts(ops=named)),))
    return ReportAccountUsage(TimestampMs(minute * MINUTE_MS), report)


def test_reports_add_up_and_count_once() -> None:
    """Also twice in an entry, late, and after a restart."""
    catalog = Catalog()
    catalog.apply(command(2, list_basins=1, create_basin=1))
    catalog.apply(command(2, list_basins=1), command(1, list_basins=9), command(3, list_basins=4))
    catalog.state = CatalogState(catalog.store)
    catalog.apply(command(3, list_basins=4))
    assert catalog.rows() == [(MINUTE, Counts(ops={"create-basin": 1, "list-basins": 5}))]


def test_what_no_gateway_reports_is_refused_and_rejected() -> None:
    """An operation on a basin, bytes of appends, an unknown word: without effect."""
    catalog = Catalog()
    good = command(1, list_basins=1)
    for counts in (
        Counts(ops={"create-stream": 1}),
        Counts(ops={"nothing": 1}),
        Counts(append_bytes_express=1),
    ):
        report = UsageReport(REPORTER, 1, ((MINUTE, counts),))
        with pytest.raises(InvalidError):
            sequence_report(catalog.state.usage, report, good.at_ms)
        plan = catalog.apply(ReportAccountUsage(good.at_ms, report))
        assert [type(outcome) for outcome in plan.outcomes] == [CatalogRejected]
        assert catalog.rows() == []
    assert isinstance(catalog.apply(good).outcomes[0], CatalogApplied)
    assert sequence_report(catalog.state.usage, good.report, good.at_ms) is None


def test_old_minutes_become_hours_once_the_active_version_says_so() -> None:
    """In the catalog's own log that is said by the command that raises it."""
    catalog = Catalog()
    catalog.apply(RaiseActiveVersion(versions.USAGE_HOURS, ()))
    hour = MINUTE // 60 * 60
    for number, minute in enumerate((hour + 3, hour + 9), start=1):
        catalog.apply(command(number, minute, list_basins=1))
    late = hour + FINE_MINUTES + 60
    catalog.apply(command(3, late, list_basins=1))
    found = Counts(ops={"list-basins": 2}), Counts(ops={"list-basins": 1})
    assert catalog.rows() == list(zip((hour, late), found, strict=True))


def test_old_minutes_go() -> None:
    catalog = Catalog()
    for number, minute in enumerate((MINUTE, MINUTE + 1, MINUTE + 1 + FINE_MINUTES), start=1):
        catalog.apply(command(number, minute, list_basins=1))
    assert [minute for minute, _ in catalog.rows()] == [MINUTE + 1, MINUTE + 1 + FINE_MINUTES]
