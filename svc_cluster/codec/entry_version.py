"""What a replica may meet in a log that it does not know: entries of a newer release.

An entry that no release takes is rejected by every replica alike, and the log goes on. One that a
newer release takes must stop a replica that does not know it **before** it is applied: to skip it
is to lose what the others have acknowledged, and then to be equal to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.unknown_fields import UnknownFieldSet

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2, log_entry_pb2
from svc_cluster.model import versions
from svc_cluster.model.versions import SPOKEN, Spoken
from svc_cluster.raft.group import PAYLOAD_TYPE

ENCODING: Final = versions.newest_read(versions.ROWS)
"""Version of what an entry makes replicas write: two of them are equal, byte for byte, only where
this is. Raised whenever the rows that a known command writes change."""


class UnknownEntryError(Exception):
    """The entry is of a version, or has a command, a member or a value, that this replica does not
    know. A newer release may know it. The text says which."""


def refuse_unknown_members(*messages: Any) -> None:
    """Raises UnknownEntryError when one of the messages has a member that is not declared here. A
    member of a known command is read or the entry is not applied."""
    for message in messages:
        if len(UnknownFieldSet(message)):
            name = message.DESCRIPTOR.name
            raise UnknownEntryError(f"an unknown member of {name}")


def _kinds(command: Any) -> frozenset[str]:
    return frozenset(field.name for field in command.DESCRIPTOR.oneofs_by_name["command"].fields)


BASIN_KINDS: Final = _kinds(log_entry_pb2.Command)
CATALOG_KINDS: Final = _kinds(catalog_entry_pb2.CatalogCommand)


def _newest(command: Any, kinds: frozenset[str]) -> int:
    """The number of the newest of these kinds in the entry."""
    fields = command.DESCRIPTOR.oneofs_by_name["command"].fields
    return max((field.number for field in fields if field.name in kinds), default=0)


@dataclass(frozen=True, slots=True)
class Known:
    """What a replica can apply. A simulated node of an older release knows less."""

    basin: frozenset[str] = BASIN_KINDS
    """Kinds of commands, by their names in the entry."""
    catalog: frozenset[str] = CATALOG_KINDS
    encoding: int = ENCODING
    """At least 1: 0 is said by those that do not say it."""
    versions: Spoken = SPOKEN

    @property
    def newest_basin(self) -> int:
        """The number of the newest kind of command of a basin's log, as processes tell it."""
        return _newest(log_entry_pb2.Command, self.basin)

    @property
    def newest_catalog(self) -> int:
        """The same of the catalog's log."""
        return _newest(catalog_entry_pb2.CatalogCommand, self.catalog)


def version_of(payload: bytes, first: int, last: int) -> int | None:
    """Return the format version that an entry names, if this kind of group has ever had it or will
    have it. These are the versions `first` to `last`. None for anything else, which nobody takes.
    """
    if len(payload) < 2 or payload[0] != PAYLOAD_TYPE or not first <= payload[1] <= last:
        return None
    return payload[1]
