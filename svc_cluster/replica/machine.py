"""The state machines of the two kinds of groups, behind one small port.

`plan` works out what an entry does without doing it; `commit` takes it over once the write set is
in the store. Between the two lies the store's own atomic write, which may have to be repeated.
"""

from __future__ import annotations

from typing import Any, Protocol

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.state import CatalogState
from svc_cluster.codec.catalog_entry import CatalogEntryFormatError, decode_catalog_entry
from svc_cluster.codec.entry_version import Known
from svc_cluster.codec.log_entry import EntryFormatError, decode_entry
from svc_cluster.raft.engine import is_noop
from svc_cluster.stream import apply as stream_apply
from svc_cluster.stream.state import BasinState


class EntryPlan(Protocol):
    """Both kinds of plans: the changes, and one outcome a command in the entry's order."""

    write_set: WriteSet

    @property
    def outcomes(self) -> list[Any]: ...


class StateMachine(Protocol):
    known: Known

    @property
    def kinds(self) -> frozenset[str]:
        """Of `known`, the commands of this kind of group."""
        ...

    @property
    def applied_index(self) -> LogIndex: ...

    @property
    def applied_term(self) -> Term: ...

    @property
    def digest(self) -> int: ...

    def plan(self, entry: LogEntry) -> Any:
        """Raises UnknownEntryError for what only a newer release can apply."""
        ...

    def commit(self, plan: Any) -> None: ...


class BasinMachine:
    """A basin: streams, records, configuration."""

    def __init__(self, state: BasinState, known: Known = Known()) -> None:
        self.state = state
        self.known = known

    @property
    def kinds(self) -> frozenset[str]:
        return self.known.basin

    @property
    def applied_index(self) -> LogIndex:
        return self.state.applied_index

    @property
    def applied_term(self) -> Term:
        return self.state.applied_term

    @property
    def digest(self) -> int:
        return self.state.digest

    def plan(self, entry: LogEntry) -> stream_apply.Plan:
        if is_noop(entry.payload):
            return stream_apply.plan(self.state, entry.log_index, entry.term, [])
        try:
            commands = decode_entry(entry.payload, self.known.basin)
        except EntryFormatError:
            # the same bytes are refused by every replica: rejected, and the log goes on
            return stream_apply.plan(self.state, entry.log_index, entry.term, None)
        return stream_apply.plan(self.state, entry.log_index, entry.term, commands)

    def commit(self, plan: stream_apply.Plan) -> None:
        stream_apply.commit(self.state, plan)


class CatalogMachine:
    """The catalog: nodes and basins."""

    def __init__(self, state: CatalogState, known: Known = Known()) -> None:
        self.state = state
        self.known = known

    @property
    def kinds(self) -> frozenset[str]:
        return self.known.catalog

    @property
    def applied_index(self) -> LogIndex:
        return self.state.applied_index

    @property
    def applied_term(self) -> Term:
        return self.state.applied_term

    @property
    def digest(self) -> int:
        return self.state.digest

    def plan(self, entry: LogEntry) -> Any:
        if is_noop(entry.payload):
            return self.state.plan(entry.log_index, entry.term, [])
        try:
            commands = decode_catalog_entry(entry.payload, self.known.catalog)
        except CatalogEntryFormatError:
            return self.state.plan(entry.log_index, entry.term, [])
        return self.state.plan(entry.log_index, entry.term, commands)

    def commit(self, plan: Any) -> None:
        self.state.commit(plan)
