"""How long a page of a list may be, for whoever asks a node."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import InvalidError

PAGE_MAX: Final = 1000
"""The largest page of streams, basins or tokens; about what `operation_rules.LIST_BYTES` has room
for."""


def check_page(limit: int) -> int:
    """`limit` itself. Raises InvalidError, without effect, for a page of nothing or of more than
    PAGE_MAX."""
    if not 1 <= limit <= PAGE_MAX:
        raise InvalidError(f"a page holds 1 to {PAGE_MAX}")
    return limit
