"""No chain of tokens ever gives more than its first one had."""

from __future__ import annotations

from svc_cluster.model.access import Op
from tests.property.model.chains import DEPTH_MAX, TABLE, run_chains


def test_random_chains_never_escalate() -> None:
    """20,000 chains against the oracle, and enough of them are deep for that to mean something."""
    counts = run_chains(20_000, seed=2_024)
    assert counts.deepest == DEPTH_MAX
    assert counts.issued > 20_000
    assert counts.refused > 5_000


def test_the_table_names_every_operation() -> None:
    """The oracle's copy has the 24 operations of the interface, and the model no other."""
    words = set(" ".join(read + " " + write for read, write in TABLE.values()).split())
    assert len(words) == 24
    assert words == {op.value for op in Op}
