"""What a backup has to have of each stream, out of rows that may be anybody's."""

from __future__ import annotations

import pytest

from svc_cluster.backup.backup_errors import DamagedError
from svc_cluster.backup.coverage import streams_of
from svc_cluster.stream import keys


@pytest.mark.parametrize(
    ("behind", "value"), [(b"", b""), (b"\x00" * 8, b"no row"), (b"\x01", b"")]
)
def test_a_row_that_nobody_wrote_is_named_and_no_fault_of_ours(behind: bytes, value: bytes) -> None:
    """A key that is cut short, and a value that is none: a finding about the basin, not a crash."""
    start, _ = keys.streams_range()
    with pytest.raises(DamagedError, match="basin orders: a stream's row cannot be read"):
        streams_of("orders", [(start + behind, value)])
