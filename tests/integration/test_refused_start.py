"""`svc-cluster local` that cannot start says why in one sentence and ends, soon and for good."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from svc_cluster.cli.main import app
from svc_cluster.settings_errors import (
    EXIT_ADDRESS,
    EXIT_CONFIGURATION,
    EXIT_CREDENTIAL,
    EXIT_DIRECTORY,
    EXIT_MISSING_FILE,
)

EXIT_USAGE = 2


def local(directory: Path, *options: str) -> tuple[int, list[str]]:
    """Exit status and lines of `svc-cluster local`, which must end within 20 s by itself."""
    ended = subprocess.run(
        [sys.executable, "-m", "svc_cluster", "local", "--data-dir", str(directory), *options],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return ended.returncode, ended.stderr.splitlines()


@pytest.mark.parametrize("nodes", ["1", "3"])
def test_a_busy_port_ends_the_start(tmp_path: Path, nodes: str) -> None:
    """Also with several processes: the gateway's refusal ends the whole start instead of being
    tried again and again."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        status, lines = local(tmp_path / "data", "--nodes", nodes, "--port", port)
    assert status == EXIT_ADDRESS, lines
    assert len(lines) == 1
    assert f"port {port}" in lines[0]
    assert "choose another port" in lines[0]


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    """The same in this process, for what is refused before any process is started."""
    with pytest.raises(SystemExit) as end:
        app(["local", *options], standalone_mode=False)
    assert isinstance(end.value.code, int)
    return end.value.code, capsys.readouterr().err.splitlines()


def test_a_directory_that_cannot_be_used_ends_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in its place, damaged facts, a lost secret, another size: each has its sentence."""
    (tmp_path / "file").write_text("no directory")
    refusals = [refused(capsys, "--data-dir", str(tmp_path / "file" / "below"))]
    for number, facts in enumerate(
        ("{", '{"nodes": 3}', '{"cluster_id": "c", "nodes": 3}', '{"cluster_id": "c", "nodes": 5}')
    ):
        place = tmp_path / str(number)  # a directory stays taken until the process ends
        place.mkdir()
        (place / "local.json").write_text(facts)
        refusals.append(refused(capsys, "--data-dir", str(place)))
    words = ("cannot be used", "damaged", "damaged", "cluster.secret", "--nodes 5")
    for (status, lines), word in zip(refusals, words, strict=True):
        assert status == (EXIT_DIRECTORY if word == words[0] else EXIT_CONFIGURATION), lines
        assert len(lines) == 1
        assert word in lines[0]


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", "inf"])
def test_a_run_time_that_is_no_number_of_seconds_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: str,
) -> None:
    """Before anything is started or made."""
    monkeypatch.setenv("RUN_SECONDS", seconds)
    status, lines = refused(capsys, "--data-dir", str(tmp_path / "data"))
    assert status == EXIT_USAGE, lines
    assert len(lines) == 1
    assert "RUN_SECONDS" in lines[0]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("seconds", ["soon", "0", "nan", "inf"])
def test_a_patience_that_is_no_number_of_seconds_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: str,
) -> None:
    """Before anything is started or made."""
    monkeypatch.setenv("READY_SECONDS", seconds)
    status, lines = refused(capsys, "--nodes", "3", "--data-dir", str(tmp_path / "data"))
    assert status == EXIT_CONFIGURATION, lines
    assert len(lines) == 1
    assert "READY_SECONDS" in lines[0]
    assert not (tmp_path / "data").exists()


def test_what_contradicts_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host that is none, and a demonstration where tokens are asked for: on purpose, and because
    the gateway is to listen for others."""
    place = ("--data-dir", str(tmp_path / "data"))
    for options, word in (
        (("--host", "no host"), "--host"),
        (("--auth", "--demo"), "--auth"),
        (("--host", "0.0.0.0", "--demo"), "--auth"),
    ):
        status, lines = refused(capsys, *place, *options)
        assert status == EXIT_USAGE, lines
        assert len(lines) == 1
        assert word in lines[0]


def test_a_root_token_file_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    """What is no token, and a place where none can be written."""
    (tmp_path / "token").write_text("hello")
    for number, (file, wanted) in enumerate(
        ((tmp_path / "token", EXIT_CREDENTIAL), (tmp_path / "none" / "token", EXIT_MISSING_FILE))
    ):
        options = ("--nodes", "1", "--port", "0", "--auth", "--root-token-file", str(file))
        status, lines = local(tmp_path / f"data-{number}", *options)
        assert status == wanted, lines
        assert len(lines) == 1
        assert str(file) in lines[0]
