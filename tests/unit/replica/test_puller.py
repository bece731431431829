"""What another replica tells is taken only where it could have been written."""

from __future__ import annotations

from typing import Any, cast

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.configuration import encode_configuration, first_configuration
from svc_cluster.base.ids import NodeId
from svc_cluster.codec.peer_message import NUMBER_MAX
from svc_cluster.raft.feed import FEED_ENTRIES_MAX, Feed
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.replica.puller import Puller


class Group:
    """A replica that takes what it is told, and counts it."""

    def __init__(self) -> None:
        self.engine = self
        self.seam = self
        self.last_index = 0
        self.taken: list[Feed] = []

    def take(self, feed: Feed) -> None:
        self.taken.append(feed)
        self.last_index += len(feed.entries)


def told(entries: list[tuple[int, bytes]]) -> pb.Committed:
    found = pb.Committed(configuration=encode_configuration(first_configuration([NodeId(2)])))
    for term, payload in entries:
        found.entries.add(term=term, payload=payload)
    return found


def taken(committed: pb.Committed) -> tuple[bool, int, Group]:
    group = Group()
    puller = Puller(NodeId(1), cast(Any, None), cast(Any, None), cast(Any, None), print)
    return puller._take(cast(Any, group), cast(Any, group), committed), puller.pulled, group


@pytest.mark.parametrize(
    "entries",
    [
        [(1, b"x")] * (FEED_ENTRIES_MAX + 1),
        [(1, b"x"), (1, b"")],
        [(1, bytes(ENTRY_BYTES_MAX + 1))],
        [(NUMBER_MAX + 1, b"x")],
    ],
    ids=["too many", "an empty one", "too long", "a term out of range"],
)
def test_what_no_replica_tells_is_not_taken(entries: list[tuple[int, bytes]]) -> None:
    """None of it, and no more is asked for at once."""
    has_more, pulled, group = taken(told(entries))
    assert (has_more, pulled, group.taken) == (False, 0, [])


def test_as_much_as_may_be_told_is_taken() -> None:
    for entries in ([(1, b"x")] * FEED_ENTRIES_MAX, [(NUMBER_MAX, bytes(ENTRY_BYTES_MAX))]):
        has_more, pulled, group = taken(told(entries))
        assert (has_more, pulled, len(group.taken)) == (True, len(entries), 1)
        assert [(one.term, one.payload) for one in group.taken[0].entries] == entries
