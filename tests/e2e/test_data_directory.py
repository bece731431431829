"""Data directories that a node must not use: it says why in one sentence, ends with its own exit
status, and leaves the directory as it was."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from svc_cluster.base.checksum import crc32c
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.settings_errors import EXIT_CONFIGURATION, EXIT_DIRECTORY
from tests.e2e.cluster import SameCommand, running

SLOT = 4096


def edit_identity(data_dir: Path, **changes: object) -> None:
    """Rewrite both slots of a node's identity: magic, length, checksum, JSON."""
    path = data_dir / "wal" / "identity"
    raw = path.read_bytes()
    length = int.from_bytes(raw[8:12], "big")
    body = json.dumps(json.loads(raw[16 : 16 + length]) | changes).encode()
    slot = raw[:8] + len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big") + body
    path.write_bytes(slot.ljust(SLOT, b"\0") * 2)


def expect(node: SameCommand, *words: str, wanted: int = EXIT_CONFIGURATION) -> None:
    status, sentence = node.refusal()
    assert status == wanted, sentence
    assert all(word in sentence for word in words), sentence


def test_directories_of_others_are_refused_with_a_sentence(tmp_path: Path) -> None:
    """In use, another cluster's, another node's, a newer format: each is refused, and none of it
    harms the directory, which its owner can go on with."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            node = SameCommand(int(cluster.node(1)["pid"]))
            data_dir = Path(cluster.node(1)["data_dir"])
            expect(node, "in use", wanted=EXIT_DIRECTORY)
            cluster.stop()
            identity = (data_dir / "wal" / "identity").read_bytes()
            edit_identity(data_dir, cluster_id="another-cluster")
            expect(node, "another-cluster")
            edit_identity(data_dir, format=9, cluster_id="x")
            expect(node, "format 9")
            (data_dir / "wal" / "identity").write_bytes(identity)
            edit_identity(data_dir, node_id=2)
            expect(node, "node 2")
            (data_dir / "wal" / "identity").write_bytes(identity)
            cluster.start()
            await cluster.wait_ready()

    asyncio.run(main())


def test_two_clusters_cannot_share_a_directory(tmp_path: Path) -> None:
    """A second `svc-cluster local` on a directory in use ends with a sentence, and the first one
    goes on."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            before = cluster.file()
            command = SameCommand(before["supervisor_pid"])
            held = HeldPorts(1)
            command.command[command.command.index("--port") + 1] = str(held.numbers[0])
            status, sentence = command.refusal()
            assert status != 0
            assert "in use" in sentence, sentence
            assert cluster.file() == before
            await cluster.wait_ready()

    asyncio.run(main())
