"""What `svc-cluster admin` prints of the cluster as a whole, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.cli.terminal import table
from svc_cluster.model.versions import release_of

MIB = 1024 * 1024
WRONG_ROLES = frozenset({"absent", "none", "stopped", "parked", "candidate"})


def status(answer: pb.ClusterResponse) -> list[str]:
    lines = [f"cluster {answer.cluster_id}: {_word(answer)}"]
    if answer.active_version:
        active, newest = answer.active_version, answer.newest_version
        lines.append(
            f"version    {active} (release {release_of(active)}) is active"
            + (f", {newest} is spoken" if newest > active else "")
        )
    lines.append(f"basins     {answer.basins}")
    lines.append(f"catalog    led by {_node(answer.catalog_leader)}")
    lines += table(
        (
            "NODE",
            "STANDING",
            "RELEASE",
            "GROUPS",
            "LED",
            "LAG",
            "LOG MIB",
            "FREE MIB",
            "MEMORY MIB",
        ),
        map(_node_row, answer.nodes),
    )
    lines += _prefixed("wrong", answer.problems)
    lines += _prefixed("waits", answer.outstanding)
    return lines


def _node_row(node: pb.ClusterNode) -> tuple[str, ...]:
    if not node.release:
        return (str(node.node_id), node.standing, *["-"] * 7)
    return (
        str(node.node_id),
        "drained" if node.draining else node.standing,
        node.release,
        str(node.groups),
        str(node.groups_led),
        str(node.lag_entries),
        str(node.wal_bytes // MIB),
        str(node.free_bytes // MIB),
        f"{node.memory_bytes // MIB} of {node.memory_bytes_max // MIB}",
    )


def health(answer: pb.ClusterResponse) -> list[str]:
    return [_word(answer), *_prefixed("wrong", answer.problems)]


def _word(answer: pb.ClusterResponse) -> str:
    count = len(answer.problems)
    return "healthy" if not count else "1 problem" if count == 1 else f"{count} problems"


def _prefixed(word: str, sentences: Iterable[str]) -> list[str]:
    return [f"{word:<11}{sentence}" for sentence in sentences]


def _node(number: int) -> str:
    return f"node {number}" if number else "nobody"


def basin(answer: pb.BasinResponse) -> list[str]:
    who = "the catalog" if answer.group_id == CATALOG_GROUP else f"basin {answer.basin}"
    lines = [
        f"{who}: group {answer.group_id}, led by {_node(answer.leader)}"
        + (", being deleted" if answer.deleted else "")
    ]
    if answer.frozen:
        lines.append(f"frozen: {answer.frozen}")
    if answer.HasField("move"):
        lines.append(_move(answer.move))
    if answer.last_move:
        lines.append(answer.last_move)
    lines += table(
        ("NODE", "ROLE", "TERM", "APPLIED", "COMMIT", "LAST", "LOG MIB", "DIGEST", "STORED MIB"),
        map(_replica_row, answer.replicas),
    )
    return lines + _prefixed("wrong", basin_faults(answer))


def _move(move: pb.BasinMove) -> str:
    """How far an open change of the basin's members is."""
    to = ",".join(map(str, move.to))
    if move.given_up:
        return f"moves to {to} ({move.reason}): it is being given up"
    step = "the next members begin" if move.sealing else "the next members are being prepared"
    return f"moves to {to} ({move.reason}): {move.waits or step}"


def _replica_row(row: pb.BasinReplica) -> tuple[str, ...]:
    if not row.digest:
        return (str(row.node_id), row.role, *["-"] * 7)
    return (
        str(row.node_id),
        f"{row.role}, recovering" if row.recovering else row.role,
        str(row.term),
        str(row.applied_index),
        str(row.commit_index),
        str(row.last_index),
        str(row.log_bytes // MIB),
        row.digest,
        str(row.stored_bytes // MIB),
    )


def basin_faults(answer: pb.BasinResponse) -> list[str]:
    """One sentence for each thing that is wrong."""
    out = [] if answer.leader else ["nobody leads it"]
    if answer.diverged:
        out.append("replicas that have applied the same entries hold different things")
    for row in answer.replicas:
        who = f"the replica on node {row.node_id}"
        if row.role in WRONG_ROLES:
            out.append(f"{who} is {row.role}{f': {row.reason}' if row.reason else ''}")
        elif row.recovering:
            out.append(f"{who} is being made whole")
    return out


def drain(answer: pb.DrainNodeResponse) -> list[str]:
    said = f"node {answer.node_id} is {answer.state}"
    if answer.empty:
        return [f"{said}: nothing is left on it"]
    leads = f"{answer.leads} leads" if answer.answers else "leads that it does not tell"
    lines = [f"{said}: {leads} and {answer.replicas} replicas are on it"]
    if answer.holds_catalog:
        lines.append("it votes in the catalog, until another node can")
    if answer.alone:
        lines.append(f"{answer.alone} basins have their only replica there, which nothing moves")
    return lines


def placement(answer: pb.PlanPlacementResponse) -> list[str]:
    if not answer.changes and answer.open:
        return [rebalance_line(answer), *_open_moves(answer)]
    if not answer.changes:
        leads = f"{len(answer.transfers)} leads are uneven: svc-cluster admin leader balance"
        return ["every replica is where it should be", *([leads] if answer.transfers else [])]
    rows = [
        (str(each.group_id), each.basin or "-", str(each.from_node), str(each.to_node), each.reason)
        for each in answer.changes
    ]
    lines = table(("GROUP", "BASIN", "FROM", "TO", "REASON"), rows)
    return [*lines, "and more behind these"] if answer.has_more else lines


def rebalanced(answer: pb.PlanPlacementResponse) -> list[str]:
    return [rebalance_line(answer), *_open_moves(answer)]


def rebalance_line(answer: pb.PlanPlacementResponse) -> str:
    """How far it is, in one line."""
    said = f"{answer.begun} moves begun, {len(answer.open)} of all moves are open"
    if answer.given_up:
        said += f", {answer.given_up} given up"
    if answer.waits:
        said += f"; {answer.waits}"
    return f"every replica is where it should be: {said}" if answer.done else said


def _open_moves(answer: pb.PlanPlacementResponse) -> list[str]:
    if not answer.open:
        return []
    rows = [
        (
            str(each.group_id),
            each.basin or "-",
            ",".join(map(str, each.to)),
            f"{each.reason}, being given up" if each.given_up else each.reason,
        )
        for each in answer.open
    ]
    return table(("GROUP", "BASIN", "TO", "REASON"), rows)


def leaders(answer: pb.LeadersResponse) -> list[str]:
    counts = Counter(row.leader for row in answer.groups)
    lines = [f"{_node(number)} leads {count}" for number, count in sorted(counts.items())]
    return lines + table(
        ("GROUP", "BASIN", "LEADER", "MEMBERS"),
        (
            (
                str(row.group_id),
                row.basin or "-",
                str(row.leader or "-"),
                ",".join(map(str, row.members)),
            )
            for row in answer.groups
        ),
    )


def moved(answer: pb.TransferLeaderResponse) -> list[str]:
    if answer.from_node == answer.leader:
        return [f"group {answer.group_id} is led by node {answer.leader} already"]
    return [
        f"group {answer.group_id} is led by node {answer.leader}, no longer by {answer.from_node}"
    ]


def balance_plan(answer: pb.BalanceLeadersResponse) -> list[str]:
    """Return the lines of a round that was only told."""
    if not answer.moves:
        return [*_counts(answer), "there is nothing to move"]
    return [*_counts(answer), *_moves(answer.moves)]


def balanced(answer: pb.BalanceLeadersResponse) -> list[str]:
    left = [move for move in answer.moves if not move.done]
    lines = [*_counts(answer), f"{answer.moved} leads moved"]
    if left:
        lines += [f"{len(left)} could not be moved:", *_moves(left)]
    return lines


def _counts(answer: pb.BalanceLeadersResponse) -> list[str]:
    return [
        f"node {row.node_id} led {row.led}" + (", and takes none now" if row.avoids_leads else "")
        for row in answer.counts
    ]


def _moves(moves: Iterable[pb.LeadMove]) -> list[str]:
    return table(
        ("GROUP", "BASIN", "FROM", "TO"),
        (
            (str(each.group_id), each.basin or "-", str(each.from_node), str(each.to_node))
            for each in moves
        ),
    )
