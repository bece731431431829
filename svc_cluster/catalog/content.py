"""What the catalog holds, apart from the form in which its store keeps it: see model/content.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from svc_cluster.catalog import locations, state, tokens
from svc_cluster.catalog.usage import MINUTES_KIND
from svc_cluster.model.content import Reader, Row, Visit, behind
from svc_cluster.model.outcome_table import canonical_outcome
from svc_cluster.model.usage_table import canonical_counts

_END: Final = b"\xff"

_FORMS: Final[dict[int, Callable[[bytes], bytes]]] = {
    state.META[0]: state.canonical_meta,
    state.NODE[0]: state.canonical_node,
    state.BASIN[0]: state.canonical_basin,
    state.OUTCOME[0]: canonical_outcome,
    locations.CHOICE[0]: locations.canonical_choice,
    tokens.META[0]: tokens.canonical_meta,
    tokens.TOKEN[0]: tokens.canonical_token,
    MINUTES_KIND: canonical_counts,
}
"""By the kind of the key. All other rows are of one form and are taken as they are, so that what is
new in a later release is compared as well."""


class CatalogContent:
    """Of the catalog's group. Nothing of it is purged lazily."""

    def visits(self, view: Reader, after: bytes) -> Iterator[Visit]:
        for key, value in view.scan(behind(after), _END):
            form, head, flaw = _FORMS.get(key[0]), value, ""
            if form is not None:
                try:
                    head = form(value)
                except (msgspec.DecodeError, ValueError) as cause:
                    flaw = f"row {key.hex()} cannot be read: {type(cause).__name__}"
            yield Visit(Row(key, head), len(key) + len(value), flaw)
