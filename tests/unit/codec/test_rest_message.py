"""Messages about groups at rest, on the wire."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import peer_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, LogIndex, Term
from svc_cluster.codec.peer_message import decode_members, encode_message, payload_bytes
from svc_cluster.link.credit import MESSAGE_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.raft.messages import (
    REST_LIST_MAX,
    Beat,
    RestKind,
    RestList,
    RestMark,
    RestMessage,
)

LONGEST = RestList(
    tuple((GroupId(2**34 + number), Term(2**55 + number)) for number in range(REST_LIST_MAX))
)


@pytest.mark.parametrize(
    "message",
    [
        *(RestMark(Term(4), kind, LogIndex(9), 3) for kind in RestKind),
        Beat(2**64 - 1, 5, 2**63 + 1, lists=True),
        Beat(1, 0, 0, lists=False),
        RestList(()),
        RestList(((GroupId(3), Term(8)), (GroupId(5), Term(1)))),
    ],
)
def test_a_message_comes_back(message: RestMessage) -> None:
    """As it was."""
    found = decode_members([encode_message(CATALOG_GROUP, message)], None)
    assert found.faults == []
    assert found.messages == [(CATALOG_GROUP, message)]


def test_the_longest_list_fits_an_urgent_message() -> None:
    """With ids and terms that no cluster reaches."""
    encoded = encode_message(CATALOG_GROUP, LONGEST)
    assert len(encoded) <= payload_bytes(LONGEST)
    assert len(encoded) < MESSAGE_BYTES_MAX[FrameKind.URGENT] - 64


def _with(**body: dict[str, object]) -> bytes:
    message = pb.GroupMessage(group_id=1)
    for name, fields in body.items():
        part = getattr(message, name)
        part.SetInParent()
        part.MergeFrom(type(part)(**fields))
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize(
    "member",
    [
        _with(rest_mark={"kind": 4}),
        _with(rest_mark={}),
        _with(rest_mark={"kind": 1, "log_index": 2**63}),
        _with(rest_mark={"kind": 1, "number": 2**63}),
        _with(beat={"count": 2**63}),
        _with(rest_list={"groups": [1]}),
        _with(rest_list={"groups": [2**63], "terms": [1]}),
        _with(rest_list={"groups": [1] * (REST_LIST_MAX + 1), "terms": [1] * (REST_LIST_MAX + 1)}),
    ],
)
def test_what_is_none_of_them_is_not_read(member: bytes) -> None:
    """A kind, number or length that nobody sends."""
    found = decode_members([member], None)
    assert found.messages == []
    assert len(found.faults) == 1
