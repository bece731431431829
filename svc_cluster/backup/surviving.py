"""Which of a group's surviving replicas is gone on with, and what may be missing of it. Pure.

An acknowledged entry is durable in a quorum of the group's members, so it is in one of the
survivors as soon as these are more than what a quorum leaves out. Of two logs the one with the
later last term has all that was acknowledged in the other, and of one term the longer one, by the
rule that elections go by as well (svc_cluster/raft/README.md): who led that term had everything of
the terms before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svc_cluster.base.configuration import configuration_of
from svc_cluster.base.ids import LogIndex, NodeId, Term


@dataclass(frozen=True, slots=True)
class SurvivingReplica:
    """What is left of a group in one data directory."""

    node_id: NodeId
    last_term: Term
    last_index: LogIndex
    is_whole: bool
    """Log and state have everything that this replica ever had durable."""
    members: tuple[NodeId, ...] | None = None
    """The members of its configuration, where the log says so."""
    is_sealed: bool = False
    """Its log ends with a seal: other members may have gone on."""
    lacks_rows: bool = False
    """Some of its rows cannot be read, and are left out."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The replica that is gone on with."""

    node_id: NodeId
    doubt: str
    """Why a later entry may have been acknowledged; empty: none was."""


def choose(
    replicas: Sequence[SurvivingReplica], members: Sequence[NodeId], configuration: int = 0
) -> Chosen:
    """Choose among the survivors of a group, which are one at least, each of another node.
    `members` and `configuration` are the group's by the catalog; a log that names its members goes
    by these. A damaged replica is taken only where there is no whole one, and one
    that lacks rows only where all do."""
    whole = [replica for replica in replicas if replica.is_whole]
    read = [replica for replica in replicas if not replica.lacks_rows]
    best = max(
        whole or read or replicas, key=lambda one: (one.last_term, one.last_index, -one.node_id)
    )
    if not whole:
        return Chosen(best.node_id, "what is left of it is damaged")
    of = best.members or tuple(members)
    number = configuration_of(best.last_term)
    if best.is_sealed or configuration > number:
        return Chosen(best.node_id, "its members were changed, and the next ones are not here")
    here = [
        replica.node_id
        for replica in whole
        if replica.node_id in of and configuration_of(replica.last_term) == number
    ]
    quorum = len(of) // 2 + 1
    if len(here) + quorum > len(of):
        return Chosen(best.node_id, "")
    names = ", ".join(map(str, sorted(here))) or "none"
    return Chosen(
        best.node_id,
        f"of its {len(of)} replicas only these are here and whole: {names}",
    )
