"""What a log keeps as running sums is what adding it all up gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.ids import LogIndex
from svc_cluster.raft.log_view import LogView
from tests.unit.raft.harness import log_of

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 40)),
        st.tuples(st.just("truncate"), st.integers(0, 100)),
        st.tuples(st.just("trim"), st.integers(0, 100)),
    ),
    max_size=40,
)


def _added_up(log: LogView, size: int) -> int:
    """The highest index such that the entries behind it have at least `size` bytes, or the base."""
    behind = [sum(len(e.payload) for e in log.entries[n:]) for n in range(len(log.entries) + 1)]
    return log.base_index + max((n for n, kept in enumerate(behind) if kept >= size), default=0)


@given(st.integers(0, 5), _STEPS, st.lists(st.integers(0, 400), min_size=1, max_size=4))
def test_running_sums_are_what_adding_up_gives(
    recovered: int, steps: list[tuple[str, int]], sizes: list[int]
) -> None:
    """Entries come, are cut off at the end and forgotten at the front, in any order: after each
    step the bytes and the place that keeps enough of them are those of a plain sum."""
    log = LogView(log_of(*([1] * recovered)), LogIndex(0))
    number = 0
    for step, value in steps:
        room = len(log.entries)
        if step == "append":
            log.append(b"\x09" * value, log.last_index + 1, 1)
        elif step == "truncate" and room:
            log.truncate_from(log.base_index + 1 + value % room)
        elif step == "trim":
            number += 1
            log.take(number)
            log.mark_durable(number)
            log.trim_to(LogIndex(log.base_index + value % (room + 1)))
        assert log.byte_count == sum(len(entry.payload) for entry in log.entries)
        for size in sizes:
            assert log.index_keeping_bytes(size) == _added_up(log, size), (log.entries, size)
    log.release()
    assert (log.byte_count, log.index_keeping_bytes(1)) == (0, log.base_index)
