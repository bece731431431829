"""A directory that was named by mistake is refused, and nothing in it is changed: the rights that
are taken in a data directory would be gone for good in somebody else's."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.seed import begin
from svc_cluster.cli.processes.foreign_things import foreign_thing
from svc_cluster.settings_errors import EXIT_CONFIGURATION, EXIT_DIRECTORY, EXIT_MISSING_FILE


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's directory, with a program that everybody may run."""
    directory = tmp_path / "project"
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "tool").write_text("#!/bin/sh\n")
    (directory / "bin" / "tool").chmod(0o755)
    (directory / "README").write_text("ours\n")
    for path, mode in (
        (directory, 0o755),
        (directory / "bin", 0o755),
        (directory / "README", 0o644),
    ):
        path.chmod(mode)
    return directory


def as_it_is(directory: Path) -> list[tuple[str, int]]:
    """Name and mode of everything, with the directory itself."""
    paths = [directory, *sorted(directory.rglob("*"))]
    return [(str(path), path.stat().st_mode) for path in paths]


def ask(*arguments: str, cwd: Path | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
    )
    return done.returncode, done.stdout + done.stderr


def node_config(tmp_path: Path, data_dir: str, **more: Any) -> Path:
    secret = tmp_path / "cluster.secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    path = tmp_path / "node.yaml"
    settings = {
        "cluster_id": "c",
        "node_id": 1,
        "data_dir": data_dir,
        "nodes": {"1": "127.0.0.1:0"},
        "replication_factor": 1,
        "secret_file": str(secret),
        **more,
    }
    path.write_text(yaml.safe_dump(settings))
    return path


def test_a_local_cluster_takes_nothing_from_others(project: Path) -> None:
    before = as_it_is(project)
    for place, cwd in ((str(project), None), (".", project)):
        status, said = ask("local", "--port", "0", "--data-dir", place, cwd=cwd)
        assert (status, "which others may use" in said) == (EXIT_DIRECTORY, True), said
        assert as_it_is(project) == before


@pytest.mark.parametrize("verb", [("config", "check"), ("node",)], ids=["check", "start"])
def test_a_node_takes_nothing_from_others(project: Path, tmp_path: Path, verb: list[str]) -> None:
    """And a check of the settings says so before the start."""
    before = as_it_is(project)
    config = node_config(tmp_path, str(project))
    role = ["node"] if verb[0] == "config" else []
    status, said = ask(*verb, *role, "--config", str(config))
    assert (status, "which others may use" in said) == (EXIT_DIRECTORY, True), said
    assert as_it_is(project) == before


@pytest.mark.parametrize("verb", [("config", "check"), ("node",)], ids=["check", "start"])
def test_a_data_directory_has_a_name(project: Path, tmp_path: Path, verb: list[str]) -> None:
    """An empty one would be the directory that the process happens to be started in."""
    before = as_it_is(project)
    config = node_config(tmp_path, "")
    role = ["node"] if verb[0] == "config" else []
    status, said = ask(*verb, *role, "--config", str(config), cwd=project)
    assert (status, "data_dir is empty" in said) == (EXIT_CONFIGURATION, True), said
    assert as_it_is(project) == before


def test_a_restore_that_is_refused_takes_nothing_from_others(project: Path) -> None:
    before = as_it_is(project)
    with pytest.raises(BackupError, match="is not empty"):
        begin(project, "backup 1")
    assert as_it_is(project) == before


def test_what_is_ours_or_nobodys_is_no_foreign_thing(tmp_path: Path) -> None:
    """Missing, empty, with our mark, with what is private by now, and with a link."""
    assert foreign_thing(tmp_path / "missing", "wal") is None
    assert foreign_thing(tmp_path, "wal") is None
    (tmp_path / "private").write_text("x")
    (tmp_path / "private").chmod(0o600)
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert foreign_thing(tmp_path, "wal") is None
    (tmp_path / "open").write_text("x")
    (tmp_path / "open").chmod(0o640)
    assert foreign_thing(tmp_path, "wal") == "open"
    (tmp_path / "wal").mkdir()
    assert foreign_thing(tmp_path, "wal") is None


@pytest.mark.parametrize("what", ["join token", "audit log"])
def test_a_check_refuses_what_a_start_refuses(tmp_path: Path, what: str) -> None:
    """A join token that is not there, an audit log in no directory: with the status of a start."""
    kinds: dict[str, dict[str, Any]] = {
        "join token": {
            "join_token_file": str(tmp_path / "none"),
            "nodes": {"1": "127.0.0.1:7001", "2": "127.0.0.1:7002"},
        },
        "audit log": {"audit_log": str(tmp_path / "none" / "audit.log")},
    }
    config = node_config(tmp_path, str(tmp_path / "data"), **kinds[what])
    checked = ask("config", "check", "node", "--config", str(config))
    started = ask("node", "--config", str(config))
    assert (
        checked[0]
        == started[0]
        == (EXIT_MISSING_FILE if what == "join token" else EXIT_CONFIGURATION)
    ), (checked, started)
    assert str(tmp_path / "none") in checked[1]
