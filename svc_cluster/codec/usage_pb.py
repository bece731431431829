"""Reports and counts of usage, as messages and back. Only shapes change here."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import usage_pb2 as pb
from svc_cluster.base.errors import InvalidError
from svc_cluster.model.usage import REPORT_MINUTES_MAX, REPORT_OPS_MAX, Counts, UsageReport


def put_report(into: pb.Report, report: UsageReport) -> None:
    into.reporter = report.reporter
    into.sequence = report.sequence
    for minute, counts in report.minutes:
        put_counts(into.minutes.add(), minute, counts)


def check_lengths(message: pb.Report) -> None:
    """Raises InvalidError for a report of more minutes than any gateway writes.

    It does so too for more operations in one of them. It is asked before anything is made of the
    report."""
    minutes = message.minutes
    if len(minutes) > REPORT_MINUTES_MAX or any(len(one.ops) > REPORT_OPS_MAX for one in minutes):
        raise InvalidError("no gateway writes such a report")


def get_report(message: pb.Report) -> UsageReport:
    return UsageReport(
        message.reporter,
        message.sequence,
        tuple(get_counts(counts) for counts in message.minutes),
    )


def put_counts(into: pb.Counts, at: int, counts: Counts) -> None:
    into.at = at
    into.append_ops_standard = counts.append_ops_standard
    into.append_ops_express = counts.append_ops_express
    into.append_bytes_standard = counts.append_bytes_standard
    into.append_bytes_express = counts.append_bytes_express
    into.read_ops_unary = counts.read_ops_unary
    into.read_ops_streaming = counts.read_ops_streaming
    into.read_bytes = counts.read_bytes
    for op, count in sorted(counts.ops.items()):
        into.ops.add(op=op, count=count)


def get_counts(message: pb.Counts) -> tuple[int, Counts]:
    counts = Counts(
        message.append_ops_standard,
        message.append_ops_express,
        message.append_bytes_standard,
        message.append_bytes_express,
        message.read_ops_unary,
        message.read_ops_streaming,
        message.read_bytes,
        {one.op: one.count for one in message.ops},
    )
    return message.at, counts
