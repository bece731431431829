"""What the catalog holds, apart from the form in which its store keeps it: see model/content.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from svc_cluster.base.key_reader import KeyReader
from svc_cluster.catalog import canonical_rows, catalog_state, location_table, token_table
from svc_cluster.catalog.account_usage import MINUTES_KIND
from svc_cluster.catalog.node_rows import canonical_node
from svc_cluster.model.content import Row, Visit, behind
from svc_cluster.model.idempotency_table import canonical_idempotency_row
from svc_cluster.model.usage_table import canonical_counts

_END: Final = b"\xff"

_FORMS: Final[dict[int, Callable[[bytes], bytes]]] = {
    catalog_state.META[0]: canonical_rows.canonical_meta,
    catalog_state.NODE[0]: canonical_node,
    catalog_state.BASIN[0]: canonical_rows.canonical_basin,
    catalog_state.IDEMPOTENCY_ROWS[0]: canonical_idempotency_row,
    location_table.CHOICE[0]: location_table.canonical_choice,
    token_table.META[0]: token_table.canonical_meta,
    token_table.TOKEN[0]: token_table.canonical_token,
    MINUTES_KIND: canonical_counts,
}
"""By the kind of the key. All other rows are of one form and are taken as they are, so that what is
new in a later release is compared as well."""


class CatalogContent:
    """This is the content of the catalog's group. Nothing of it is purged lazily."""

    def visits(self, view: KeyReader, after: bytes) -> Iterator[Visit]:
        for key, value in view.scan(behind(after), _END):
            form, head, flaw = _FORMS.get(key[0]), value, ""
            if form is not None:
                try:
                    head = form(value)
                except (msgspec.DecodeError, ValueError) as cause:
                    flaw = f"row {key.hex()} cannot be read: {type(cause).__name__}"
            yield Visit(Row(key, head), len(key) + len(value), flaw)
