"""A data directory belongs to one node of one cluster, and says so when it is taken elsewhere."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.ids import NodeId
from svc_cluster.replica.identity import (
    FILE_NAME,
    SLOT_BYTES,
    IdentityError,
    NodeIdentity,
    open_identity,
)
from svc_cluster.storage.disk import RealDisk


def opened(
    directory: Path, cluster: str = "cluster-a", node: int = 1, seed: int = 1
) -> NodeIdentity:
    """Open the identity on a real disk, as a starting node does."""

    async def body() -> NodeIdentity:
        disk = RealDisk(directory, asyncio.get_running_loop())
        try:
            return open_identity(disk, cluster, NodeId(node), random.Random(seed))
        finally:
            disk.close()

    return asyncio.run(body())


def test_an_identity_is_made_once_and_found_again(tmp_path: Path) -> None:
    """The incarnation is random and stays."""
    first = opened(tmp_path, seed=1)
    assert opened(tmp_path, seed=2) == first
    assert len(first.incarnation) == 32


def test_two_empty_directories_are_two_incarnations(tmp_path: Path) -> None:
    """A node that lost its disk is told from the node it was."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert opened(tmp_path / "a", seed=1) != opened(tmp_path / "b", seed=2)


@pytest.mark.parametrize("slot", [0, 1])
def test_one_damaged_copy_does_no_harm(tmp_path: Path, slot: int) -> None:
    """The other copy is whole."""
    first = opened(tmp_path)
    with (tmp_path / FILE_NAME).open("r+b") as file:
        file.seek(slot * SLOT_BYTES + 30)
        file.write(b"damage")
    assert opened(tmp_path) == first


def test_two_damaged_copies_beside_a_log_are_refused_with_a_remedy(tmp_path: Path) -> None:
    """A directory with a log never gets a new identity by itself."""
    opened(tmp_path)
    (tmp_path / "wal-0000000000000001").touch()
    with (tmp_path / FILE_NAME).open("r+b") as file:
        file.write(bytes(2 * SLOT_BYTES))
    with pytest.raises(IdentityError, match="restore"):
        opened(tmp_path)


def test_a_crash_while_the_identity_was_made_is_repaired(tmp_path: Path) -> None:
    """An identity file of zeros without a log promises nothing to anybody."""
    (tmp_path / FILE_NAME).write_bytes(bytes(2 * SLOT_BYTES))
    assert opened(tmp_path).node_id == 1


@pytest.mark.parametrize(
    ("cluster", "node", "says"),
    [("cluster-b", 1, "belongs to cluster cluster-a"), ("cluster-a", 2, "belongs to node 1")],
)
def test_a_foreign_directory_is_refused_with_a_remedy(
    tmp_path: Path, cluster: str, node: int, says: str
) -> None:
    """The sentence says whose it is and what to do."""
    opened(tmp_path)
    with pytest.raises(IdentityError, match=says) as refusal:
        opened(tmp_path, cluster, node)
    assert "point data_dir" in str(refusal.value)


def test_a_log_without_an_identity_is_refused(tmp_path: Path) -> None:
    """Otherwise a lost file would turn an old log into a new node."""
    (tmp_path / "wal-0000000000000001").touch()
    with pytest.raises(IdentityError, match="no identity"):
        opened(tmp_path)


def test_the_format_of_before_the_formation_is_read_and_kept(tmp_path: Path) -> None:
    """A directory that an earlier version made stays as it is, so that the node can go back."""
    sample = (Path(__file__).parent / "samples" / "identity-format-1.bin").read_bytes()
    (tmp_path / FILE_NAME).write_bytes(sample)
    (tmp_path / "wal-0000000000000001").touch()
    incarnation = json.loads(sample[16 : sample.index(b"}") + 1])["incarnation"]
    assert b'"format": 1' in sample
    assert opened(tmp_path) == NodeIdentity("cluster-a", NodeId(1), incarnation)
    assert (tmp_path / FILE_NAME).read_bytes() == sample


def test_a_new_directory_is_kept_from_versions_without_a_formation(tmp_path: Path) -> None:
    """They read format 1 alone; a format that nobody knows yet is refused here too."""
    opened(tmp_path)
    raw = (tmp_path / FILE_NAME).read_bytes()
    assert raw.count(b'"format": 2') == 2
    body = raw[16 : raw.index(b"}") + 1].replace(b'"format": 2', b'"format": 9')
    head = raw[:8] + len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big")
    (tmp_path / FILE_NAME).write_bytes(2 * (head + body).ljust(SLOT_BYTES, b"\0"))
    with pytest.raises(IdentityError, match="format 9"):
        opened(tmp_path)
