"""What may be the reason of a frozen basin."""

from __future__ import annotations

import pytest

from svc_cluster.model.freeze_reason import why_no_reason


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("", None),
        ("it moves", None),
        ("ü" * 128, None),
        ("ü" * 129, "a reason has at most 256 bytes"),
        (" ", "a reason is not blank: refused appends are told it"),
        ("\t\n", "a reason is not blank: refused appends are told it"),
        ("a\nb", "a reason is printable text, without control characters"),
        ("a\x1b[31mb", "a reason is printable text, without control characters"),
        ("\udcff", "a reason is printable text, without control characters"),
    ],
)
def test_a_reason_is_a_line_that_can_be_told(reason: str, why: str | None) -> None:
    """Nothing is the thaw; bytes that are no text have come to Python as half a character."""
    assert why_no_reason(reason) == why
