"""Every repair of the engine can be switched off, and the suite then fails: it is not there for
nothing, and its test can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from svc_cluster.raft.fixes import Fixes
from tests.unit.raft import (
    test_elections,
    test_follower_log,
    test_promises,
    test_proposals,
    test_reads,
    test_restart,
)
from tests.unit.replica import test_group

DIRECTED: dict[str, tuple[ModuleType, str]] = {
    "h1_normalise": (
        test_follower_log,
        "test_a_late_heartbeat_does_not_shorten_the_log",
    ),
    "h2_term": (test_promises, "test_an_acknowledgement_of_an_older_term_is_not_counted"),
    "h3_ack_hold": (
        test_promises,
        "test_a_leader_does_not_commit_before_its_own_disk_has_the_entry",
    ),
    "h4_read_rounds": (test_reads, "test_a_read_waits_for_an_answer_to_a_message_sent_after_it"),
    "h5a_commit_order": (
        test_restart,
        "test_a_commit_index_reaches_the_disk_behind_what_it_commits",
    ),
    "h9a_votes": (test_promises, "test_a_repeated_vote_elects_nobody"),
    "h9b_backtrack": (test_follower_log, "test_a_divergent_follower_costs_a_few_messages"),
    "h9c_next_index": (test_follower_log, "test_a_late_acknowledgement_sends_nothing_twice"),
    "h9e_queue_check": (
        test_proposals,
        "test_no_proposal_outlives_the_leadership_it_was_made_in",
    ),
    "persist_first": (test_promises, "test_a_vote_waits_for_the_disk"),
    "prevote": (test_elections, "test_a_node_that_was_cut_off_does_not_raise_its_term"),
}
"""For each switch the directed test that says what it is for."""


def directed(switch: str) -> Callable[[bool], None]:
    module, name = DIRECTED[switch]
    test: Callable[[bool], None] = getattr(module, name)
    return test


def test_every_switch_has_a_directed_test() -> None:
    """A repair that is added without a test of its own is noticed here."""
    assert set(DIRECTED) == {field.name for field in dataclasses.fields(Fixes)}


@pytest.mark.parametrize("switch", sorted(DIRECTED))
def test_the_suite_fails_without_a_repair(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directed test passes as it is, and fails when what it builds lacks this one repair."""
    directed(switch)(True)

    def without(**given: Any) -> Fixes:
        return dataclasses.replace(Fixes(**given), **{switch: False})

    monkeypatch.setattr(DIRECTED[switch][0], "Fixes", without)
    with pytest.raises(AssertionError):
        directed(switch)(True)


def test_the_suite_fails_without_the_state_applied_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for the rule that a read waits for the state store, which is the replica's."""
    test_group.test_a_read_waits_for_the_state_store_not_for_the_commit_index(True)
    rig = test_group.Rig

    def without(*, read_before_state: bool) -> test_group.Rig:
        return rig(read_before_state=True)

    monkeypatch.setattr(test_group, "Rig", without)
    with pytest.raises(AssertionError):
        test_group.test_a_read_waits_for_the_state_store_not_for_the_commit_index(True)
