"""How many streams a basin may have: never one too many, whatever is in flight."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.errors import QuotaError, ServiceError
from svc_cluster.base.ids import LogIndex
from svc_cluster.stream.commands import BasinCommand
from svc_cluster.stream.sequencer import Sequencer
from tests.unit.stream.support import NOW, Leader

MOST = 4


def limited() -> Leader:
    leader = Leader()
    leader.sequencer = Sequencer(leader.state, streams_max=MOST)
    return leader


def test_one_more_is_refused_until_another_is_purged() -> None:
    """Those in flight count, and one that is being deleted."""
    leader = limited()
    leader.create("a")
    pending = [leader.sequencer.create_stream(name, None, NOW) for name in "bcd"]
    with pytest.raises(QuotaError):
        leader.sequencer.create_stream("e", None, NOW)
    leader.run(*pending)
    with pytest.raises(QuotaError):
        leader.sequencer.create_stream("e", None, NOW)
    stream = leader.stream("a")
    leader.run(leader.sequencer.delete_stream("a", NOW))
    with pytest.raises(QuotaError):
        leader.sequencer.create_stream("e", None, NOW)
    leader.run(leader.sequencer.purge(stream.stream_id))
    leader.create("e")
    with pytest.raises(QuotaError):
        leader.sequencer.create_stream("f", None, NOW)


def test_a_basin_that_has_more_already_keeps_them() -> None:
    """The quota was lowered, or came later."""
    leader = Leader()
    for number in range(2 * MOST):
        leader.create(f"s-{number}")
    leader.sequencer = Sequencer(leader.state, streams_max=MOST)
    assert leader.append("s-0").end.seq_num == 1
    with pytest.raises(QuotaError):
        leader.sequencer.create_stream("more", None, NOW)


def test_another_quota_counts_from_the_next_stream_on() -> None:
    """Raised, lowered below what there is, and taken away, while the basin is led."""
    leader = limited()
    for number in range(MOST):
        leader.create(f"s-{number}")
    leader.sequencer.change_quotas(MOST + 1, None)
    leader.create("one more")
    leader.sequencer.change_quotas(1, None)
    assert leader.append("one more").end.seq_num == 1
    with pytest.raises(QuotaError):
        leader.sequencer.create_stream("and another", None, NOW)
    leader.sequencer.change_quotas(None, 1)
    leader.create("and another")
    with pytest.raises(QuotaError):
        leader.append("s-0")


steps = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "purge", "apply", "reset"]), st.integers(0, 9)),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_the_count_is_that_of_the_names_and_never_above_the_quota(
    steps: list[tuple[str, int]],
) -> None:
    """Random lives of streams, with entries in flight and losses of leadership in between, against
    the listing; a restart counts the same."""
    leader = limited()
    pending: list[BasinCommand] = []
    assert leader.state.stream_count == 0
    for step, number in steps:
        name = f"s-{number}"
        command: BasinCommand | None = None
        try:
            if step == "create":
                command = leader.sequencer.create_stream(name, None, NOW)
            elif step == "delete":
                command = leader.sequencer.delete_stream(name, NOW)
            elif step == "purge":
                found = leader.state.stream_by_name(name)
                if found is not None:
                    command = leader.sequencer.purge(found.stream_id)
            elif step == "apply" and pending:
                log_index = LogIndex(leader.state.applied_index + 1)
                leader.sequencer.proposed(log_index)
                leader.apply(pending)
                leader.sequencer.applied(log_index)
                pending = []
            elif step == "reset":
                leader.sequencer.reset()
                pending = []
        except ServiceError:
            pass
        if command is not None:
            pending.append(command)
        names, _ = leader.state.list_streams("", "", 1_000)
        assert leader.state.stream_count == len(names) <= MOST
    count = leader.state.stream_count
    leader.restart()
    assert leader.state.stream_count == count
