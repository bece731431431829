"""What batch headers cover, against putting it together from all of the batches each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.storage.wal.recent_batches import COVERED_BATCHES, COVERED_BYTES, RecentBatches

BATCH = st.tuples(
    st.sampled_from([0, 100, 300, 5000, COVERED_BYTES - 1, COVERED_BYTES, COVERED_BYTES + 1]),
    st.dictionaries(st.integers(1, 6), st.integers(1, 4), max_size=4),
)
"""Few groups and few sequence numbers: one that was made again has those of before."""


def _covered(batches: list[tuple[int, dict[int, int]]]) -> list[tuple[int, dict[int, int]]]:
    """Of all so far those that the next header covers, by the rule itself."""
    kept = len(batches)
    while kept > COVERED_BATCHES.start:
        behind_first = sum(size for size, _ in batches[len(batches) - kept + 1 :])
        if behind_first < COVERED_BYTES and kept < COVERED_BATCHES.stop:
            break
        kept -= 1
    return batches[len(batches) - kept :]


@given(st.lists(BATCH, max_size=40), st.integers(0, 80))
def test_a_header_says_what_all_of_its_batches_say(
    batches: list[tuple[int, dict[int, int]]], small: int
) -> None:
    """After each batch: where the first of them begins, and of each group what the last says."""
    recent = RecentBatches()
    assert recent.start is None
    assert recent.groups == {}
    every = [(10, {1 + number % 3: number}) for number in range(small)] + batches
    kept: list[tuple[int, dict[int, int]]] = []
    for number, (size, groups) in enumerate(every):
        recent.add((1, number), size, groups)
        kept = _covered([*kept, (size, groups)])
        wanted: dict[int, int] = {}
        for _, said in kept:
            wanted |= said
        assert recent.groups == wanted
        assert recent.start == (1, number + 1 - len(kept))
    assert len(kept) < COVERED_BATCHES.stop
