"""What `svc-cluster admin` prints of a node's answers, for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.cli.terminal import table
from svc_cluster.model.versions import release_of

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
        ("NODE", "ADDRESS", "STANDING", "STATE", "HOST", "ZONE", "INCARNATION", "NOTE"),
        (
            (
                str(row.node_id),
                row.address,
                row.standing,
                *(text or "-" for text in (row.state, row.host, row.zone, row.incarnation)),
                _note(row),
            )
            for row in answer.members
        ),
    )


def _note(row: pb.Member) -> str:
    if row.replacing:
        return "takes the place of a lost data directory"
    return "came up empty: admin member replace" if row.asks else "-"


def added(token_file: Path | None, answer: pb.AddMemberResponse) -> list[str]:
    """The token stands alone in the last line, where it is told at all."""
    until = datetime.fromtimestamp(answer.expires_at_ms // 1000, UTC)
    told = (
        f"node {answer.node_id} may come to the cluster until {until:%Y-%m-%d %H:%M:%S} UTC, once"
    )
    if token_file is not None:
        return [f"{told}; its join token is in {token_file}"]
    return [f"{told}, with this join token, which is not told again:", answer.join_token]


def left(answer: pb.RemoveMemberResponse) -> list[str]:
    return [
        f"node {answer.node_id} does not belong to the cluster; if it did, its directory never "
        "will again"
    ]


def replaced(lost: int, answer: pb.ReplaceMemberResponse) -> list[str]:
    lines = [f"lost       {name}" for name in answer.lost_basins]
    if answer.lost_basins_count > len(answer.lost_basins):
        lines.append(f"lost       and {answer.lost_basins_count - len(answer.lost_basins)} more")
    if answer.refused:
        lines.append(f"nothing was done: with node {lost} these basins are lost; use --yes")
    else:
        lines.append(f"node {lost} is replaced: directory {answer.ordinal + 1} of its place")
    return lines


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


def version(answer: pb.VersionResponse) -> list[str]:
    lines = [f"active version {answer.active} (release {release_of(answer.active)})"]
    return [*lines, *processes(answer)]


def upgrade(answer: pb.VersionResponse) -> list[str]:
    active = answer.active
    if active >= answer.newest:
        return [f"nothing to finalize: version {active} is active, the newest of this release"]
    following = f"version {active + 1} (release {release_of(active + 1)})"
    lines = [f"version {active} (release {release_of(active)}) is active, {following} is not yet"]
    if answer.why_not:
        lines.append(f"it cannot be finalized: {answer.why_not}")
    else:
        lines.append(f"every process speaks {following}: svc-cluster admin upgrade finalize --yes")
    return [*lines, *processes(answer)]


def processes(answer: pb.VersionResponse) -> list[str]:
    return table(
        ("PROCESS", "INCARNATION", "NEWEST", "RELEASE"),
        (
            (
                f"node {row.node_id}" if row.role == "node" else row.role,
                row.incarnation,
                str(row.newest or "-"),
                row.release or "not connected",
            )
            for row in answer.processes
        ),
    )


def _leader(row: pb.GroupLeader) -> Sequence[str]:
    return (
        str(row.group_id),
        row.basin or "-",
        str(row.leader or "-"),
        str(row.term),
        row.role,
        ",".join(map(str, row.members)),
    )
