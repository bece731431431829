"""`wal inspect`, `debug bundle` and `top` against a cluster that runs, and one that was hurt."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.cli.admin.debug_bundle import LOG_BYTES_MAX
from svc_cluster.cli.admin.wal_inspect import damage_of, inspect_wal
from svc_cluster.cli.backup.backup_app import EXIT_NOT_CLEARED
from svc_cluster.lab.own_cluster import OwnCluster
from tests.integration.processes import in_loop

SECONDS_MAX = 60.0


def ask(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster", *arguments],
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        input=given,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@in_loop
async def test_a_running_cluster_is_looked_into_and_left_as_it_is(tmp_path: Path) -> None:
    """One node with records: its log is listed without damage, its bundle holds every part and
    nothing secret, its rates and its standing are shown, its backups told; a damaged copy of its
    log is told by place. As JSON all of it is one line."""
    own = OwnCluster(tmp_path / "cluster", nodes=1)
    own.start()
    try:
        await own.wait_ready(90.0)
        url = ("--url", own.url)
        assert ask("basin", "create", "first-basin", *url)[0] == 0
        assert ask("stream", "create", "first-basin/s", *url)[0] == 0
        lines = b"".join(b"%d\n" % n for n in range(3000))
        assert ask("stream", "append", "first-basin/s", *url, given=lines)[0] == 0
        _bundle(own, tmp_path)
        status, out, err = ask("top", *url, "--interval", "0.1", "--data-dir", str(own.directory))
        assert (status, err) == (0, "")
        assert re.search(r"^1 +ready +\d of \d", out, re.MULTILINE), out
        assert out.startswith(f"{own.url}\nappends   0 records/s")
        assert "\x1b" not in out
        told = line("top", *url, "--interval", "0.1", "--data-dir", str(own.directory))
        assert (told["url"], told["appended_records"], told["failed"]) == (own.url, 0, 0)
        assert [(each["node"], each["standing"]) for each in told["nodes"]] == [(1, "ready")]
        _backups(own, tmp_path)
    finally:
        own.end()
    _inspect(own.directory / "node-1", tmp_path)


def line(*arguments: str, status: int = 0) -> dict[str, Any]:
    """The one line of JSON that a command prints."""
    found, out, err = ask(*arguments, "-o", "json")
    assert found == status, err
    assert out.count("\n") == 1
    told = json.loads(out)
    assert isinstance(told, dict)
    return told


def _backups(own: OwnCluster, tmp_path: Path) -> None:
    """What is made, what there is, whether it is whole, and what is deleted of it."""
    place = ("--at", str(tmp_path / "backups"), "--key-file", str(tmp_path / "backup.key"))
    made = line("backup", "create", *place, "--data-dir", str(own.directory))
    assert (made["number"], made["records"], made["place"]) == (1, 3000, place[1])
    assert [(each["basin"], each["records"]) for each in made["basins"]] == [("first-basin", 3000)]
    listed = line("backup", "list", *place)
    assert listed == {key: made[key] for key in listed}
    whole = line("backup", "verify", *place)
    assert (whole["number"], whole["findings"]) == (1, [])
    assert whole["objects"] > 0
    assert line("backup", "prune", *place, "--keep", "1") == {
        "deleted": [],
        "objects": 0,
        "freed_bytes": 0,
        "is_whole": True,
        "damaged": [],
        "unclear": [],
    }
    settings = tmp_path / "restored.yaml"
    settings.write_text(
        f"cluster_id: other\nnode_id: 1\ndata_dir: {tmp_path}/restored\n"
        f"secret_file: {own.directory}/cluster.secret\nnodes: {{'1': '127.0.0.1:7001'}}\n"
        "replication_factor: 1\n"
    )
    assert line("backup", "restore", *place, "--config", str(settings)) == {
        "number": 1,
        "node_id": 1,
        "data_dir": f"{tmp_path}/restored",
    }
    _backup_beside_a_damaged_one(own, tmp_path, place)


def _backup_beside_a_damaged_one(own: OwnCluster, tmp_path: Path, place: tuple[str, ...]) -> None:
    """The new one is there, nothing could be deleted behind it, and a program is told by the status
    that to repeat it mends nothing."""
    manifest = tmp_path / "backups" / "manifests" / "0000000001"
    data = manifest.read_bytes()
    manifest.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    asked = ("backup", "create", *place, "--data-dir", str(own.directory), "--keep", "3")
    found, out, err = ask(*asked, "-o", "json")
    assert found == EXIT_NOT_CLEARED == 3, err
    made, cleared = [json.loads(each) for each in out.splitlines()]
    assert (made["number"], made["records"]) == (2, 3000)
    assert (cleared["deleted"], cleared["objects"], len(cleared["unclear"])) == ([], 0, 1)
    assert line("backup", "verify", *place)["number"] == 2
    line("backup", "prune", *place, "--number", "1")
    found, out, err = ask(*asked, "-o", "json")
    assert found == 0, err
    assert [json.loads(each).get("number") for each in out.splitlines()] == [3, None]


def _bundle(own: OwnCluster, tmp_path: Path) -> None:
    out = tmp_path / "bundle.tar.gz"
    asked = ("debug", "bundle", "--out", str(out), "--data-dir", str(own.directory))
    status, text, err = ask(*asked)
    assert (status, err) == (0, ""), text
    assert out.stat().st_mode & 0o777 == 0o600
    with tarfile.open(out) as tar:
        parts = {}
        for member in tar.getmembers():
            held = tar.extractfile(member)
            assert held is not None
            parts[member.name] = held.read()
    names = ("status", "members", "leaders", "configuration")
    assert {f"node-1/{name}.json" for name in names} | {"node-1/metrics.txt"} <= set(parts)
    manifest = json.loads(parts["manifest.json"])
    assert (manifest["format"], manifest["missing"]) == (1, {})
    assert manifest["parts"] == {k: len(v) for k, v in parts.items() if k != "manifest.json"}
    assert not any("audit" in name for name in parts)
    secret = (own.directory / "cluster.secret").read_bytes().strip()
    assert all(secret not in data and len(data) <= 8 * LOG_BYTES_MAX for data in parts.values())
    assert b"svc_build_info" in parts["node-1/metrics.txt"]
    assert line(*asked) == {"file": str(out), "parts": sorted(manifest["parts"]), "missing": {}}


def _digests(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _inspect(node: Path, tmp_path: Path) -> None:
    before = _digests(node)
    status, out, err = ask("wal", "inspect", str(node))
    assert (status, err) == (0, ""), out
    assert re.search(r"^wal-00000001.segment +active +1 .*entry:\d+", out, re.MULTILINE), out
    told = line("wal", "inspect", str(node))
    assert (told["damage"], told["segments"][0]["state"]) == ([], "active")
    assert told["segments"][0]["frames"]["entry"] > 0
    assert _digests(node) == before
    hurt = tmp_path / "hurt"
    shutil.copytree(node / "wal", hurt)
    first = min(hurt.glob("wal-*.segment"))
    with first.open("r+b") as file:  # inside of the first frames, which were durable long ago
        file.seek(8192 + 200)
        byte = file.read(1)
        file.seek(8192 + 200)
        file.write(bytes([byte[0] ^ 0xFF]))
    segments = inspect_wal(hurt)
    assert [each.name for each in segments if each.holes] == [first.name]
    assert len(damage_of(segments)) == 1
    assert line("wal", "inspect", str(hurt), status=1)["damage"] == damage_of(segments)
    status, out, _ = ask("wal", "inspect", str(hurt))
    assert status == 1
    assert re.search(rf"^damage: {first.name} at \d+: what was durable here", out, re.MULTILINE)


@pytest.mark.parametrize("there", [True, False])
def test_what_is_no_log_is_told(tmp_path: Path, there: bool) -> None:
    """A directory without segments, and none."""
    status, out, err = ask("wal", "inspect", str(tmp_path if there else tmp_path / "x"))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
