"""What nodes tell each other about the formation of their cluster, as bytes."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.model.formation import (
    MEMBERS_MAX,
    RESTORED_LENGTH_MAX,
    ROUND_MAX,
    FormationReport,
    Members,
    Stage,
    are_members,
    holders,
)
from svc_cluster.model.places import PLACES_MAX, Place, Places, are_places, is_incarnation

REPORT_BYTES_MAX: Final = 256 + 64 * (MEMBERS_MAX + PLACES_MAX)


class FormationFormatError(Exception):
    """The bytes are no report; whoever sent them is not listened to."""


def encode_report(report: FormationReport) -> bytes:
    out = pb.FormationReport(
        node_id=report.node_id,
        incarnation=report.incarnation,
        round=report.round,
        stage=int(report.stage),
        restored=report.restored,
        newest=report.newest,
    )
    for node, incarnation in report.members:
        out.members.add(node_id=node, incarnation=incarnation)
    for place in report.places:
        out.places.add(node_id=place.node_id, ordinal=place.ordinal, incarnation=place.incarnation)
    return out.SerializeToString()


def decode_report(data: bytes) -> FormationReport:
    """Raises FormationFormatError, also for a stage that only a later version knows."""
    if len(data) > REPORT_BYTES_MAX:
        raise FormationFormatError(f"a report of {len(data)} bytes")
    try:
        raw = pb.FormationReport.FromString(data)
        stage = Stage(raw.stage)
    except (DecodeError, ValueError) as cause:
        raise FormationFormatError("not a report on a formation") from cause
    members = tuple((NodeId(node.node_id), node.incarnation) for node in raw.members)
    places = tuple(
        Place(NodeId(place.node_id), place.ordinal, place.incarnation) for place in raw.places
    )
    has_list = stage in (Stage.DRAFTED, Stage.FORMED)
    if (
        raw.round > ROUND_MAX
        or len(raw.restored) > RESTORED_LENGTH_MAX
        or not is_incarnation(raw.incarnation)
        or not are_members(members)
        or not are_places(places)
        or has_list != bool(members)
        or (has_list and not _is_named(NodeId(raw.node_id), raw.incarnation, members, places))
    ):
        raise FormationFormatError("a report on a formation that contradicts itself")
    return FormationReport(
        NodeId(raw.node_id),
        raw.incarnation,
        raw.round,
        stage,
        members,
        places,
        raw.restored,
        raw.newest,
    )


def _is_named(node_id: NodeId, incarnation: str, members: Members, places: Places) -> bool:
    """A directory that lost its place is named by the list, the one that has it by the place."""
    own = (node_id, incarnation)
    return own in members or own in holders(members, places)
