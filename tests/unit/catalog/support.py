"""A store in a dictionary, and entries applied to it as a node would."""

from __future__ import annotations

from collections.abc import Iterator

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.catalog_commands import CatalogCommand
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected, CatalogState


class DictStore:
    def __init__(self) -> None:
        self.pairs: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.pairs.get(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for key in sorted(self.pairs, reverse=reverse):
            if start <= key < end:
                yield key, self.pairs[key]

    def write(self, write_set: WriteSet) -> None:
        for key, value, end in write_set.ops:
            if end is not None:
                for gone in [k for k in self.pairs if key <= k < end]:
                    del self.pairs[gone]
            elif value is None:
                self.pairs.pop(key, None)
            else:
                self.pairs[key] = value


class Catalog:
    """State and store together."""

    def __init__(self) -> None:
        self.store = DictStore()
        self.state = CatalogState(self.store)

    def apply(self, *commands: CatalogCommand) -> list[CatalogApplied | CatalogRejected]:
        plan = self.state.plan(LogIndex(self.state.applied_index + 1), Term(1), list(commands))
        self.store.write(plan.write_set)
        self.state.commit(plan)
        return plan.outcomes

    def reopened(self) -> CatalogState:
        return CatalogState(self.store)
