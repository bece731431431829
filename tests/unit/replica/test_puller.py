"""What another replica tells is taken only where it could have been written."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.configuration import encode_configuration, first_configuration
from svc_cluster.base.ids import CATALOG_GROUP, NodeId
from svc_cluster.catalog.group_change import GroupChange
from svc_cluster.catalog.own_group import CatalogGroup
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


@pytest.mark.parametrize("leader", [4, None, 99])
def test_who_is_to_become_a_member_asks_the_leader_every_other_time(leader: int | None) -> None:
    """However many others there are, so that the leader hears within a second that it is ready. Who
    is not to become one asks all in turn, and so does whoever knows no leader, or one that is none.
    """
    sources = [NodeId(number) for number in range(2, 22)]
    row = CatalogGroup(tuple(sources[:3]))
    change = GroupChange(7, (NodeId(2), NodeId(3), NodeId(1)), (), "why")
    engine = SimpleNamespace(leader=leader)
    group = cast(Any, SimpleNamespace(group_id=CATALOG_GROUP, engine=engine))
    for row_now in (row, replace(row, change=change), None):
        rows: dict[int, CatalogGroup] = {} if row_now is None else {CATALOG_GROUP: row_now}
        puller = Puller(NodeId(1), cast(Any, None), rows.get, cast(Any, None), print)
        asked = [puller._next_source(group, sources, turn) for turn in range(40)]
        if row_now is not None and row_now.change is not None and leader == 4:
            assert asked[::2] == [4] * 20
            assert asked[1::2] == sources
        else:
            assert {*asked} == {*sources}


def test_as_much_as_may_be_told_is_taken() -> None:
    for entries in ([(1, b"x")] * FEED_ENTRIES_MAX, [(NUMBER_MAX, bytes(ENTRY_BYTES_MAX))]):
        has_more, pulled, group = taken(told(entries))
        assert (has_more, pulled, len(group.taken)) == (True, len(entries), 1)
        assert [(one.term, one.payload) for one in group.taken[0].entries] == entries
