"""The catalog as applied: nodes and basins, small enough to be held in memory whole.

Pure: it reads the store once, when it is built, and hands every change out as a write set.
"""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.steps import at_once
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.account_usage import ReportAccountUsage, account_table, take
from svc_cluster.catalog.active_version import ActiveVersion, RaiseActiveVersion, VersionPlan
from svc_cluster.catalog.basin_record import BasinRecord, basin_from_bytes, basin_to_bytes, made_by
from svc_cluster.catalog.catalog_commands import (
    AdmitNode,
    CatalogCommand,
    CreateBasin,
    DeleteBasin,
    DrainNode,
    ExpireCatalogIdempotencyKeys,
    IdempotentCatalogWrite,
    OpenTicket,
    RegisterNode,
    RemoveBasin,
    RemoveNode,
    ReplaceNode,
)
from svc_cluster.catalog.catalog_digest import chained_digest
from svc_cluster.catalog.group_change import (
    AllowSeal,
    BeginChange,
    CancelChange,
    ChangeCommand,
    Configured,
    Placements,
)
from svc_cluster.catalog.join_tickets import Ticket, TicketTable
from svc_cluster.catalog.location_table import Choice, LocationTable, SetDefaultLocation
from svc_cluster.catalog.member_changes import Row, begun, moved_on, why_not_begun
from svc_cluster.catalog.node_removal import held_by
from svc_cluster.catalog.node_rows import (
    REMOVED,
    NodeRecord,
    decode_node,
    drained,
    encode_node,
    incarnations,
    places_of,
    registered,
    succeeded,
)
from svc_cluster.catalog.own_group import CatalogGroup, OwnGroup, why_it_votes, why_no_place
from svc_cluster.catalog.token_commands import IssueToken, RevokeToken, SetRootToken
from svc_cluster.catalog.token_table import TokenPlan, TokenTable
from svc_cluster.model.idempotency_table import IdempotencyRow, IdempotencyTable, Mark
from svc_cluster.model.places import Places
from svc_cluster.model.usage_table import UsageDraft

META: Final = b"\x00"
NODE: Final = b"\x01"
BASIN: Final = b"\x02"
IDEMPOTENCY_ROWS: Final = b"\x28"
_IDEMPOTENCY_TIME: Final = b"\x29"
_IDEMPOTENCY_COUNT: Final = b"\x2a"
_U64: Final = struct.Struct(">Q")


class CatalogMeta(msgspec.Struct, array_like=True):
    applied_index: int = 0
    applied_term: int = 0
    digest: int = 0
    next_group_id: int = CATALOG_GROUP + 1


@dataclass(frozen=True, slots=True)
class CatalogRejected:
    """The command had no effect, on every replica alike."""

    reason: str


@dataclass(frozen=True, slots=True)
class CatalogApplied:
    """`record` is the basin the command made or changed, if it did."""

    record: BasinRecord | None = None


CatalogOutcome = CatalogApplied | CatalogRejected


@dataclass(slots=True)
class CatalogPlan:
    """What one log entry does; nothing has happened until `CatalogState.commit`."""

    log_index: LogIndex
    meta: CatalogMeta
    write_set: WriteSet
    outcomes: list[CatalogOutcome] = field(default_factory=list)
    nodes: dict[NodeId, NodeRecord] = field(default_factory=dict)
    basins: dict[str, BasinRecord | None] = field(default_factory=dict)
    tokens: TokenPlan = field(default_factory=TokenPlan)
    location: Choice | None = None
    version: VersionPlan = field(default_factory=VersionPlan)
    next_placement: int | None = None
    own_group: CatalogGroup | None = None
    tickets: dict[NodeId, Ticket | None] = field(default_factory=dict)
    idempotency_rows: dict[bytes, IdempotencyRow] = field(default_factory=dict)
    """Repeatable requests that the entry decides, by their keys."""
    forgotten: dict[bytes, int] = field(default_factory=dict)
    """Repeatable requests that are forgotten, and when each was decided."""
    idempotency_mark: Mark = Mark()
    usage: UsageDraft = field(kw_only=True)

    @property
    def changed_groups(self) -> list[GroupId] | None:
        """The groups of the basins whose rows change; None: some row is gone, whichever it was."""
        rows = self.basins.values()
        return None if None in rows else [row.group_id for row in rows if row is not None]


class CatalogState:
    """Nodes by id and basins by name, as of `applied_index`."""

    def __init__(self, reader: KeyReader) -> None:
        raw = reader.get(META)
        self._meta = CatalogMeta() if raw is None else msgspec.msgpack.decode(raw, type=CatalogMeta)
        self.nodes: dict[NodeId, NodeRecord] = {}
        self.node_changes = 0  # grows whenever a row of a node changes
        self.basins: dict[str, BasinRecord] = {}
        self.basins_by_group: dict[GroupId, BasinRecord] = {}
        self._names: list[str] = []
        for _, value in reader.scan(NODE, BASIN):
            node = decode_node(value)
            self.nodes[node.node_id] = node
        for _, value in reader.scan(BASIN, b"\x03"):
            self._put_basin(basin_from_bytes(value))
        self.tokens = TokenTable(reader)
        self.locations = LocationTable(reader)
        self.active_version = ActiveVersion(reader)
        self.placements = Placements(reader)
        self.own_group = OwnGroup(reader)
        self.tickets = TicketTable(reader)
        self.idempotency = IdempotencyTable(
            reader, IDEMPOTENCY_ROWS, _IDEMPOTENCY_TIME, _IDEMPOTENCY_COUNT
        )
        """The idempotency keys of requests and their answers; not held in memory."""
        self.usage = account_table(reader)

    @property
    def applied_index(self) -> LogIndex:
        return LogIndex(self._meta.applied_index)

    @property
    def applied_term(self) -> Term:
        return Term(self._meta.applied_term)

    @property
    def digest(self) -> int:
        return self._meta.digest

    @property
    def next_group_id(self) -> GroupId:
        """Every group id below it has been given out; ids are never used again."""
        return GroupId(self._meta.next_group_id)

    @property
    def places(self) -> Places:
        """The places of nodes that were given away."""
        return places_of(self.nodes)

    def count_basins_of(self, owner: int) -> int:
        """Those that are being deleted among them."""
        return sum(record.owner == owner for record in self.basins.values())

    def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinRecord], bool]:
        """Names in byte order (they are ASCII), `start_after` exclusive; and whether more match."""
        place = max(
            bisect_right(self._names, start_after) if start_after else 0,
            bisect_right(self._names, prefix) - (prefix in self.basins),
        )
        out: list[BasinRecord] = []
        while place < len(self._names) and self._names[place].startswith(prefix):
            if len(out) == limit:
                return out, True
            out.append(self.basins[self._names[place]])
            place += 1
        return out, False

    def plan(self, log_index: LogIndex, term: Term, commands: list[CatalogCommand]) -> CatalogPlan:
        """Work out what the entry does, without doing it. Content never raises."""
        return at_once(self.plan_steps(log_index, term, commands))

    def plan_steps(
        self, log_index: LogIndex, term: Term, commands: list[CatalogCommand]
    ) -> Generator[int, None, CatalogPlan]:
        """Does what `plan` does, with a pause behind each command, in which no plan may be
        committed. What is yielded says how much was done, in commands of the plain sort."""
        assert log_index == self.applied_index + 1, "entries are applied one after another"
        plan = CatalogPlan(
            log_index,
            CatalogMeta(log_index, term, self._meta.digest, self._meta.next_group_id),
            WriteSet(),
            usage=UsageDraft(self.usage),
        )
        for command in commands:
            plan.outcomes.append(self._decide(plan, command))
            if isinstance(command, ReportAccountUsage):
                yield len(command.report.minutes)
            yield 1
        forgotten = [(decided_at_ms, key) for key, decided_at_ms in plan.forgotten.items()]
        plan.idempotency_mark = self.idempotency.write(
            plan.write_set, plan.idempotency_rows, forgotten
        )
        plan.usage.write(plan.write_set, keeps_hours=self.active_version.keeps_hours)
        plan.meta.digest = chained_digest(self._meta.digest, log_index, plan.write_set)
        plan.write_set.put(META, msgspec.msgpack.encode(plan.meta))
        return plan

    def commit(self, plan: CatalogPlan) -> None:
        """Take over what has been written to the store."""
        self._meta = plan.meta
        self.nodes.update(plan.nodes)
        self.node_changes += len(plan.nodes)
        for name, record in plan.basins.items():
            old = self.basins.pop(name, None)
            if old is not None:
                del self.basins_by_group[old.group_id]
                self._names.remove(name)
            if record is not None:
                self._put_basin(record)
        self.tokens.commit(plan.tokens)
        self.locations.commit(plan.location)
        self.active_version.commit(plan.version)
        self.placements.commit(plan.next_placement)
        self.own_group.commit(plan.own_group)
        self.tickets.commit(plan.tickets)
        self.idempotency.commit(plan.idempotency_mark)
        self.usage.commit(plan.usage)

    def _put_basin(self, record: BasinRecord) -> None:
        self.basins[record.name] = record
        self.basins_by_group[record.group_id] = record
        insort(self._names, record.name)

    def _decide(self, plan: CatalogPlan, command: CatalogCommand) -> CatalogOutcome:
        match command:
            case RegisterNode():
                return self._put_node(plan, registered({**self.nodes, **plan.nodes}, command))
            case ReplaceNode(node_id):
                reason = why_no_place(plan.own_group or self.own_group.row, node_id)
                if reason is not None:
                    return CatalogRejected(reason)
                return self._put_node(plan, succeeded({**self.nodes, **plan.nodes}, command))
            case DrainNode():
                return self._put_node(plan, drained({**self.nodes, **plan.nodes}, command))
            case OpenTicket() | AdmitNode() | RemoveNode():
                return self._come_or_go(plan, command)
            case CreateBasin():
                return self._create(plan, command)
            case DeleteBasin(name, deleted_at_ms):
                record = self._basin(plan, name)
                if record is None:
                    return CatalogRejected("no such basin")
                if record.deleted_at_ms is not None:
                    return CatalogApplied(record)
                return self._write_basin(plan, replace(record, deleted_at_ms=deleted_at_ms))
            case RemoveBasin(group_id):
                record = self._of_group(plan, group_id)
                if record is None:
                    return CatalogRejected("no such group")
                if record.deleted_at_ms is None:
                    return CatalogRejected("the basin is not being deleted")
                self._forget_basin(plan, record)
                return CatalogApplied(record)
            case IssueToken() | RevokeToken() | SetRootToken():
                reason = self.tokens.decide(plan.tokens, plan.write_set, command)
                return CatalogApplied() if reason is None else CatalogRejected(reason)
            case SetDefaultLocation():
                plan.location = self.locations.decide(plan.location, plan.write_set, command)
                return CatalogApplied()
            case IdempotentCatalogWrite():
                return self._idempotent(plan, command)
            case RaiseActiveVersion():
                nodes = incarnations({**self.nodes, **plan.nodes}.values())
                reason = self.active_version.decide(plan.version, plan.write_set, nodes, command)
                return CatalogApplied() if reason is None else CatalogRejected(reason)
            case BeginChange() | CancelChange() | AllowSeal() | Configured():
                return self._change(plan, command)
            case ReportAccountUsage():
                reason = take(plan.usage, command)
                return CatalogApplied() if reason is None else CatalogRejected(reason)
            case ExpireCatalogIdempotencyKeys(before_ms, at_most):
                for decided_at_ms, key in self.idempotency.before(before_ms, at_most):
                    plan.forgotten[key] = decided_at_ms
                return CatalogApplied()

    def _idempotent(self, plan: CatalogPlan, command: IdempotentCatalogWrite) -> CatalogOutcome:
        key = command.key
        is_known = key not in plan.forgotten and self.idempotency.find(key) is not None
        if is_known or key in plan.idempotency_rows:
            return CatalogRejected("the request was answered before")
        done = CatalogApplied() if command.write is None else self._decide(plan, command.write)
        if isinstance(done, CatalogApplied):
            plan.idempotency_rows[key] = IdempotencyRow(command.decided_at_ms, command.answer)
        return done

    def _create(self, plan: CatalogPlan, command: CreateBasin) -> CatalogOutcome:
        if self._basin(plan, command.name) is not None:
            return CatalogRejected("the basin exists")
        if command.group_id != plan.meta.next_group_id:
            return CatalogRejected("the group id is not the next one")
        nodes = {**self.nodes, **plan.nodes}
        if any(node in nodes and nodes[node].is_removed for node in command.replicas):
            return CatalogRejected(REMOVED)
        plan.meta.next_group_id = command.group_id + 1
        return self._write_basin(plan, made_by(command))

    def _come_or_go(
        self, plan: CatalogPlan, command: OpenTicket | AdmitNode | RemoveNode
    ) -> CatalogOutcome:
        replicas, gone = 0, list[BasinRecord]()
        if isinstance(command, RemoveNode):
            replicas, gone = held_by(command.node_id, {**self.basins, **plan.basins}.values())
            reason = why_it_votes(plan.own_group or self.own_group.row, command.node_id)
            if reason is not None:
                return CatalogRejected(reason)
        nodes = {**self.nodes, **plan.nodes}
        found = self.tickets.decide(plan.tickets, plan.write_set, nodes, command, replicas)
        done = CatalogApplied() if found is None else self._put_node(plan, found)
        for record in gone if isinstance(done, CatalogApplied) else ():
            self._forget_basin(plan, record)
        return done

    @staticmethod
    def _forget_basin(plan: CatalogPlan, record: BasinRecord) -> None:
        plan.basins[record.name] = None
        plan.write_set.delete(BASIN + record.name.encode())

    def _put_node(self, plan: CatalogPlan, found: NodeRecord | str) -> CatalogOutcome:
        if isinstance(found, str):
            return CatalogRejected(found)
        if found != (plan.nodes.get(found.node_id) or self.nodes.get(found.node_id)):
            plan.nodes[found.node_id] = found
            plan.write_set.put(NODE + _U64.pack(found.node_id), encode_node(found))
        return CatalogApplied()

    def _change(self, plan: CatalogPlan, command: ChangeCommand) -> CatalogOutcome:
        """A step of a change of a group's members."""
        if command.group_id == CATALOG_GROUP:
            own = self.own_group.before(plan.own_group, command)
            made = "no such group" if own is None else self._changed(plan, own, command)
            if isinstance(made, str):
                return CatalogRejected(made)
            plan.own_group = made
            self.own_group.write(plan.write_set, made)
            return CatalogApplied()
        record = self._of_group(plan, command.group_id)
        outcome = "no such group" if record is None else self._changed(plan, record, command)
        if isinstance(outcome, str):
            return CatalogRejected(outcome)
        return self._write_basin(plan, outcome)

    def _changed(self, plan: CatalogPlan, row: Row, command: ChangeCommand) -> Row | str:
        """What the step makes of the row, or why it has no effect."""
        if not isinstance(command, BeginChange):
            return moved_on(row, command)
        reason = why_not_begun(row, {**self.nodes, **plan.nodes}, command)
        if reason is not None:
            return reason
        first = plan.next_placement or self.placements.next
        found, plan.next_placement = begun(row, command, first)
        self.placements.write(plan.write_set, plan.next_placement)
        return found

    def _of_group(self, plan: CatalogPlan, group_id: GroupId) -> BasinRecord | None:
        found = self.basins_by_group.get(group_id)
        record = None if found is None else self._basin(plan, found.name)
        return None if record is None or record.group_id != group_id else record

    def _basin(self, plan: CatalogPlan, name: str) -> BasinRecord | None:
        return plan.basins[name] if name in plan.basins else self.basins.get(name)

    @staticmethod
    def _write_basin(plan: CatalogPlan, record: BasinRecord) -> CatalogApplied:
        plan.basins[record.name] = record
        plan.write_set.put(BASIN + record.name.encode(), basin_to_bytes(record))
        return CatalogApplied(record)
