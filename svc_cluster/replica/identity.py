"""Who a data directory belongs to: two alternating slots, so that a torn write leaves one whole.

A directory gets a random incarnation when it is made. A node that comes back with an empty
directory therefore has another incarnation, with which the cluster was not formed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.ids import NodeId
from svc_cluster.model import versions
from svc_cluster.model.versions import SPOKEN, Spoken
from svc_cluster.storage.disk import Disk, DiskFile
from svc_cluster.storage.payload.payload_settings import PayloadSettings

FORMAT_VERSION: Final = versions.newest_written(versions.DATA_DIRECTORY, versions.FIRST)
"""The format of a new directory. 1 is read as well: such a directory began to take part without a
formation, and stays readable for the versions that made it. Those versions would vote without one,
so they are kept from 2; those from before 3 would not know what a cluster at version 3 may say."""
FILE_NAME: Final = "identity"
SLOT_BYTES: Final = 4096
_MAGIC: Final = b"svcident"
_HEADER_BYTES: Final = len(_MAGIC) + 8


_Fields = dict[str, Any]


class IdentityError(Exception):
    """The data directory is not this node's; the text says what to do about it."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    cluster_id: str
    node_id: NodeId
    incarnation: str
    active_version: int = versions.FIRST
    """The newest that this directory has known its cluster to have."""
    directory_format: int = field(default=FORMAT_VERSION, compare=False)
    """What the directory had when it was opened; that is not who it is."""

    def allowed(self, payload: PayloadSettings) -> PayloadSettings:
        """The settings, without payload files where programs that know none may still start on the
        directory."""
        is_noted = self.directory_format >= versions.PAYLOAD_DIRECTORY
        return replace(payload, writes=payload.writes and is_noted)

    @property
    def tag(self) -> int:
        """A number that is mixed into every frame checksum of this node's WAL."""
        return int.from_bytes(bytes.fromhex(self.incarnation)[:8], "big")


def open_identity(
    disk: Disk,
    cluster_id: str,
    node_id: NodeId,
    rng: random.Random,
    spoken: Spoken = SPOKEN,
    payload: PayloadSettings = PayloadSettings(),
) -> NodeIdentity:
    """Read the directory's identity, or give an empty directory one. Blocking, at start only. If
    payload files are to be written, and the active version allows it, the directory may hold some
    from now on, and is refused by versions that know none.

    Raises IdentityError for a directory of another node or cluster, of a newer format or of a
    cluster whose active version is not among those `spoken`, or whose identity is unreadable.
    """
    identity = _open(disk, cluster_id, node_id, rng, spoken)
    wanted = versions.directory_format(identity.active_version, has_payload=payload.writes)
    if wanted == versions.PAYLOAD_DIRECTORY:
        _note_payload_files(disk)
        return replace(identity, directory_format=max(identity.directory_format, wanted))
    return identity


def _open(
    disk: Disk, cluster_id: str, node_id: NodeId, rng: random.Random, spoken: Spoken
) -> NodeIdentity:
    names = disk.list_names()
    if FILE_NAME not in names:
        if any(name.startswith("wal-") or name.endswith(".wal") for name in names):
            raise IdentityError(
                "the data directory has a log but no identity: restore the file "
                f"'{FILE_NAME}' from this node's backup, and leave the log as it is"
            )
        return _create(disk, cluster_id, node_id, rng)
    stored = _newest_slot(disk)
    if stored is None:
        # a crash while the directory was being made: nothing can have been promised under it
        if not any("wal" in name for name in names):
            return _write(disk, cluster_id, node_id, rng)
        raise IdentityError(
            "both copies of the data directory's identity are damaged: restore the file "
            f"'{FILE_NAME}' from this node's backup, and leave the log as it is"
        )
    active = _readable(stored, spoken)
    if stored["cluster_id"] != cluster_id:
        raise IdentityError(
            f"the data directory belongs to cluster {stored['cluster_id']}, not {cluster_id}: "
            "point data_dir at this cluster's directory"
        )
    if stored["node_id"] != node_id:
        raise IdentityError(
            f"the data directory belongs to node {stored['node_id']}, not {node_id}: "
            "point data_dir at this node's directory"
        )
    return NodeIdentity(cluster_id, node_id, stored["incarnation"], active, stored["format"])


def _readable(stored: _Fields, spoken: Spoken) -> int:
    """The active version that the directory has known. Raises IdentityError."""
    readable = versions.newest_written(versions.DATA_DIRECTORY, spoken.newest)
    if spoken.newest >= versions.PAYLOAD_FILES:
        readable = versions.PAYLOAD_DIRECTORY
    if stored["format"] > readable:
        raise IdentityError(
            f"the data directory has format {stored['format']}, this version reads up to "
            f"{readable}: start it with the version of svc-cluster that wrote it"
        )
    active: int = stored.get("active_version", versions.FIRST)
    refusal = versions.directory_refusal(active, spoken)
    if refusal is not None:
        raise IdentityError(refusal)
    return active


def read_identity(disk: Disk, spoken: Spoken = SPOKEN) -> NodeIdentity:
    """Whose directory it is, as it says itself; nothing is written. Blocking. Raises IdentityError
    as `open_identity` does, and for a directory that says nothing."""
    stored = _newest_slot(disk) if FILE_NAME in disk.list_names() else None
    if stored is None:
        raise IdentityError("it does not say whose it is: it is no node's data directory")
    active = _readable(stored, spoken)
    return NodeIdentity(
        stored["cluster_id"],
        NodeId(stored["node_id"]),
        stored["incarnation"],
        active,
        stored["format"],
    )


def keep_active_version(
    disk: Disk, active: int, done: Callable[[], None], *, has_payload: bool = False
) -> None:
    """Write the cluster's active version into the identity that is there; `done` runs once that is
    durable. Never two at a time. Programs that do not speak it start on this directory no more.
    `has_payload`: payload files are to be written where that version allows it, behind `done`."""
    file = disk.open(FILE_NAME)
    stored = _newest_of(file)
    assert stored is not None, "it was read when the node started"
    written = versions.directory_format(active, has_payload=has_payload)
    stored["format"] = max(stored["format"], written)
    stored["generation"] += 1
    stored["active_version"] = active
    slot = _slot(stored)

    def second() -> None:
        disk.submit([(file, SLOT_BYTES, slot)], end)

    def end() -> None:
        file.close()
        done()

    disk.submit([(file, 0, slot)], second)


def _note_payload_files(disk: Disk) -> None:
    """Repeated by each start, as a crash may come between the two slots."""
    file = disk.open(FILE_NAME)
    slots = _slots_of(file)
    if any(slot is None or slot["format"] < versions.PAYLOAD_DIRECTORY for slot in slots):
        stored = _newest_of(file)
        assert stored is not None, "it was read when the node started"
        stored["format"] = versions.PAYLOAD_DIRECTORY
        stored["generation"] += 1
        slot = _slot(stored)
        disk.write_sync([(file, 0, slot)])
        disk.write_sync([(file, SLOT_BYTES, slot)])
    file.close()


def _create(disk: Disk, cluster_id: str, node_id: NodeId, rng: random.Random) -> NodeIdentity:
    disk.create(FILE_NAME, 2 * SLOT_BYTES).close()
    return _write(disk, cluster_id, node_id, rng)


def _write(disk: Disk, cluster_id: str, node_id: NodeId, rng: random.Random) -> NodeIdentity:
    incarnation = f"{rng.getrandbits(128):032x}"
    slot = _slot(
        {
            "format": FORMAT_VERSION,
            "generation": 1,
            "cluster_id": cluster_id,
            "node_id": node_id,
            "incarnation": incarnation,
        }
    )
    file = disk.open(FILE_NAME)
    # one slot after the other: at no moment are both of them in flight
    disk.write_sync([(file, 0, slot)])
    disk.write_sync([(file, SLOT_BYTES, slot)])
    file.close()
    return NodeIdentity(cluster_id, node_id, incarnation)


def _slot(stored: _Fields) -> bytes:
    body = json.dumps(stored).encode()
    header = _MAGIC + len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big")
    return (header + body).ljust(SLOT_BYTES, b"\0")


def _newest_slot(disk: Disk) -> _Fields | None:
    file = disk.open(FILE_NAME)
    found = _newest_of(file)
    file.close()
    return found


def _newest_of(file: DiskFile) -> _Fields | None:
    whole = [slot for slot in _slots_of(file) if slot is not None]
    return max(whole, key=lambda slot: int(slot["generation"]), default=None)


def _slots_of(file: DiskFile) -> list[_Fields | None]:
    """Both copies, None for one that is torn or damaged."""
    found: list[_Fields | None] = []
    for slot in range(2):
        raw = file.pread(SLOT_BYTES, slot * SLOT_BYTES)
        length = int.from_bytes(raw[len(_MAGIC) : len(_MAGIC) + 4], "big")
        body = raw[_HEADER_BYTES : _HEADER_BYTES + length]
        stored_crc = int.from_bytes(raw[len(_MAGIC) + 4 : _HEADER_BYTES], "big")
        is_whole = raw[: len(_MAGIC)] == _MAGIC and len(body) == length
        found.append(json.loads(body) if is_whole and crc32c(body) == stored_crc else None)
    return found
