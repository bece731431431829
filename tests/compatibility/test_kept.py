"""What earlier releases left behind: their directories are taken over, their bytes understood."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.link.greeting import Speaker, check_claim, check_welcome, make_claim
from svc_cluster.link.handshake import Identity
from svc_cluster.model.versions import FIRST, SPOKEN, Spoken
from tests.compatibility.fleet import Fleet, admin
from tests.compatibility.keep import BASIN, BYTES_MAX, KEPT, STREAMS, content
from tests.compatibility.programs import NOW, commits

RELEASES = sorted(commits())
SECRET = b"s" * 32


def wire(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((KEPT / release / "wire.json").read_text())
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_a_directory_of_an_earlier_release_is_taken_over(release: str, tmp_path: Path) -> None:
    """Its process was killed. A client reads what it read then, byte for byte; more is appended
    behind it; and it is all there after the upgrade is finalized and the node started again."""
    kept = json.loads((KEPT / release / "content.json").read_text())
    assert (KEPT / release / "node-1.tar.xz").stat().st_size < BYTES_MAX

    async def main() -> None:
        fleet = Fleet(tmp_path / "fleet", nodes=1)
        with tarfile.open(KEPT / release / "node-1.tar.xz") as archive:
            archive.extractall(fleet.directory, filter="data")
        try:
            fleet.start_node(1, NOW)
            fleet.start_gateway(NOW)
            await fleet.ready(1)
            assert await content(fleet.url) == kept
            status, told = admin(fleet, 1, NOW, "upgrade", "finalize", "--yes")
            assert status == 0, told
            await appended(fleet.url, kept[STREAMS[0]]["records"])
            fleet.stop("node-1")
            fleet.start_node(1, NOW)
            await fleet.ready(1)
            after = await content(fleet.url)
            assert after.pop(STREAMS[0])["records"] == kept[STREAMS[0]]["records"] + 1
            assert after == {name: kept[name] for name in after}
        except BaseException:
            print(fleet.log("node-1")[-3000:])
            raise
        finally:
            fleet.end()

    asyncio.run(main())


async def appended(url: str, tail: int) -> None:
    """One record behind what is there."""
    api = ApiClient(url)
    try:
        answer = await api.append(BASIN, STREAMS[0], [AppendRecord(b"new")], match_seq_num=tail)
        assert answer.status == 200, answer.body
    finally:
        api.close()


@pytest.mark.parametrize("release", RELEASES)
def test_a_caller_of_an_earlier_release_is_understood(release: str) -> None:
    """Its claim and its welcome prove what they did, and it speaks the first version alone."""
    said = {step: bytes.fromhex(text) for step, text in wire(release)["greetings"].items()}
    caller, nonce, version = check_claim(SECRET, "kept", b"a" * 32, said["claim"])
    assert (caller.identity.node_id, nonce, version) == (2, b"c" * 32, 1)
    assert caller.versions == Spoken(FIRST, FIRST)
    acceptor = check_welcome(SECRET, "kept", said["challenge"], b"c" * 32, 1, said["welcome"])
    assert acceptor.identity.node_id == 1
    assert acceptor.versions == Spoken(FIRST, FIRST)
    own = Speaker(Identity("kept", "node", acceptor.identity.node_id, "e" * 32))
    claim, version = make_claim(SECRET, said["challenge"], own, b"c" * 32)
    assert version == 1
    assert check_claim(SECRET, "kept", b"a" * 32, claim)[0].versions == SPOKEN


@pytest.mark.parametrize("release", RELEASES)
def test_entries_of_an_earlier_release_mean_what_they_did(release: str) -> None:
    """Read and written again under its version they are the same bytes."""
    for name, text in wire(release)["catalog_entries"].items():
        entry = bytes.fromhex(text)
        commands = decode_catalog_entry(entry)
        assert [type(command).__name__ for command in commands] == [name]
        assert encode_catalog_entry(commands, FIRST) == entry, name
