"""Who a data directory belongs to: two alternating slots, so that a torn write leaves one whole.

A directory gets a random incarnation when it is made. A node that comes back with an empty
directory therefore has another incarnation, with which the cluster was not formed.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Final

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.ids import NodeId
from svc_cluster.storage.disk import Disk

FORMAT_VERSION: Final = 2
"""1 is read as well: such a directory began to take part without a formation, and stays readable
for the versions that made it. Those versions would vote without one, so they are kept from 2."""
FILE_NAME: Final = "identity"
SLOT_BYTES: Final = 4096
_MAGIC: Final = b"svcident"
_HEADER_BYTES: Final = len(_MAGIC) + 8


class IdentityError(Exception):
    """The data directory is not this node's; the text says what to do about it."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    cluster_id: str
    node_id: NodeId
    incarnation: str

    @property
    def tag(self) -> int:
        """A number that is mixed into every frame checksum of this node's WAL."""
        return int.from_bytes(bytes.fromhex(self.incarnation)[:8], "big")


def open_identity(disk: Disk, cluster_id: str, node_id: NodeId, rng: random.Random) -> NodeIdentity:
    """Read the directory's identity, or give an empty directory one. Blocking, at start only.

    Raises IdentityError for a directory of another node or cluster, of a newer format, or whose
    identity is unreadable.
    """
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
    if stored["format"] > FORMAT_VERSION:
        raise IdentityError(
            f"the data directory has format {stored['format']}, this version reads up to "
            f"{FORMAT_VERSION}: start it with the version of svc-cluster that wrote it"
        )
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
    return NodeIdentity(cluster_id, node_id, stored["incarnation"])


def _create(disk: Disk, cluster_id: str, node_id: NodeId, rng: random.Random) -> NodeIdentity:
    disk.create(FILE_NAME, 2 * SLOT_BYTES).close()
    return _write(disk, cluster_id, node_id, rng)


def _write(disk: Disk, cluster_id: str, node_id: NodeId, rng: random.Random) -> NodeIdentity:
    incarnation = f"{rng.getrandbits(128):032x}"
    body = json.dumps(
        {
            "format": FORMAT_VERSION,
            "generation": 1,
            "cluster_id": cluster_id,
            "node_id": node_id,
            "incarnation": incarnation,
        }
    ).encode()
    header = _MAGIC + len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big")
    slot = (header + body).ljust(SLOT_BYTES, b"\0")
    file = disk.open(FILE_NAME)
    # one slot after the other: at no moment are both of them in flight
    disk.write_sync([(file, 0, slot)])
    disk.write_sync([(file, SLOT_BYTES, slot)])
    file.close()
    return NodeIdentity(cluster_id, node_id, incarnation)


def _newest_slot(disk: Disk) -> dict[str, Any] | None:
    file = disk.open(FILE_NAME)
    found: dict[str, Any] | None = None
    for slot in range(2):
        raw = file.pread(SLOT_BYTES, slot * SLOT_BYTES)
        length = int.from_bytes(raw[len(_MAGIC) : len(_MAGIC) + 4], "big")
        body = raw[_HEADER_BYTES : _HEADER_BYTES + length]
        stored_crc = int.from_bytes(raw[len(_MAGIC) + 4 : _HEADER_BYTES], "big")
        if raw[: len(_MAGIC)] != _MAGIC or len(body) != length or crc32c(body) != stored_crc:
            continue
        value: dict[str, Any] = json.loads(body)
        if found is None or value["generation"] > found["generation"]:
            found = value
    file.close()
    return found
