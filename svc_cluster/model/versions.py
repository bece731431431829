"""All versions of the program in one place: what it speaks, what it writes, and since when.

A cluster has one *active version*, an integer in its catalog: the newest of what may be written and
said in it. Nobody writes what came with a later one, so that every release that speaks the active
version reads all that there is; until it is raised, releases may be mixed and gone back to. It is
raised by an operator alone, one by one, and never lowered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FIRST: Final = 2
"""The active version where a catalog says none, and all that is spoken by who does not say."""

OLDEST: Final = 2
"""The oldest active version that this program works under."""

NEWEST: Final = 3
"""The newest active version that this program works under."""

RELEASES: Final[Mapping[int, str]] = {2: "0.2", 3: "0.3"}
"""The first release that speaks each version."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A Spoken is the range of active versions under which a process works, both ends included."""

    oldest: int
    newest: int

    @property
    def text(self) -> str:
        if self.oldest == self.newest:
            return f"version {self.oldest} (release {release_of(self.oldest)})"
        return f"versions {self.oldest} to {self.newest} (release {release_of(self.newest)})"


SPOKEN: Final = Spoken(OLDEST, NEWEST)
"""What this program speaks."""


@dataclass(frozen=True, slots=True)
class Format:
    """A Format is one version of something on a disk or on a wire. `since`: the active version
    from which on it is written; what is newer than the active version is read, and not written."""

    version: int
    since: int


DATA_DIRECTORY: Final = (Format(2, since=2), Format(3, since=3))
"""The identity of a data directory; from 3 on it names the active version, which says that programs
of before must not start on it."""
PAYLOAD_DIRECTORY: Final = 4
"""The format of a data directory that may hold payload files. Programs that speak PAYLOAD_FILES
read it, and no older ones."""
PAYLOAD_FILES: Final = 3
"""The active version from which on a node may write payload files: before it, the release of before
can still be gone back to."""
FORMATION: Final = (Format(1, since=2), Format(2, since=3))
"""2: of a cluster in which the place of a node was given to another directory."""
RESTORED_FORMATION: Final = 3
"""The format of the formation in a directory that a restore has made, until its cluster is formed,
whatever the active version: programs that do not read it would vote before that."""
BEGUN_FORMATION: Final = 4
"""The format of the formation of a cluster that begins at a later version than FIRST: all of its
initial nodes have said that they speak that, so that each of them reads this."""
JOINED_FORMATION: Final = 5
"""The format of the formation in the directory of a node that came with a join token: programs that
do not read it would take their settings for the voters of the catalog."""
WAL_SEGMENT: Final = (Format(1, since=2), Format(2, since=2))
"""1: of a segment without its length, which no node makes any more."""
WAL_REACH: Final = (Format(1, since=2),)
ROWS: Final = (Format(1, since=2),)
"""What a known entry writes into the state store; snapshots carry these rows."""
BASIN_ENTRY: Final = (Format(1, since=2),)
CATALOG_ENTRY: Final = (Format(1, since=2),)
"""Counted from 0x81 on in the entry."""
LINK: Final = (Format(1, since=2),)
"""The protocol of frames and greetings between processes."""

USAGE_HOURS: Final = 3
"""The active version from which on the hours of use are kept that is too old for its minutes. The
catalog's own log says when that is, a basin's log says so by a command."""

SEALED_CONFIGURATIONS: Final = 3
"""The active version from which on a group's configuration may be sealed. Before it, nobody writes
a seal, a frame that begins a configuration, or a message that tells of one."""
SEAL_ENTRY: Final = (Format(1, since=SEALED_CONFIGURATIONS),)
PAGED_USAGE: Final = 3
"""The active version from which on every gateway asks for usage in parts, and nobody is answered
more at once."""

SHARED_CACHING: Final = 3
"""The active version from which on a stream can say that shared caches may keep its records. A row
that says so has a member more; all others are as they were."""

CHANGED_MEMBERS: Final = 3
"""The active version from which on the catalog orders changes of a group's members."""

FREEZING: Final = 3
"""The active version from which on a basin can be frozen. The row of one that is frozen has a
member more; all others are as they were."""

DRAINING: Final = 3
"""The active version from which on a node can be drained for longer than its process lives."""

JOINING: Final = 3
"""The active version from which on nodes come to a cluster with a join token, and leave it."""

JOINED_APPENDS: Final = 3
"""A node whose newest version is older is not told that an append stands for several: it would
count one. It is of requests alone: nothing of it is in a log."""

MEMBERS_SINCE: Final[Mapping[str, int]] = {
    "CatalogCommand.replace_node": 3,
    "CatalogCommand.drain_node": DRAINING,
    "CatalogCommand.open_ticket": JOINING,
    "CatalogCommand.admit_node": JOINING,
    "CatalogCommand.remove_node": JOINING,
    "CatalogCommand.begin_change": CHANGED_MEMBERS,
    "CatalogCommand.cancel_change": CHANGED_MEMBERS,
    "CatalogCommand.allow_seal": CHANGED_MEMBERS,
    "CatalogCommand.configured": CHANGED_MEMBERS,
    "BeginChange.present": CHANGED_MEMBERS,
    "RegisterNode.facts": 3,
    "Command.keep_usage": USAGE_HOURS,
    "Command.freeze_basin": FREEZING,
    "PartialStreamConfig.shared_caching": SHARED_CACHING,
    "CreateStream.shared_caching": SHARED_CACHING,
    "AppendRequest.requests": JOINED_APPENDS,
}
"""Members of messages in a log, `Message.member`, that came after FIRST: the active version from
which on they may be written. Of messages between processes: the newest version that the other side
speaks at least. What is not here has been there since FIRST."""

RAISING: Final = "CatalogCommand.raise_active_version"
"""The one command that is written under a version that does not have it: by then every node and
gateway has said that it speaks the next."""


def newest_written(formats: Sequence[Format], active: int) -> int:
    """The version of a format that is written under this active version."""
    return max(each.version for each in formats if each.since <= active)


def directory_format(active: int, *, has_payload: bool) -> int:
    """The format that a data directory has at least under this active version. `has_payload`: its
    node is to write payload files, which it does once the directory has the format of those."""
    if has_payload and active >= PAYLOAD_FILES:
        return PAYLOAD_DIRECTORY
    return newest_written(DATA_DIRECTORY, active)


def newest_read(formats: Sequence[Format]) -> int:
    """The newest version of a format that this program reads."""
    return max(each.version for each in formats)


def release_of(version: int) -> str:
    """The release that brought this version, as people call it."""
    return RELEASES.get(version, f"0.{version}")


def refusal(theirs: Spoken, own: Spoken, active: int) -> str | None:
    """Why a process that speaks `theirs` cannot take part under this active version; None: it can.
    One sentence with both versions. `own`: what the process speaks that refuses it."""
    if theirs.newest < max(active, own.oldest):
        return (
            f"too old: it speaks {theirs.text}, and this cluster is at version "
            f"{max(active, own.oldest)}: run release {release_of(max(active, own.oldest))} or newer"
        )
    if theirs.oldest > min(active, own.newest):
        return (
            f"too new: it speaks {theirs.text}, and this cluster is at version {active}: run "
            f"release {release_of(active)} there, and finalize the upgrade before the next one"
        )
    return None


def directory_refusal(active: int, own: Spoken) -> str | None:
    """Why a program that speaks `own` must not start on a data directory of a cluster with this
    active version; None: it may."""
    if active > own.newest:
        return (
            f"the data directory is of a cluster at version {active}, this program speaks "
            f"{own.text}: start svc-cluster {release_of(active)} or newer on it"
        )
    if active < own.oldest:
        return (
            f"the data directory is of a cluster at version {active}, this program speaks "
            f"{own.text}: start svc-cluster {release_of(own.oldest - 1)} on it, finalize that "
            "upgrade, and go on from there"
        )
    return None
