"""The state machine of a group, made of the applied state of either kind.

`plan` works out what an entry does without doing it; `commit` takes it over once the write set is
in the store. Between the two lies the store's own atomic write, which may have to be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.catalog_commands import CatalogCommand
from svc_cluster.catalog.catalog_state import CatalogPlan as CatalogPlan
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.codec.catalog_entry import CatalogEntryFormatError, decode_catalog_entry
from svc_cluster.codec.entry_since import written_kinds
from svc_cluster.codec.entry_version import Known
from svc_cluster.codec.log_entry import EntryFormatError, decode_steps
from svc_cluster.raft.engine import is_noop
from svc_cluster.replica.kept_entries import KeptEntries
from svc_cluster.stream import apply as stream_apply
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import BasinCommand

Outcome_co = TypeVar("Outcome_co", covariant=True)
P = TypeVar("P")


class EntryPlan(Protocol[Outcome_co]):
    """What is the same of both kinds of plans: the changes, and the outcomes."""

    @property
    def write_set(self) -> WriteSet: ...

    @property
    def outcomes(self) -> Sequence[Outcome_co]:
        """One for each command, in the entry's order; a single one for an entry that no replica
        could read."""
        ...


Planning = Generator[int, None, P]
"""Comes to a plan; yields how much was done since the pause before, in commands."""


class AppliedState(Protocol):
    """What is the same of both kinds of states: how far it is, and its digest."""

    @property
    def applied_index(self) -> LogIndex: ...

    @property
    def applied_term(self) -> Term: ...

    @property
    def digest(self) -> int: ...


class StateMachine(Generic[P]):
    """What a group agrees on commands for; `P` is its kind of plan."""

    def __init__(
        self,
        state: AppliedState,
        known: Known,
        kinds: frozenset[str],
        command: str,
        plan: Callable[[LogEntry], Planning[P]],
        commit: Callable[[P], None],
    ) -> None:
        """`kinds` are the commands of this kind of group among `known`, as members of the message
        `command`."""
        self._state = state
        self.known = known
        self.kinds = kinds
        self._command = command
        self._plan = plan
        self._commit = commit

    @property
    def applied_index(self) -> LogIndex:
        return self._state.applied_index

    @property
    def applied_term(self) -> Term:
        return self._state.applied_term

    @property
    def digest(self) -> int:
        return self._state.digest

    def written(self, active: int) -> list[str]:
        """The kinds of commands that can have made the state under this active version."""
        return written_kinds(self._command, self.kinds, active)

    def plan(self, entry: LogEntry) -> Planning[P]:
        """Work out what the entry does, with a pause behind each of its commands. The steps raise
        UnknownEntryError, before any of its effects, for what only a newer release can apply."""
        return self._plan(entry)

    def commit(self, plan: P) -> None:
        """Take over a plan whose write set is in the store."""
        self._commit(plan)


def basin_machine(
    state: BasinState, known: Known = Known(), kept: KeptEntries[BasinCommand] | None = None
) -> StateMachine[stream_apply.Plan]:
    """Make the machine of a basin: streams, records, configuration. What is in `kept` it does not
    decode."""

    def plan(entry: LogEntry) -> Planning[stream_apply.Plan]:
        commands = None if kept is None else kept.take(entry.log_index, entry.term)
        if commands is None:
            commands = yield from _basin_commands(entry.payload, known.basin)
        return (yield from stream_apply.plan_steps(state, entry.log_index, entry.term, commands))

    return StateMachine(
        state, known, known.basin, "Command", plan, partial(stream_apply.commit, state)
    )


def _basin_commands(
    payload: bytes, kinds: frozenset[str]
) -> Generator[int, None, list[BasinCommand] | None]:
    if is_noop(payload):
        return []
    try:
        return (yield from decode_steps(payload, kinds))
    except EntryFormatError:
        # the same bytes are refused by every replica: rejected, and the log goes on
        return None


def catalog_machine(state: CatalogState, known: Known = Known()) -> StateMachine[CatalogPlan]:
    """Make the machine of the catalog: nodes and basins."""

    def plan(entry: LogEntry) -> Planning[CatalogPlan]:
        commands = _catalog_commands(entry.payload, known.catalog)
        return state.plan_steps(entry.log_index, entry.term, commands)

    return StateMachine(state, known, known.catalog, "CatalogCommand", plan, state.commit)


def _catalog_commands(payload: bytes, kinds: frozenset[str]) -> list[CatalogCommand]:
    if is_noop(payload):
        return []
    try:
        return decode_catalog_entry(payload, kinds)
    except CatalogEntryFormatError:
        return []
