"""The agreement on what a cluster begins with, decision by decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.codec.formation_report import FormationFormatError, decode_report, encode_report
from svc_cluster.model.formation import (
    MEMBERS_MAX,
    UNKNOWN_HERE,
    FormationRecord,
    FormationReport,
    Members,
    Stage,
)
from svc_cluster.model.places import Place, Places
from svc_cluster.replica.formation_rounds import Formation

NODES = tuple(NodeId(n) for n in (1, 2, 3))


def inc(text: str) -> str:
    """An incarnation that is told by its first character."""
    return text.ljust(32, "0")


def members(**of: str) -> Members:
    """`members(n1="a")`: node 1 with incarnation a."""
    return tuple((NodeId(int(name[1:])), inc(text)) for name, text in sorted(of.items()))


ABC = members(n1="a", n2="b", n3="c")


def node(
    record: FormationRecord = FormationRecord(),
    *,
    has_log: bool = False,
    registered: Members = (),
    nodes: tuple[NodeId, ...] = NODES,
) -> Formation:
    """Node 1, incarnation a."""
    return Formation(
        NodeId(1), inc("a"), nodes, record, has_log=has_log, registrations=lambda: registered
    )


def report(number: int, text: str, stage: Stage, at: int = 0, of: Members = ()) -> FormationReport:
    return FormationReport(NodeId(number), inc(text), at, stage, of)


def heard(formation: Formation, *reports: FormationReport) -> Formation:
    for each in reports:
        formation.hear(each)
    return formation


def test_a_draft_needs_every_node() -> None:
    """Two of three are a majority, and not enough."""
    formation = heard(node(), report(2, "b", Stage.GATHERING))
    assert formation.next_record() is None
    assert "not heard yet: 3" in formation.waits_for()
    heard(formation, report(3, "c", Stage.GATHERING))
    assert formation.next_record() == FormationRecord(0, Stage.DRAFTED, ABC)
    assert not formation.is_open


def versed(newest: int, *said: int, record: FormationRecord = FormationRecord()) -> Formation:
    """Node 1 speaks `newest`, and the others have said so much."""
    formation = node(record)
    formation.newest = newest
    for number, text, version in zip((2, 3), "bc", said, strict=True):
        told = replace(
            report(number, text, Stage.GATHERING), newest=version, restored=record.restored
        )
        assert decode_report(encode_report(told)) == told
        formation.hear(told)
    return formation


@pytest.mark.parametrize(
    ("newest", "said", "begins_at"),
    [(3, (3, 3), 3), (3, (3, 2), 0), (3, (0, 3), 0), (2, (3, 3), 0), (4, (5, 3), 3)],
)
def test_a_cluster_begins_at_the_newest_version_that_all_speak(
    newest: int, said: tuple[int, int], begins_at: int
) -> None:
    """Who does not say speaks the first one, and there the list is as it always was."""
    formation = versed(newest, *said)
    drafted = formation.next_record()
    assert drafted == FormationRecord(0, Stage.DRAFTED, ABC, begins_at=begins_at)
    assert formation.report().newest == newest
    formation.written(drafted)
    for number, text, version in zip((2, 3), "bc", said, strict=True):
        heard(formation, replace(report(number, text, Stage.DRAFTED, 0, ABC), newest=version))
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC, begins_at=begins_at)
    heard(formation, report(2, "b", Stage.FORMED, 0, ABC))
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC, begins_at=begins_at)


@pytest.mark.parametrize(("own", "others"), [(3, (3, 2)), (3, (0, 3)), (2, (3, 3))])
def test_a_draft_is_left_where_a_node_speaks_less_by_now(own: int, others: tuple[int, int]) -> None:
    """One of them was started by an older program before the cluster was formed: the next round
    finds what all of them speak, and nothing is formed with what only some of them can read."""
    formation = versed(3, 3, 3)
    drafted = formation.next_record()
    assert drafted is not None and drafted.begins_at == 3
    formation.written(drafted)
    formation.newest = own
    for number, text, version in zip((2, 3), "bc", others, strict=True):
        heard(formation, replace(report(number, text, Stage.DRAFTED, 0, ABC), newest=version))
    left = formation.next_record()
    assert left == replace(drafted, round=1, stage=Stage.GATHERING)
    formation.written(left)
    for number, text, version in zip((2, 3), "bc", others, strict=True):
        heard(formation, replace(report(number, text, Stage.GATHERING, 1), newest=version))
    assert formation.next_record() == FormationRecord(1, Stage.DRAFTED, ABC)


def test_what_a_restore_has_made_goes_on_at_the_version_that_it_had() -> None:
    drafted = versed(3, 3, 3, record=FormationRecord(restored="r" * 16)).next_record()
    assert drafted == FormationRecord(0, Stage.DRAFTED, ABC, restored="r" * 16)


def test_a_cluster_is_formed_when_all_have_the_same_draft() -> None:
    """Not before: a draft of two, another list, another round."""
    formation = node(FormationRecord(0, Stage.DRAFTED, ABC))
    heard(formation, report(2, "b", Stage.DRAFTED, 0, ABC), report(3, "c", Stage.GATHERING))
    assert formation.next_record() is None
    other = members(n1="9", n2="b", n3="c")
    heard(formation, report(3, "c", Stage.DRAFTED, 0, other))
    assert formation.next_record() is None
    heard(formation, report(3, "c", Stage.DRAFTED, 0, ABC))
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC)


def test_one_node_alone_forms_at_once() -> None:
    """It waits for nobody."""
    formation = node(nodes=(NodeId(1),))
    draft = formation.next_record()
    assert draft == FormationRecord(0, Stage.DRAFTED, members(n1="a"))
    formation.written(draft)
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, members(n1="a"))


def test_a_draft_with_a_lost_directory_is_given_up_for_the_next_round() -> None:
    """With that this node has promised never to form it, and remembers whom it named."""
    formation = node(FormationRecord(0, Stage.DRAFTED, ABC))
    heard(formation, report(2, "b", Stage.DRAFTED, 0, ABC), report(3, "d", Stage.GATHERING))
    left = formation.next_record()
    assert left == FormationRecord(1, Stage.GATHERING, ABC)
    formation.written(left)
    # the directory that was lost is back for a moment, with the draft of then
    heard(formation, report(3, "c", Stage.DRAFTED, 0, ABC))
    assert formation.next_record() is None
    heard(formation, report(2, "b", Stage.GATHERING, 1), report(3, "d", Stage.GATHERING, 1))
    new = members(n1="a", n2="b", n3="d")
    assert formation.next_record() == FormationRecord(1, Stage.DRAFTED, new)


def test_a_later_round_is_followed() -> None:
    formation = heard(node(), report(2, "b", Stage.GATHERING, 4))
    assert formation.next_record() == FormationRecord(4, Stage.GATHERING, ())


def test_most_directories_exchanged_are_not_formed_over() -> None:
    """Those who are gone may have formed the earlier list and decided something."""
    formation = node(FormationRecord(1, Stage.GATHERING, ABC))
    heard(formation, report(2, "8", Stage.GATHERING, 1), report(3, "9", Stage.GATHERING, 1))
    assert formation.next_record() is None
    assert "give the nodes back the directories" in (formation.refusal() or "")


def test_a_formed_list_that_names_this_node_is_taken_over() -> None:
    """A node that had not heard yet that all had the draft; also from an older round."""
    for record in (
        FormationRecord(0, Stage.DRAFTED, ABC),
        FormationRecord(3, Stage.GATHERING, ABC),
    ):
        formation = heard(node(record), report(2, "b", Stage.FORMED, 0, ABC))
        taken = formation.next_record()
        assert taken is not None and (taken.stage, taken.members) == (Stage.FORMED, ABC)
        assert taken.round >= record.round


@pytest.mark.parametrize(
    "record",
    [
        FormationRecord(),
        FormationRecord(3, Stage.GATHERING, members(n1="a", n2="b", n3="d")),
        FormationRecord(0, Stage.DRAFTED, members(n1="a", n2="b", n3="d")),
    ],
)
def test_a_directory_that_lost_the_list_it_was_formed_with_takes_no_part(
    record: FormationRecord,
) -> None:
    """A copy from before the formation, or an identity beside an emptied log: it would vote
    without what it has promised. It says so, and asks for nothing to be removed."""
    formation = heard(node(record), report(2, "b", Stage.FORMED, 0, ABC))
    heard(formation, report(3, "c", Stage.FORMED, 0, ABC))
    assert formation.next_record() is None and not formation.is_open
    text = formation.refusal() or ""
    assert "an older copy" in text and "as node 2 says" in text
    for word in ("remove", "delete", "empty", "wipe"):
        assert word not in text


def test_a_directory_of_before_takes_over_a_list_that_names_it() -> None:
    """It has a log of the catalog and has never had a list."""
    formation = heard(node(has_log=True), report(2, "b", Stage.FORMED, 0, ABC))
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC)


def test_a_formed_list_without_this_directory_is_a_refusal() -> None:
    """For good, whoever else is heard; and the sentence asks for nothing to be removed."""
    others = members(n1="f", n2="b", n3="c")
    formation = heard(node(), report(2, "b", Stage.FORMED, 0, others))
    heard(formation, report(3, "c", Stage.GATHERING))
    assert formation.next_record() is None and not formation.is_open
    text = formation.refusal() or ""
    assert "another data directory of node 1" in text and "as node 2 says" in text
    for word in ("remove", "delete", "empty", "wipe"):
        assert word not in text


def test_a_formed_node_knows_its_list_alone() -> None:
    """It never drafts again, and admits nobody else."""
    formation = node(FormationRecord(0, Stage.FORMED, ABC))
    heard(formation, report(2, "b", Stage.GATHERING, 9), report(3, "d", Stage.GATHERING, 9))
    assert formation.next_record() is None
    assert formation.admits(NodeId(3), inc("c"))
    assert not formation.admits(NodeId(3), inc("d"))
    assert not formation.admits(NodeId(4), inc("d"))
    other = members(n1="a", n2="b", n3="d")
    heard(formation, report(2, "b", Stage.FORMED, 0, other))
    assert formation.refusal() is not None, "two formations of one cluster"


@pytest.mark.parametrize("stage", [Stage.GATHERING, Stage.DRAFTED])
def test_nobody_takes_part_before(stage: Stage) -> None:
    formation = node(FormationRecord(0, stage, ABC))
    assert not formation.is_open
    assert not formation.admits(NodeId(2), inc("b"))


def test_a_directory_of_before_goes_on_and_takes_its_list_from_the_catalog() -> None:
    """Once all nodes are registered in what is applied; meanwhile by what is registered."""
    known: Mapping[str, Members] = {"all": ABC, "some": ABC[:2]}
    formation = node(has_log=True, registered=known["some"])
    assert formation.is_open and formation.next_record() is None
    assert formation.admits(NodeId(2), inc("b")) and not formation.admits(NodeId(2), inc("x"))
    assert formation.admits(NodeId(3), inc("c"))
    formation = node(has_log=True, registered=known["all"])
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC)
    registered_otherwise = members(n1="x", n2="b", n3="c")
    formation = node(has_log=True, registered=registered_otherwise)
    assert formation.next_record() is None
    assert "registered with another data directory" in (formation.refusal() or "")


def test_an_empty_directory_does_not_form_with_directories_of_before() -> None:
    """They may lag behind what they have decided with its predecessor."""
    formation = heard(node(), report(2, "b", Stage.EXISTING), report(3, "c", Stage.GATHERING))
    assert formation.next_record() is None
    assert "node 2 has data of a cluster" in formation.waits_for()


def test_a_log_beside_a_draft_means_that_it_was_formed() -> None:
    """The newest record is damaged: the catalog is never opened before."""
    formation = node(FormationRecord(0, Stage.DRAFTED, ABC), has_log=True)
    assert formation.is_formed and not formation.admits(NodeId(3), inc("d"))


def test_a_report_comes_back_as_it_was_and_nonsense_does_not() -> None:
    """Every bound of what another process may say."""
    good = report(2, "b", Stage.FORMED, 7, ABC)
    assert decode_report(encode_report(good)) == good
    long = tuple((NodeId(n), inc("a")) for n in range(1, MEMBERS_MAX + 2))
    for bad in (
        report(2, "b", Stage.FORMED, 0, ()),
        report(2, "b", Stage.GATHERING, 0, ABC),
        report(2, "x", Stage.GATHERING),
        report(2, "c", Stage.DRAFTED, 0, ABC),
        report(2, "b", Stage.DRAFTED, 2**62 + 1, ABC),
        report(2, "b", Stage.DRAFTED, 0, (*ABC, ABC[0])),
        report(2, "a", Stage.DRAFTED, 0, long),
    ):
        with pytest.raises(FormationFormatError):
            decode_report(encode_report(bad))
    for data in (b"\xff", bytes(10**6), b"\x20\x63"):
        with pytest.raises(FormationFormatError):
            decode_report(data)


NEW_C = (Place(NodeId(3), 1, inc("d")),)
FORMED_ABC = FormationRecord(0, Stage.FORMED, ABC)


def third(record: FormationRecord = FormationRecord(), text: str = "d") -> Formation:
    """Node 3 with another directory than it was formed with."""
    return Formation(NodeId(3), inc(text), NODES, record, has_log=False, registrations=lambda: ())


def knows(number: int, text: str, places: Places = NEW_C) -> FormationReport:
    return FormationReport(NodeId(number), inc(text), 0, Stage.FORMED, ABC, places)


def test_an_empty_directory_takes_a_place_that_it_was_given() -> None:
    """It takes the list over, with the ordinal of its own; before, it asks and is refused."""
    formation = heard(third(), report(1, "a", Stage.FORMED, 0, ABC))
    assert formation.next_record() is None
    assert "admin member replace 3" in (formation.refusal() or "")
    heard(formation, knows(1, "a"))
    assert formation.refusal() is None
    taken = formation.next_record()
    assert taken == FormationRecord(0, Stage.FORMED, ABC, NEW_C, 1)
    formation.written(taken)
    assert formation.is_open and formation.admits(NodeId(3), inc("d"))
    assert not formation.admits(NodeId(3), inc("c"))


@pytest.mark.parametrize(
    "record",
    [
        FormationRecord(0, Stage.DRAFTED, members(n1="a", n2="b", n3="d")),
        FormationRecord(1, Stage.GATHERING, members(n1="a", n2="b", n3="d")),
    ],
)
def test_a_directory_that_holds_something_takes_no_place(record: FormationRecord) -> None:
    """It may have promised what its log does not say: only an empty one begins as forgetful."""
    formation = heard(third(record), knows(1, "a"))
    assert formation.next_record() is None and formation.refusal() is not None


def test_a_place_is_known_when_it_is_written_down_and_never_forgotten() -> None:
    """From a report, a handshake, the catalog; a lower ordinal changes nothing."""
    formation = node(FORMED_ABC)
    assert formation.admits(NodeId(3), inc("c"))
    formation.learn(NEW_C)
    assert formation.admits(NodeId(3), inc("c")), "not on the disk yet"
    assert formation.report().places == ()
    raised = formation.next_record()
    assert raised == FormationRecord(0, Stage.FORMED, ABC, NEW_C)
    formation.written(raised)
    assert formation.admits(NodeId(3), inc("d")) and formation.report().places == NEW_C
    why = formation.why_not(NodeId(3), inc("c"))
    assert why == "the place of this node was given to another data directory"
    heard(formation, report(2, "b", Stage.FORMED, 0, ABC))
    assert formation.next_record() is None
    later = (Place(NodeId(3), 2, inc("e")),)
    heard(formation, knows(2, "b", later))
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC, later)


def test_who_hears_that_its_place_is_given_away_takes_no_part_any_more() -> None:
    """For ever, also at its next start: it has it on its disk."""
    formation = third(FORMED_ABC, "c")
    assert formation.report().stage is Stage.FORMED
    heard(formation, knows(1, "a"))
    assert "refused for ever" in (formation.refusal() or "")
    formation.written(formation.next_record() or FORMED_ABC)
    assert not formation.is_open and formation.is_superseded
    again = third(formation.record, "c")
    assert not again.is_open and "refused for ever" in (again.refusal() or "")


@pytest.mark.parametrize(
    ("joined", "says"), [(False, "to have it replaced"), (True, "to let it come again")]
)
def test_who_is_superseded_reads_what_an_empty_one_would_become(joined: bool, says: str) -> None:
    """Only a node that began the cluster is replaced in its place."""
    record = replace(FORMED_ABC, places=(Place(NodeId(3), 1, inc("d")),), joined=joined)
    refusal = third(record, "c").refusal() or ""
    assert "refused for ever" in refusal
    assert refusal.endswith(says)


def test_an_older_copy_under_an_incarnation_that_has_the_place_again_is_refused() -> None:
    """The ordinal is the directory's own: what it had with a lower one is another life."""
    formation = third(FORMED_ABC, "c")
    heard(formation, knows(1, "a", (Place(NodeId(3), 2, inc("c")),)))
    formation.written(formation.next_record() or FORMED_ABC)
    assert formation.is_superseded and not formation.is_open


def test_a_peer_that_lags_does_not_refuse_who_has_the_place() -> None:
    """Its report names the directory of before: it will hear of the newer one from this node."""
    formation = third(FormationRecord(0, Stage.FORMED, ABC, NEW_C, 1))
    heard(formation, knows(1, "a"), report(2, "b", Stage.FORMED, 0, ABC))
    assert formation.refusal() is None and formation.next_record() is None


def test_who_asks_for_a_place_is_empty_and_not_admitted() -> None:
    formation = heard(node(FORMED_ABC), report(3, "d", Stage.GATHERING))
    assert {n: one.incarnation for n, one in formation.asking().items()} == {NodeId(3): inc("d")}
    heard(formation, report(3, "c", Stage.FORMED, 0, ABC))
    assert formation.asking() == {}


def test_places_travel_in_reports_and_are_checked() -> None:
    told = FormationReport(NodeId(3), inc("d"), 0, Stage.FORMED, ABC, NEW_C)
    assert decode_report(encode_report(told)) == told
    for places in (
        (Place(NodeId(3), 0, inc("d")),),
        (Place(NodeId(3), 1, "d"),),
        (*NEW_C, *NEW_C),
    ):
        with pytest.raises(FormationFormatError):
            decode_report(
                encode_report(FormationReport(NodeId(1), inc("a"), 0, Stage.FORMED, ABC, places))
            )


RESTORE = "0123456789abcdef"


def restored(number: int, text: str, by: str = RESTORE, at: int = 0) -> FormationReport:
    """A node whose directory a restore has made, and that knows nothing else."""
    return FormationReport(NodeId(number), inc(text), at, Stage.GATHERING, (), restored=by)


def test_restored_directories_form_as_new_ones_do() -> None:
    """Their log says nothing of a formation: they gather, with those of the same restore, and vote
    once all have the list. From then on it is a cluster like any other."""
    formation = node(FormationRecord(restored=RESTORE), has_log=True)
    assert not formation.is_open and formation.report().restored == RESTORE
    heard(formation, restored(2, "b"))
    assert formation.next_record() is None and "not heard yet: 3" in formation.waits_for()
    heard(formation, restored(3, "c"))
    draft = FormationRecord(0, Stage.DRAFTED, ABC, restored=RESTORE)
    assert formation.next_record() == draft
    # as it would be started again now
    formation = node(draft, has_log=True)
    assert not formation.is_open and formation.next_record() is None
    for number, text in ((2, "b"), (3, "c")):
        drafted = FormationReport(
            NodeId(number), inc(text), 0, Stage.DRAFTED, ABC, restored=RESTORE
        )
        assert decode_report(encode_report(drafted)) == drafted
        heard(formation, drafted)
    formed = formation.next_record()
    assert formed == FormationRecord(0, Stage.FORMED, ABC)
    formation.written(formed)
    assert formation.is_open


@pytest.mark.parametrize("own", ["", RESTORE])
@pytest.mark.parametrize("theirs", ["", RESTORE, "f" * 16])
def test_only_directories_of_one_restore_form_a_list(own: str, theirs: str) -> None:
    """With an empty one, or one of another backup, they would vote for other states as one."""
    formation = node(FormationRecord(restored=own), has_log=bool(own))
    heard(formation, restored(2, "b", own), restored(3, "c", theirs))
    if own == theirs:
        assert formation.next_record() == FormationRecord(0, Stage.DRAFTED, ABC, restored=own)
        return
    assert formation.next_record() is None
    assert "node 3 was not made by the restore of this one" in formation.waits_for()


def test_a_directory_that_is_restored_once_more_is_another_one() -> None:
    """Before the cluster is formed it is gathered anew; afterwards it is refused, and gets no place
    either: its log is not an empty one."""
    draft = FormationRecord(0, Stage.DRAFTED, ABC, restored=RESTORE)
    formation = heard(node(draft, has_log=True), restored(2, "b"), restored(3, "d"))
    anew = formation.next_record()
    assert anew == FormationRecord(1, Stage.GATHERING, ABC, restored=RESTORE)
    late = third(FormationRecord(restored=RESTORE))
    heard(late, report(1, "a", Stage.FORMED, 0, ABC))
    assert late.next_record() is None and not late.is_open
    assert "was restored after the cluster was formed" in (late.refusal() or "")
    heard(late, knows(1, "a"))
    assert late.next_record() is None and late.refusal() is not None
    formed = heard(node(FORMED_ABC), restored(3, "d"))
    assert formed.asking() == {}
    asking = heard(node(FORMED_ABC), report(3, "d", Stage.GATHERING)).asking()
    assert {n: one.incarnation for n, one in asking.items()} == {3: inc("d")}


def test_a_restored_directory_that_missed_the_formation_takes_the_list_over() -> None:
    """It had the draft; what a restore has made is no longer said of it."""
    draft = FormationRecord(0, Stage.DRAFTED, ABC, restored=RESTORE)
    formation = heard(node(draft, has_log=True), report(2, "b", Stage.FORMED, 0, ABC))
    assert formation.next_record() == FormationRecord(0, Stage.FORMED, ABC)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_node_that_came_later_takes_part_where_somebody_vouches_for_it(is_told: bool) -> None:
    """Whoever came itself was told of some nodes then, and any may be told later. What is in the
    list, or in the catalog, goes first: under another directory nobody takes part."""
    registrations: dict[NodeId, str] = {NodeId(6): inc("6")}
    record = FormationRecord(0, Stage.FORMED, ABC, joined=True, seeds=((NodeId(5), "there"),))
    for kept, told_later in ((record, False), (replace(record, joined=False), True)):
        formation = Formation(
            NodeId(7 if kept.joined else 3),
            inc("c"),
            NODES,
            kept,
            has_log=False,
            registrations=lambda: tuple(sorted(registrations.items())),
        )
        if is_told and told_later:
            formation.introduced.add(NodeId(5))
        is_known = kept.joined or is_told
        assert formation.why_not(NodeId(5), inc("5")) == (None if is_known else UNKNOWN_HERE)
        assert formation.why_not(NodeId(4), inc("4")) == UNKNOWN_HERE
        assert formation.why_not(NodeId(6), inc("6")) is None
        formation.introduced |= {NodeId(2), NodeId(6)}
        for node in (2, 6):
            assert formation.why_not(NodeId(node), inc("x")) not in (None, UNKNOWN_HERE)


def test_the_old_directory_of_a_node_that_came_later_is_not_heard() -> None:
    """Whoever vouches for the node, where it is written down that its place was given away."""
    seeds, places = ((NodeId(5), "there"),), (Place(NodeId(5), 1, inc("n")),)
    record = FormationRecord(0, Stage.FORMED, ABC, places, joined=True, seeds=seeds)
    formation = Formation(
        NodeId(6), inc("c"), NODES, record, has_log=True, registrations=lambda: ()
    )
    formation.introduced.add(NodeId(5))
    assert formation.why_not(NodeId(5), inc("n")) is None
    assert formation.why_not(NodeId(5), inc("o")) not in (None, UNKNOWN_HERE)
