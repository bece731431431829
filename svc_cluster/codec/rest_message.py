"""The part of a message that tells of groups at rest, and of the nodes that answer for them."""

from __future__ import annotations

from typing import assert_never

from svc_cluster._pb.cluster.v1 import peer_pb2 as pb
from svc_cluster.base.ids import GroupId, LogIndex, Term
from svc_cluster.raft.messages import (
    REST_LIST_MAX,
    Beat,
    RestKind,
    RestList,
    RestMark,
    RestMessage,
)


class RestMessageError(Exception):
    """What was received is not such a message."""


def put_rest(out: pb.GroupMessage, message: RestMessage) -> None:
    """Put it into a GroupMessage, which has group and term already."""
    match message:
        case RestMark():
            out.rest_mark.kind = message.kind
            out.rest_mark.log_index = message.log_index
            out.rest_mark.number = message.number
        case Beat():
            out.beat.boot = message.boot
            out.beat.count = message.count
            out.beat.digest = message.digest
            out.beat.lists = message.lists
        case RestList():
            assert len(message.groups) <= REST_LIST_MAX, "a list has a greatest length"
            out.rest_list.SetInParent()
            out.rest_list.groups.extend(group_id for group_id, _ in message.groups)
            out.rest_list.terms.extend(term for _, term in message.groups)
        case _:
            assert_never(message)


def rest_message(term: Term, message: pb.GroupMessage, number_max: int) -> RestMessage:
    """What a GroupMessage holds, of that term. No number in it is above `number_max`. Raises
    RestMessageError."""
    if message.HasField("rest_mark"):
        return _rest_mark(term, message.rest_mark, number_max)
    if message.HasField("beat"):
        body = message.beat
        _check(body.count, number_max)
        return Beat(body.boot, body.count, body.digest, body.lists)
    groups, terms = message.rest_list.groups, message.rest_list.terms
    if len(groups) != len(terms) or len(groups) > REST_LIST_MAX:
        raise RestMessageError(f"a list of {len(groups)} groups and {len(terms)} terms")
    for number in (*groups, *terms):
        _check(number, number_max)
    listed = zip(groups, terms, strict=True)
    return RestList(tuple((GroupId(group_id), Term(of)) for group_id, of in listed))


def _rest_mark(term: Term, body: pb.RestMark, number_max: int) -> RestMark:
    try:
        kind = RestKind(body.kind)
    except ValueError as error:
        raise RestMessageError("a mark of rest of unknown kind") from error
    _check(body.log_index, number_max)
    _check(body.number, number_max)
    return RestMark(term, kind, LogIndex(body.log_index), body.number)


def _check(number: int, number_max: int) -> None:
    if number > number_max:
        raise RestMessageError("a number out of range")
