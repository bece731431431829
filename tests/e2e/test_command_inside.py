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

import pytest

from svc_cluster.cli.admin.debug_bundle import LOG_BYTES_MAX
from svc_cluster.cli.admin.wal_inspect import damage_of, inspect_wal
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
    nothing secret, its rates and its standing are shown; a damaged copy of its log is told by
    place."""
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
    finally:
        own.end()
    _inspect(own.directory / "node-1", tmp_path)


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


def _digests(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _inspect(node: Path, tmp_path: Path) -> None:
    before = _digests(node)
    status, out, err = ask("wal", "inspect", str(node))
    assert (status, err) == (0, ""), out
    assert re.search(r"^wal-00000001.segment +active +1 .*entry:\d+", out, re.MULTILINE), out
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
    status, out, _ = ask("wal", "inspect", str(hurt))
    assert status == 1
    assert re.search(rf"^damage: {first.name} at \d+: what was durable here", out, re.MULTILINE)


@pytest.mark.parametrize("there", [True, False])
def test_what_is_no_log_is_told(tmp_path: Path, there: bool) -> None:
    """A directory without segments, and none."""
    status, out, err = ask("wal", "inspect", str(tmp_path if there else tmp_path / "x"))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
