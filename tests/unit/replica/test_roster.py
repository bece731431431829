"""Which nodes there are, as a node knows them: of its settings, of the catalog, and no more."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.node_facts import AnnouncedFacts
from svc_cluster.catalog.node_rows import NodeRecord, NodeState
from svc_cluster.replica.node_entry import made_introductions
from svc_cluster.replica.roster import Roster

OWN = {NodeId(1): "one:1", NodeId(2): "two:1"}


class Scene:
    """A node 1 whose catalog is what the test says; the links only take note."""

    def __init__(self) -> None:
        self.rows: dict[NodeId, NodeRecord] = {}
        self.changes = 0
        self.recovery = 0
        self.met: list[tuple[int, str, str]] = []
        self.left: list[int] = []
        self.new: list[int] = []
        self.sessions: dict[NodeId, Any] = {}
        self._catalog = SimpleNamespace(
            group=SimpleNamespace(engine=self), state=SimpleNamespace(nodes=self.rows)
        )
        catalog: Any = lambda: self._catalog  # noqa: E731
        links: Any = self
        self.roster = Roster(NodeId(1), OWN, catalog, links, self.sessions, self.new.append)

    @property
    def nodes(self) -> list[int]:
        return list(self.roster.nodes)

    def meet(self, peer: NodeId, address: str, other: str = "") -> str:
        self.met.append((peer, address, other))
        return f"session {peer}"

    def leave(self, peer: NodeId) -> None:
        self.left.append(peer)

    def look(self, *rows: NodeRecord) -> None:
        """At a catalog with these rows changed; what the links were told before is forgotten."""
        self.met.clear()
        self.left.clear()
        self.rows.update({row.node_id: row for row in rows})
        self.changes += len(rows)
        self._catalog.state.node_changes = self.changes
        self.roster.look()


def row(node: int, link: str = "", state: NodeState = NodeState.ACTIVE) -> NodeRecord:
    facts = AnnouncedFacts(link_address=link)
    return NodeRecord(NodeId(node), f"{node:032x}", f"by-{node}:7", facts=facts, state=state)


def test_nodes_of_the_settings_are_where_these_say_until_they_say_otherwise() -> None:
    scene = Scene()
    scene.look(row(1, "elsewhere:1"), row(2))
    assert scene.nodes == [1, 2] and scene.met == [(2, "two:1", "two:1")]
    assert scene.roster.address(NodeId(2)) == "two:1"
    scene.look(row(2, "moved:9"))
    assert scene.met == [(2, "moved:9", "two:1")], "where it says, or else where it was"
    assert scene.roster.address(NodeId(2)) == "moved:9"
    scene.look(row(2))
    assert scene.met == [(2, "two:1", "two:1")], "it says it no more"
    assert scene.roster.address(NodeId(2)) == "two:1"
    assert scene.new == []


def test_a_node_that_came_is_met_once_at_where_it_says_it_is() -> None:
    """By its link address, or else by that of its own settings."""
    scene = Scene()
    assert NodeId(4) not in scene.roster
    scene.look(row(4), row(5, "five:1"))
    four = (4, "by-4:7", "by-4:7")
    assert scene.met == [four, (5, "five:1", "by-5:7")]
    assert scene.nodes == [1, 2, 4, 5] and NodeId(4) in scene.roster
    assert scene.new == [4, 5]
    assert scene.sessions == {4: "session 4", 5: "session 5"}
    scene.look(row(5, "five:2"))
    assert scene.met == [four, (5, "five:2", "by-5:7")] and scene.new == [4, 5]


def test_a_removed_node_is_left_and_does_not_come_back() -> None:
    scene = Scene()
    scene.look(row(4))
    scene.look(row(4, state=NodeState.REMOVED))
    assert scene.left == [4] and scene.met == []
    assert NodeId(4) not in scene.roster and scene.nodes == [1, 2]
    assert scene.sessions == {}
    assert scene.roster.removed == {4: f"{4:032x}"}
    scene.roster.introduce({NodeId(4): "four:1", NodeId(5): "five:1"})
    assert scene.nodes == [1, 2, 5], "who has not heard that it was removed does not bring it back"
    assert [node for node, _, _ in scene.met] == [5]
    assert scene.roster.address(NodeId(4)) == "by-4:7", "what the catalog says of it, as before"
    scene.look(row(5))
    assert scene.nodes == [1, 2, 5]


def test_another_directory_of_a_removed_node_is_met_again() -> None:
    """With links of its own: those to the one before are gone."""
    scene = Scene()
    scene.look(row(4))
    scene.look(row(4, state=NodeState.REMOVED))
    scene.met.clear()
    again = replace(row(4, "four-again:1"), incarnation="b" * 32, ordinal=1)
    scene.look(again)
    assert NodeId(4) in scene.roster and scene.nodes == [1, 2, 4]
    assert scene.met == [(4, "four-again:1", "by-4:7")]
    assert scene.roster.removed == {}
    assert NodeId(4) in scene.sessions


def test_who_was_removed_is_vouched_for_by_nobody() -> None:
    """Others that lag behind still name it, when it knocks and they are asked about it."""
    scene = Scene()
    scene.look(row(4), row(5))
    scene.look(row(4, state=NodeState.REMOVED))
    formation = SimpleNamespace(introduced=set())
    node: Any = SimpleNamespace(former=SimpleNamespace(formation=formation), roster=scene.roster)
    ask: Any = None
    meet = made_introductions(node, ask)._meet
    meet({NodeId(4): "four:1", NodeId(5): "five:9", NodeId(6): "six:1"})
    assert formation.introduced == {6}
    assert scene.nodes == [1, 2, 5, 6]
    assert scene.roster.address(NodeId(5)) == "by-5:7", "it was known"


def test_a_catalog_that_is_being_repaired_is_not_gone_by() -> None:
    """What it holds may be anything; and without a change nothing is looked at again."""
    scene = Scene()
    scene.recovery = 7
    scene.look(row(4))
    assert scene.nodes == [1, 2]
    scene.recovery = 0
    scene.look()
    assert scene.nodes == [1, 2, 4]
    scene.rows[NodeId(4)] = replace(row(4), state=NodeState.REMOVED)
    scene.roster.look()
    assert scene.nodes == [1, 2, 4]
