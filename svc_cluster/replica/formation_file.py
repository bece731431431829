"""The formation on a node's disk: two slots written by turns, so that a torn write leaves the one
before it. Beside the identity, and as that checksummed and with a format version."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, TypeVar

import msgspec

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.ids import NodeId
from svc_cluster.model import versions
from svc_cluster.model.formation import (
    RESTORED_LENGTH_MAX,
    ROUND_MAX,
    FormationRecord,
    Stage,
    are_members,
)
from svc_cluster.model.places import ORDINAL_MAX, Place, Places, are_places
from svc_cluster.replica.callbacks import settle
from svc_cluster.replica.identity import IdentityError
from svc_cluster.storage.disk import Disk, DiskFile

_T = TypeVar("_T")

FORMAT_VERSION: Final = versions.JOINED_FORMATION
"""1 has no places, and is written as long as there are none; 2 has them. 3 is of a directory that a
restore has made, until its cluster is formed; 4 of a cluster that begins at a later version; 5 of a
node that came later."""
FILE_NAME: Final = "formation"
SLOT_BYTES: Final = 128 * 1024
"""Room for `model.formation.MEMBERS_MAX` nodes."""
_MAGIC: Final = b"svcforma"
_HEADER_BYTES: Final = len(_MAGIC) + 8


class _Stored(msgspec.Struct):
    format: int
    generation: int
    incarnation: str
    """The incarnation of the data directory: a file that came from another one is not taken."""
    round: int
    stage: int
    members: list[tuple[int, str]]


class _StoredPlaces(_Stored):
    """Format 2."""

    places: list[tuple[int, int, str]] = []
    ordinal: int = 0


class _StoredRestored(_StoredPlaces):
    """Format 3."""

    restored: str = ""


class _StoredBegun(_StoredRestored):
    """Format 4."""

    begins_at: int = 0


class _StoredJoined(_StoredBegun):
    """Format 5."""

    joined: bool = False
    seeds: list[tuple[int, str]] = []


class _Version(msgspec.Struct):
    """This has as much as every format begins with."""

    format: int


class FormationFile:
    """Read at the start of a node, blocking; made and written by `write`."""

    def __init__(self, disk: Disk, incarnation: str) -> None:
        """Raises IdentityError for a file of a later format, of another directory, or of which
        both slots are damaged."""
        self._disk = disk
        self._incarnation = incarnation
        self._generation = 0
        self.record = FormationRecord()
        """What the disk held."""
        self._file: DiskFile | None = None
        self._newest = self.record
        """What it holds now."""
        self._is_uneven = False
        """Whether the other slot must not stay: it names a restore and the newest does not, or the
        node came later and it does not say so."""
        self._under_way: asyncio.Future[None] | None = None
        """Done once the disk has nothing more to do with the file."""
        if FILE_NAME in disk.list_names():
            self._read(disk.open(FILE_NAME))

    def _read(self, file: DiskFile) -> None:
        if file.size() < 2 * SLOT_BYTES:
            # a crash while the file was being made: nothing was ever in it
            file.close()
            self._disk.unlink(FILE_NAME)
            return
        self._file = file
        raw = [file.pread(SLOT_BYTES, slot * SLOT_BYTES) for slot in range(2)]
        found = [stored for stored in map(_decoded, raw) if stored is not None]
        if not found:
            # while the first record is being written, the other slot has never been
            if all(any(slot) for slot in raw):
                raise IdentityError(
                    f"both copies in the file '{FILE_NAME}' of the data directory are damaged: "
                    "restore it from this node's backup"
                )
            return
        newest = max(found, key=lambda stored: stored.generation)
        if newest.incarnation != self._incarnation:
            raise IdentityError(
                f"the file '{FILE_NAME}' belongs to another data directory than the identity "
                "beside it: restore both from one backup of this node"
            )
        self._generation = newest.generation
        self._is_uneven = not newest.restored and any(stored.restored for stored in found)
        self._is_uneven |= newest.joined and not (len(found) == 2 and all(s.joined for s in found))
        self.record = FormationRecord(
            newest.round,
            Stage(newest.stage),
            tuple((NodeId(node), incarnation) for node, incarnation in newest.members),
            _places(newest),
            newest.ordinal,
            newest.restored,
            newest.begins_at,
            newest.joined,
            tuple((NodeId(node), address) for node, address in newest.seeds),
        )
        self._newest = self.record

    async def write(self, record: FormationRecord) -> None:
        """Return once it is durable. Never two at a time. Whoever is cancelled meanwhile leaves the
        disk at its work: `close` waits for it.

        The first record that names no restore is written into both slots, one behind the other:
        older releases look at both, and start on none of the format that names one. So is the first
        of a node that came later: with it its place among those that do not vote would be lost."""
        await self._write(record)
        await self.even_out()

    async def even_out(self) -> None:
        """Write the record once more where a crash left the one before it, which names a restore,
        in the other slot. Return once it is durable; not while a `write` is under way."""
        if self._is_uneven:
            await self._write(self._newest)

    async def _write(self, record: FormationRecord) -> None:
        generation = self._generation + 1
        body = msgspec.json.encode(_stored(record, generation, self._incarnation))
        header = _MAGIC + len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big")
        slot = (header + body).ljust(SLOT_BYTES, b"\0")
        assert len(slot) == SLOT_BYTES, "there is room for as many nodes as a report may name"
        loop = asyncio.get_running_loop()
        if self._file is None:
            made: asyncio.Future[None] = loop.create_future()
            self._disk.submit_create(FILE_NAME, 2 * SLOT_BYTES, partial(self._made, made))
            await self._done(made)
        assert self._file is not None, "it was made"
        durable: asyncio.Future[None] = loop.create_future()
        place = generation % 2 * SLOT_BYTES
        self._disk.submit([(self._file, place, slot)], partial(settle, durable, None))
        await self._done(durable)
        self._generation = generation
        was, self._newest = self._newest, record
        self._is_uneven = bool(was.restored) and not record.restored
        self._is_uneven |= record.joined and not was.joined

    def _made(self, made: asyncio.Future[None], file: DiskFile) -> None:
        self._file = file
        settle(made, None)

    async def _done(self, under_way: asyncio.Future[None]) -> None:
        self._under_way = under_way
        await asyncio.shield(under_way)

    async def close(self) -> None:
        """Close the file once nothing is being written to it. A descriptor that is closed under a
        write may be another file's by then; the best that comes of it is a process that ends
        because of its disk, with nothing wrong with the disk."""
        if self._under_way is not None:
            await self._under_way
        if self._file is not None:
            self._file.close()


def _stored(record: FormationRecord, generation: int, incarnation: str) -> _Stored:
    members = [(int(node), incarnation) for node, incarnation in record.members]
    stage = int(record.stage)
    if not (
        record.places or record.ordinal or record.restored or record.begins_at or record.joined
    ):
        return _Stored(1, generation, incarnation, record.round, stage, members)
    places = [(int(place.node_id), place.ordinal, place.incarnation) for place in record.places]
    fields = (generation, incarnation, record.round, stage, members, places, record.ordinal)
    if record.joined:
        begun = (record.restored, record.begins_at)
        seeds = [(int(node), address) for node, address in record.seeds]
        return _StoredJoined(FORMAT_VERSION, *fields, *begun, record.joined, seeds)
    if record.begins_at:
        return _StoredBegun(versions.BEGUN_FORMATION, *fields, record.restored, record.begins_at)
    if not record.restored:
        return _StoredPlaces(versions.newest_read(versions.FORMATION), *fields)
    return _StoredRestored(versions.RESTORED_FORMATION, *fields, record.restored)


def _places(stored: _StoredPlaces) -> Places:
    return tuple(
        Place(NodeId(node), ordinal, incarnation) for node, ordinal, incarnation in stored.places
    )


def _decoded(raw: bytes) -> _StoredJoined | None:
    """None for a slot that is empty, torn or damaged. Raises IdentityError for a later format."""
    length = int.from_bytes(raw[len(_MAGIC) : len(_MAGIC) + 4], "big")
    body = raw[_HEADER_BYTES : _HEADER_BYTES + length]
    stored_crc = int.from_bytes(raw[len(_MAGIC) + 4 : _HEADER_BYTES], "big")
    if raw[: len(_MAGIC)] != _MAGIC or len(body) != length or crc32c(body) != stored_crc:
        return None
    version = msgspec.json.decode(body, type=_Version).format
    if not 1 <= version <= FORMAT_VERSION:
        raise IdentityError(
            f"the file '{FILE_NAME}' of the data directory has format {version}, this version "
            f"reads up to {FORMAT_VERSION}: start it with the version of svc-cluster that wrote it"
        )
    stored = msgspec.json.decode(body, type=_StoredJoined)
    members = tuple((NodeId(node), incarnation) for node, incarnation in stored.members)
    if stored.round > ROUND_MAX or stored.stage not in list(Stage) or not are_members(members):
        return None
    if not are_places(_places(stored)) or not 0 <= stored.ordinal <= ORDINAL_MAX:
        return None
    if len(stored.restored) > RESTORED_LENGTH_MAX or stored.begins_at < 0:
        return None
    return stored
