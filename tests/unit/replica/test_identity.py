"""A data directory belongs to one node of one cluster, and says so when it is taken elsewhere."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.ids import NodeId
from svc_cluster.model.versions import FIRST, NEWEST, SPOKEN, Spoken
from svc_cluster.replica.identity import (
    FILE_NAME,
    SLOT_BYTES,
    IdentityError,
    NodeIdentity,
    keep_active_version,
    open_identity,
)
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.payload.payload_settings import PayloadSettings


def opened(
    directory: Path,
    cluster: str = "cluster-a",
    node: int = 1,
    seed: int = 1,
    spoken: Spoken = SPOKEN,
) -> NodeIdentity:
    """Open the identity on a real disk, as a starting node does."""

    async def body() -> NodeIdentity:
        disk = RealDisk(directory, asyncio.get_running_loop())
        try:
            return open_identity(disk, cluster, NodeId(node), random.Random(seed), spoken)
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


def kept(directory: Path, active: int, *, has_payload: bool = False) -> None:
    """Write an active version into the identity, as a node does whose catalog has raised it."""

    async def body() -> None:
        disk = RealDisk(directory, asyncio.get_running_loop())
        done = asyncio.Event()
        try:
            keep_active_version(disk, active, done.set, has_payload=has_payload)
            await done.wait()
        finally:
            disk.close()

    asyncio.run(body())


def test_the_active_version_is_kept_beside_the_identity(tmp_path: Path) -> None:
    """It is the same directory afterwards, of a format that programs from before refuse: theirs is
    2. Both copies say it, so that one may be lost."""
    before = opened(tmp_path)
    assert before.active_version == FIRST
    assert stored_formats(tmp_path) == [2, 2]
    kept(tmp_path, NEWEST)
    assert opened(tmp_path) == replace(before, active_version=NEWEST)
    assert stored_formats(tmp_path) == [3, 3]
    for slot in range(2):
        damaged = tmp_path / f"damaged-{slot}"
        damaged.mkdir()
        raw = bytearray((tmp_path / FILE_NAME).read_bytes())
        raw[slot * SLOT_BYTES + 30] ^= 0xFF
        (damaged / FILE_NAME).write_bytes(raw)
        assert opened(damaged).active_version == NEWEST


def test_a_directory_of_a_newer_cluster_is_refused_with_both_versions(tmp_path: Path) -> None:
    """One sentence says which release to start."""
    opened(tmp_path)
    kept(tmp_path, NEWEST + 1)
    with pytest.raises(IdentityError, match=f"cluster at version {NEWEST + 1}, this program") as no:
        opened(tmp_path)
    assert "start svc-cluster 0.4" in str(no.value)


def test_a_program_that_speaks_less_refuses_the_format(tmp_path: Path) -> None:
    """That is what releases from before the active version say."""
    opened(tmp_path)
    kept(tmp_path, NEWEST)
    with pytest.raises(IdentityError, match="has format 3, this version reads up to 2"):
        opened(tmp_path, spoken=Spoken(FIRST, FIRST))


def stored_formats(directory: Path) -> list[int]:
    raw = (directory / FILE_NAME).read_bytes()
    slots = (raw[:SLOT_BYTES], raw[SLOT_BYTES:])
    return [
        json.loads(slot[16 : 16 + int.from_bytes(slot[8:12], "big")])["format"] for slot in slots
    ]


WRITES = PayloadSettings(writes=True)


def noted(directory: Path) -> NodeIdentity:
    """A start with payload files."""

    async def body() -> NodeIdentity:
        disk = RealDisk(directory, asyncio.get_running_loop())
        rng = random.Random(1)
        identity = open_identity(disk, "cluster-a", NodeId(1), rng, payload=WRITES)
        disk.close()
        return identity

    return asyncio.run(body())


def test_a_directory_with_payload_files_is_of_a_format_of_its_own(tmp_path: Path) -> None:
    """Both slots say so, once and for ever; who it is stays; programs from before refuse it."""
    opened(tmp_path)
    kept(tmp_path, NEWEST)
    first = opened(tmp_path)
    assert not first.allowed(WRITES).writes
    assert noted(tmp_path).allowed(WRITES).writes
    assert stored_formats(tmp_path) == [4, 4]
    assert opened(tmp_path) == first
    assert not opened(tmp_path).allowed(PayloadSettings()).writes
    before = (tmp_path / FILE_NAME).read_bytes()
    noted(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    with pytest.raises(IdentityError, match="has format 4, this version reads up to 2"):
        opened(tmp_path, spoken=Spoken(FIRST, FIRST))


def test_before_its_active_version_a_directory_gets_no_payload_files(tmp_path: Path) -> None:
    """The release of before can be gone back to until the upgrade is finalized, whatever the
    settings say; with that version the format comes, before `done`, if they are wanted."""
    opened(tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    assert not noted(tmp_path).allowed(WRITES).writes
    assert (tmp_path / FILE_NAME).read_bytes() == before
    opened(tmp_path, spoken=Spoken(FIRST, FIRST))
    kept(tmp_path, FIRST, has_payload=True)
    assert stored_formats(tmp_path) == [2, 2]
    kept(tmp_path, NEWEST, has_payload=True)
    assert stored_formats(tmp_path) == [4, 4]
    assert opened(tmp_path).allowed(WRITES).writes
    kept(tmp_path, NEWEST)
    assert stored_formats(tmp_path) == [4, 4]


def test_a_note_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    """One slot of each format: the newer one counts, and the next start writes both."""
    opened(tmp_path)
    kept(tmp_path, NEWEST)
    first = opened(tmp_path)
    old = (tmp_path / FILE_NAME).read_bytes()
    noted(tmp_path)
    new = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes(new[:SLOT_BYTES] + old[SLOT_BYTES:])
    assert opened(tmp_path) == first
    noted(tmp_path)
    assert stored_formats(tmp_path) == [4, 4]
