"""What `svc-cluster admin` prints of a node's answers, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb

MIB = 1024 * 1024


def status(answer: pb.StatusResponse) -> list[str]:
    standing = "ready" if answer.ready else "not ready"
    failed = [check.name for check in answer.checks if not check.passed]
    storage = answer.storage
    lines = [
        f"node {answer.node_id} of {answer.cluster_id}: {standing}"
        + (", drained" if answer.draining else ""),
        f"release    {answer.version} {answer.revision}".rstrip(),
        f"runs for   {answer.uptime_seconds:.0f} s",
        f"groups     {answer.groups}, {answer.groups_led} led here",
        f"log        {storage.wal_bytes / MIB:.0f} MiB",
        f"disk       {storage.free_bytes / MIB:.0f} of {storage.capacity_bytes / MIB:.0f} MiB free"
        + ("" if storage.takes_appends else ": appends are refused"),
    ]
    if failed:
        lines.append(f"failed     {', '.join(failed)}")
    if answer.waits_for:
        lines.append(f"waits for  {answer.waits_for}")
    lines += [
        f"held       group {row.group_id} ({row.basin or '?'}) is {row.state}: {row.reason}"
        for row in answer.held
    ]
    if answer.held_count > len(answer.held):
        lines.append(f"held       and {answer.held_count - len(answer.held)} more")
    return lines


def members(answer: pb.MembersResponse) -> list[str]:
    return table(
        ("NODE", "ADDRESS", "STANDING", "INCARNATION"),
        (
            (str(row.node_id), row.address, row.standing, row.incarnation or "-")
            for row in answer.members
        ),
    )


def leaders(answer: pb.LeadersResponse) -> list[str]:
    return table(
        ("GROUP", "BASIN", "LEADER", "TERM", "ROLE", "MEMBERS"), map(_leader, answer.groups)
    )


def drain(answer: pb.DrainResponse) -> list[str]:
    given = answer.groups_led - answer.groups_left
    lines = [
        f"{max(given, 0)} of {answer.groups_led} leaderships given away in {answer.seconds:.1f} s"
    ]
    if answer.groups_left:
        lines.append(f"{answer.groups_left} are still led here:")
        lines += leaders(pb.LeadersResponse(groups=answer.left))
    return lines


def configuration(answer: pb.ConfigurationResponse) -> list[str]:
    return [f"{each.key}: {each.value}" for each in answer.settings]


def _leader(row: pb.GroupLeader) -> Sequence[str]:
    return (
        str(row.group_id),
        row.basin or "-",
        str(row.leader or "-"),
        str(row.term),
        row.role,
        ",".join(map(str, row.members)),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns as wide as what is in them."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
