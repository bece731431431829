"""What an access token may do: operations, groups of them, sets of names, and their algebra.

Pure. Names are compared as text, which for valid UTF-8 is the same as comparing bytes. Source:
contract 12.2, 12.3 and 12.7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Op(Enum):
    """The operations that a token can be given, by their names on the wire."""

    LIST_BASINS = "list-basins"
    CREATE_BASIN = "create-basin"
    DELETE_BASIN = "delete-basin"
    RECONFIGURE_BASIN = "reconfigure-basin"
    GET_BASIN_CONFIG = "get-basin-config"
    ISSUE_ACCESS_TOKEN = "issue-access-token"
    REVOKE_ACCESS_TOKEN = "revoke-access-token"
    LIST_ACCESS_TOKENS = "list-access-tokens"
    ACCOUNT_METRICS = "account-metrics"
    BASIN_METRICS = "basin-metrics"
    LIST_STREAMS = "list-streams"
    CREATE_STREAM = "create-stream"
    DELETE_STREAM = "delete-stream"
    GET_STREAM_CONFIG = "get-stream-config"
    RECONFIGURE_STREAM = "reconfigure-stream"
    CHECK_TAIL = "check-tail"
    APPEND = "append"
    READ = "read"
    TRIM = "trim"
    FENCE = "fence"
    STREAM_METRICS = "stream-metrics"
    LIST_LOCATIONS = "list-locations"
    GET_DEFAULT_LOCATION = "get-default-location"
    SET_DEFAULT_LOCATION = "set-default-location"


@dataclass(frozen=True, slots=True)
class ReadWrite:
    """Which halves of a group of operations are granted."""

    read: bool = False
    write: bool = False


@dataclass(frozen=True, slots=True)
class OpGroups:
    account: ReadWrite = ReadWrite()
    basin: ReadWrite = ReadWrite()
    stream: ReadWrite = ReadWrite()


ACCOUNT_READ: Final = frozenset(
    {
        Op.LIST_BASINS,
        Op.GET_BASIN_CONFIG,
        Op.LIST_ACCESS_TOKENS,
        Op.ACCOUNT_METRICS,
        Op.LIST_LOCATIONS,
        Op.GET_DEFAULT_LOCATION,
    }
)
ACCOUNT_WRITE: Final = frozenset(
    {
        Op.ISSUE_ACCESS_TOKEN,
        Op.REVOKE_ACCESS_TOKEN,
        Op.CREATE_BASIN,
        Op.DELETE_BASIN,
        Op.RECONFIGURE_BASIN,
        Op.SET_DEFAULT_LOCATION,
    }
)
BASIN_READ: Final = frozenset({Op.GET_BASIN_CONFIG, Op.LIST_STREAMS, Op.BASIN_METRICS})
BASIN_WRITE: Final = frozenset({Op.CREATE_BASIN, Op.DELETE_BASIN, Op.RECONFIGURE_BASIN})
STREAM_READ: Final = frozenset(
    {Op.LIST_STREAMS, Op.GET_STREAM_CONFIG, Op.CHECK_TAIL, Op.READ, Op.STREAM_METRICS}
)
STREAM_WRITE: Final = frozenset(
    {
        Op.CREATE_STREAM,
        Op.DELETE_STREAM,
        Op.RECONFIGURE_STREAM,
        Op.APPEND,
        Op.TRIM,
        Op.FENCE,
    }
)


@dataclass(frozen=True, slots=True)
class NameSet:
    """One name, or all names with a prefix. `Exact("")` is no name, `Prefix("")` is every name."""

    value: str
    is_prefix: bool

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if self.is_prefix:
            return name.startswith(self.value)
        return name != "" and name == self.value


def exact(name: str) -> NameSet:
    return NameSet(name, is_prefix=False)


def prefix(value: str) -> NameSet:
    return NameSet(value, is_prefix=True)


EVERYTHING: Final = prefix("")


def is_empty(names: NameSet | None) -> bool:
    """A set that is left out holds nothing."""
    return names is None or (not names.is_prefix and names.value == "")


def contains(names: NameSet | None, name: str) -> bool:
    return names is not None and name in names


def is_subset(inner: NameSet | None, outer: NameSet | None) -> bool:
    """Whether every name of `inner` is in `outer`."""
    if inner is None or is_empty(inner):
        return True
    if outer is None or is_empty(outer):
        return False
    if outer.is_prefix:
        return inner.value.startswith(outer.value)
    return not inner.is_prefix and inner.value == outer.value


def under(name_prefix: str, names: NameSet | None) -> NameSet | None:
    """`names` as somebody means it whose names all get `name_prefix` put in front."""
    if names is None or is_empty(names):
        return names
    return NameSet(name_prefix + names.value, names.is_prefix)


def seen_from(name_prefix: str, names: NameSet | None) -> NameSet | None:
    """Return the part of `names` below `name_prefix`, without that prefix. This is `under` turned
    around. What lies outside is not told."""
    if names is None or not name_prefix:
        return names
    if names.value.startswith(name_prefix):
        return NameSet(names.value[len(name_prefix) :], names.is_prefix)
    if names.is_prefix and name_prefix.startswith(names.value):
        return EVERYTHING
    return None


@dataclass(frozen=True, slots=True)
class Scope:
    """What a token was given, in the form in which it was asked for."""

    basins: NameSet | None = None
    streams: NameSet | None = None
    access_tokens: NameSet | None = None
    op_groups: OpGroups = OpGroups()
    ops: tuple[Op, ...] = ()

    @property
    def operations(self) -> frozenset[Op]:
        """`ops` and what the groups stand for."""
        groups = self.op_groups
        out = set(self.ops)
        for granted, operations in (
            (groups.account.read, ACCOUNT_READ),
            (groups.account.write, ACCOUNT_WRITE),
            (groups.basin.read, BASIN_READ),
            (groups.basin.write, BASIN_WRITE),
            (groups.stream.read, STREAM_READ),
            (groups.stream.write, STREAM_WRITE),
        ):
            if granted:
                out |= operations
        return frozenset(out)


ROOT_SCOPE: Final = Scope(
    basins=EVERYTHING,
    streams=EVERYTHING,
    access_tokens=EVERYTHING,
    op_groups=OpGroups(*(ReadWrite(read=True, write=True),) * 3),
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What the holder of a token may do, worked out once. `streams` holds full names;
    `name_prefix` is put in front of every stream name that the holder says."""

    operations: frozenset[Op]
    basins: NameSet | None = None
    streams: NameSet | None = None
    access_tokens: NameSet | None = None
    name_prefix: str = ""

    @property
    def is_account_wide(self) -> bool:
        """Whether the grant is for every basin, those to come among them."""
        return is_subset(EVERYTHING, self.basins)

    def allows(
        self,
        operations: Iterable[Op] = (),
        *,
        basin: str | None = None,
        stream: str | None = None,
        token_id: str | None = None,
    ) -> bool:
        """Whether all `operations` and all names that are given are within the grant. `stream` is
        the full name."""
        return (
            self.operations.issuperset(operations)
            and (basin is None or contains(self.basins, basin))
            and (stream is None or contains(self.streams, stream))
            and (token_id is None or contains(self.access_tokens, token_id))
        )


def grant_of(scope: Scope, name_prefix: str = "") -> Grant:
    return Grant(scope.operations, scope.basins, scope.streams, scope.access_tokens, name_prefix)


FULL_GRANT: Final = grant_of(ROOT_SCOPE)
"""The root token's, and everybody's where nobody is asked for a token."""


@dataclass(frozen=True, slots=True)
class Range:
    """What part of a listing its caller may see: names with `prefix`, or just the one."""

    prefix: str
    only: str | None = None


def visible(names: NameSet | None, wanted_prefix: str) -> Range | None:
    """The names with `wanted_prefix` that are in `names`; None: there are none."""
    if names is None or is_empty(names):
        return None
    if not names.is_prefix:
        return Range(names.value, names.value) if names.value.startswith(wanted_prefix) else None
    if wanted_prefix.startswith(names.value):
        return Range(wanted_prefix)
    return Range(names.value) if names.value.startswith(wanted_prefix) else None
