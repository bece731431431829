"""Lines about leadership and quorum: by basins' names, few however many groups change at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, Term
from svc_cluster.base.log import get_logger
from svc_cluster.raft.group import Role
from svc_cluster.replica.leadership_news import (
    CATALOG_NAME,
    CAUSES_MAX,
    LINES_MAX,
    NAMED_MAX,
    QUORUM_SECONDS,
    WINDOW_SECONDS,
    Cause,
    GroupNames,
    LeadershipNews,
    QuorumNews,
    cause_of,
)

GROUPS = [GroupId(number) for number in range(2, 1_002)]
ABSENT: Cause = (NodeId(2), NodeId(3))
NOBODY: Cause = ()


@dataclass
class Rig:
    """Both kinds of news, with a clock in the test's hands."""

    caplog: pytest.LogCaptureFixture
    now: float = 100.0

    def __post_init__(self) -> None:
        self.caplog.set_level("DEBUG")
        self.names = names = GroupNames()
        for group in GROUPS:
            names.learn(group, f"basin-{group:04d}")
        log = get_logger("test")
        self.leadership = LeadershipNews(log, names, lambda: self.now)
        self.quorum = QuorumNews(log, names)

    def look(self, found: dict[GroupId, Cause], after: float = 0.5) -> list[dict[str, Any]]:
        """The lines of one look, which comes so many seconds after the one before."""
        self.now += after
        self.quorum.looked(self.now, found)
        return self.lines()

    def lines(self) -> list[dict[str, Any]]:
        """What was told since this was asked last."""
        out = [
            {"event": record.getMessage(), "level": record.levelname.lower(), **fields(record)}
            for record in self.caplog.records
        ]
        self.caplog.clear()
        return out


def fields(record: object) -> dict[str, Any]:
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


@pytest.fixture
def rig(caplog: pytest.LogCaptureFixture) -> Rig:
    return Rig(caplog)


def test_a_change_names_its_basin(rig: Rig) -> None:
    """The line of one change has the group, the basin, role, term and leader; that of the catalog
    says that it is the catalog."""
    rig.leadership.changed(GROUPS[0], Role.LEADER, Term(7), NodeId(1))
    rig.leadership.changed(CATALOG_GROUP, Role.FOLLOWER, Term(8), None)
    first, second = rig.lines()
    assert first == {
        "event": "leadership_changed",
        "level": "info",
        "group": 2,
        "basin": "basin-0002",
        "role": "leader",
        "term": 7,
        "leader": 1,
    }
    assert (second["basin"], second["role"], second["leader"]) == (CATALOG_NAME, "follower", None)


def test_a_thousand_changes_are_a_few_lines_and_a_summary(rig: Rig) -> None:
    """Of a thousand groups won at once LINES_MAX have a line, and one line counts the others and
    names some; who was won and lost again is counted once, by what came last."""
    for group in GROUPS:
        rig.leadership.changed(group, Role.LEADER, Term(3), NodeId(1))
    rig.leadership.changed(GROUPS[-1], Role.FOLLOWER, Term(4), NodeId(2))
    assert [line["event"] for line in rig.lines()] == ["leadership_changed"] * LINES_MAX
    rig.now += WINDOW_SECONDS - 0.1
    rig.leadership.look()
    assert rig.lines() == []
    rig.now += 0.1
    rig.leadership.look()
    left_out = GROUPS[LINES_MAX:-1]
    assert rig.lines() == [
        {
            "event": "leaderships_changed",
            "level": "info",
            "gained": len(left_out),
            "basins_gained": [f"basin-{group:04d}" for group in left_out[:NAMED_MAX]],
            "lost": 1,
            "basins_lost": ["basin-1001"],
        }
    ]
    rig.now += WINDOW_SECONDS
    rig.leadership.look()
    rig.leadership.changed(GROUPS[0], Role.FOLLOWER, Term(5), NodeId(2))
    assert [line["event"] for line in rig.lines()] == ["leadership_changed"]


def test_lost_quorum_is_one_warning_for_all_groups_and_its_end_is_told(rig: Rig) -> None:
    """A thousand groups that lack the same nodes are one warning, after QUORUM_SECONDS and not
    before; groups that follow later add none; when the last one is led again there is a line."""
    found = dict.fromkeys(GROUPS[:-1], ABSENT)
    assert rig.look(found) == []
    assert rig.look(found, QUORUM_SECONDS - 0.1) == []
    assert rig.look(found, 0.1) == [
        {
            "event": "quorum_lost",
            "level": "warning",
            "groups": 999,
            "basins": [f"basin-{group:04d}" for group in GROUPS[:NAMED_MAX]],
            "absent": [2, 3],
            "reason": "these nodes are not connected to this one",
        }
    ]
    assert rig.quorum.groups == 999
    found[GROUPS[-1]] = ABSENT
    assert rig.look(found, QUORUM_SECONDS) + rig.look(found, QUORUM_SECONDS) == []
    assert rig.look({GROUPS[-1]: ABSENT}) == []
    (line,) = rig.look({})
    assert (line["event"], line["level"], line["basins"]) == (
        "quorum_regained",
        "info",
        ["basin-1001"],
    )
    assert line["seconds"] == 2 * QUORUM_SECONDS + 1.0
    assert rig.quorum.groups == 0
    assert rig.look({}) == []


def test_an_election_that_goes_well_is_no_warning(rig: Rig) -> None:
    """A group is without a leader again and again, each time for less than QUORUM_SECONDS."""
    lines = []
    for _ in range(20):
        lines += rig.look({GROUPS[0]: NOBODY})
        lines += rig.look({GROUPS[0]: NOBODY}, QUORUM_SECONDS - 0.1)
        lines += rig.look({})
    assert lines == []


def test_another_cause_is_another_warning(rig: Rig) -> None:
    """While nodes are away the warning names them. When they are back and still nobody leads that
    is told as its own cause, only after as long as before. Nothing is regained until one leads."""
    rig.look({GROUPS[0]: ABSENT})
    assert [one["event"] for one in rig.look({GROUPS[0]: ABSENT}, QUORUM_SECONDS)] == [
        "quorum_lost"
    ]
    assert rig.look({GROUPS[0]: NOBODY}) == []
    assert rig.look({GROUPS[0]: NOBODY}, QUORUM_SECONDS - 0.1) == []
    lines = rig.look({GROUPS[0]: NOBODY}, 0.1)
    assert [(one["event"], one["absent"]) for one in lines] == [("quorum_lost", [])]
    (line,) = rig.look({})
    assert (line["event"], line["groups"], line["absent"]) == ("quorum_regained", 1, [])


def test_what_is_destroyed_keeps_its_name_in_a_summary(rig: Rig) -> None:
    """It is told later than the change; in the lines about quorum nothing is called by no name."""
    gone = GROUPS[LINES_MAX]
    for group in GROUPS[: LINES_MAX + 1]:
        rig.leadership.changed(group, Role.LEADER, Term(1), NodeId(1))
    rig.lines()
    found = dict.fromkeys([gone, GROUPS[0]], ABSENT)
    rig.look(found)
    rig.look(found, QUORUM_SECONDS)
    rig.names.forget(gone)
    (regained,) = rig.look({})
    assert regained["basins"] == [f"basin-{GROUPS[0]:04d}"]
    rig.now += WINDOW_SECONDS
    rig.leadership.look()
    (line,) = rig.lines()
    assert line["basins_gained"] == [f"basin-{gone:04d}"]


def test_causes_have_a_bound(rig: Rig) -> None:
    """A thousand groups that each lack other nodes are CAUSES_MAX warnings and one more for all the
    rest, and as many ends."""
    found: dict[GroupId, Cause] = {group: (NodeId(group), NodeId(9_999)) for group in GROUPS}
    rig.look(found)
    lines = rig.look(found, QUORUM_SECONDS)
    assert [line["event"] for line in lines] == ["quorum_lost"] * (CAUSES_MAX + 1)
    assert sum(line["groups"] for line in lines) == len(GROUPS)
    assert rig.look(found) == []
    assert [line["event"] for line in rig.look({})] == ["quorum_regained"] * (CAUSES_MAX + 1)


class _Engine:
    def __init__(self, members: int, leader: int | None) -> None:
        self.node_id = NodeId(1)
        self.members = tuple(NodeId(number + 1) for number in range(members))
        self.leader = None if leader is None else NodeId(leader)


@pytest.mark.parametrize(
    ("members", "leader", "up", "cause"),
    [
        (3, 2, [], None),
        (3, None, [2], ()),
        (3, None, [], (2, 3)),
        (5, None, [2, 3], ()),
        (5, None, [2], (3, 4, 5)),
        (1, None, [], ()),
    ],
)
def test_the_cause_is_what_a_majority_lacks(
    members: int, leader: int | None, up: list[int], cause: tuple[int, ...] | None
) -> None:
    """Nodes that are not connected are the cause where a majority lacks them, and only there."""
    engine: Any = _Engine(members, leader)
    assert cause_of(engine, lambda node: node in up) == cause
