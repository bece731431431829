"""The units of deploy/systemd run the configuration of docs/operations/hosts.md, at port 443."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.bootstrap import bootstrap
from tests.integration.units import CAPABILITIES, ROOT, UID, UNITS, Unit, open_files, parse, start
from tests.log_lines import json_lines, whole_lines

BACKUP_PAGE = ROOT / "docs" / "operations" / "backup.md"
PAGE = ROOT / "docs" / "operations" / "hosts.md"
START_S = 60.0
NAME = "svc.example.com"
CONTROLS = ("unshare", "setpriv", "prlimit", "nsenter", "ip")
Start = Callable[[Unit], tuple[subprocess.Popen[bytes], Path]]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/etc/svc-cluster of the page's first host: what `admin bootstrap` makes, and two files."""
    directory = tmp_path_factory.mktemp("etc")
    made = tmp_path_factory.mktemp("made")
    bootstrap(made / "cluster", made / "ca", range(1, 4), [NAME])
    for source, target in (("node-1", "node"), ("gateway", "gateway"), ("public", "public")):
        shutil.copytree(made / "cluster" / source, directory / target)
    shutil.copy(made / "ca" / "ca.pem", directory / "ca.pem")
    settings = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, text in zip(("node", "gateway"), settings, strict=True):
        (directory / f"{name}.yaml").write_text(text)
    (backup_env,) = re.findall(
        r"```sh\n(SVC_CLUSTER_BACKUP.*?)```", BACKUP_PAGE.read_text(), re.DOTALL
    )
    (directory / "backup.env").write_text(backup_env)
    for path in (directory, *directory.rglob("*")):
        os.chown(path, UID, UID)
    return directory


@pytest.fixture
def run(files: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a unit's process, which ends with the test."""
    lacking = [name for name in CONTROLS if shutil.which(name) is None]
    if os.getuid() != 0 or lacking:
        why = f"{', '.join(lacking)} missing" if lacking else "only root may change user and rights"
        pytest.skip(f"{why}: no unit was started, their text alone is checked")
    processes: list[subprocess.Popen[bytes]] = []

    def begin(unit: Unit) -> tuple[subprocess.Popen[bytes], Path]:
        log = tmp_path / f"{len(processes)}.log"
        process = start(unit, files, log)
        processes.append(process)
        return process, log

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def said(process: subprocess.Popen[bytes], log: Path, event: str) -> dict[str, Any]:
    """The line of the log with that event, once it is there; every line is JSON."""
    clock = SystemClock()
    end = clock.monotonic() + START_S
    while clock.monotonic() < end:
        ended = process.poll() is not None
        if found := [line for line in json_lines(log) if line["event"] == event]:
            return dict(found[0])
        assert not ended, log.read_text()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    raise AssertionError(log.read_text())


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return {key: value.strip() for key, _, value in (x.partition(":") for x in text.splitlines())}


def capabilities(unit: Unit, key: str) -> int:
    return sum(CAPABILITIES[name] for name in unit.get(key, "").split())


@pytest.mark.parametrize("role", ["node", "gateway"])
def test_a_unit_starts_its_process_with_what_it_states(run: Start, role: str) -> None:
    """User, capabilities, limits and a file system that is read-only but for its directories; the
    process says where it listens and with which TLS, as the page's files ask for."""
    unit = parse(UNITS / f"svc-cluster-{role}.service")
    process, log = run(unit)
    line = said(process, log, "process_started")
    facts = status(process.pid)
    assert {*facts["Uid"].split(), *facts["Gid"].split()} == {str(UID)}
    assert int(facts["CapEff"], 16) == capabilities(unit, "AmbientCapabilities")
    assert int(facts["CapBnd"], 16) == capabilities(unit, "CapabilityBoundingSet")
    assert facts["NoNewPrivs"] == "1"
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert re.search(rf"Max open files +{open_files(unit)} +{open_files(unit)} ", limits)
    listeners = {each["name"]: each["address"] for each in line["listeners"]}
    wanted = {
        "node": {
            "peers": "10.0.0.1:7000",
            "health and metrics": "10.0.0.1:9090",
            "administration": "10.0.0.1:9095",
        },
        "gateway": {"clients": "0.0.0.0:443"},
    }
    assert (line["role"], listeners) == (role, wanted[role])
    assert line["settings"]["secret_file"] == "[masked]"


def test_the_documented_gateway_answers_at_port_443(run: Start, files: Path) -> None:
    """Over TLS, with a certificate for the name that the page gives it."""
    process, log = run(parse(UNITS / "svc-cluster-gateway.service"))
    said(process, log, "process_started")
    ask = (
        "import http.client, socket, ssl, sys\n"
        f"trust = ssl.create_default_context(cafile={str(files / 'ca.pem')!r})\n"
        "raw = socket.create_connection(('10.0.0.1', 443), 20)\n"
        f"line = trust.wrap_socket(raw, server_hostname={NAME!r})\n"
        f"line.sendall(b'GET /livez HTTP/1.1\\r\\nhost: {NAME}\\r\\n\\r\\n')\n"
        "sys.stdout.write(line.recv(4096).decode().splitlines()[0])\n"
    )
    done = subprocess.run(
        ["nsenter", "--net", "--target", str(process.pid), sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "HTTP/1.1 200 OK", done.stderr


def test_without_the_capability_the_start_says_which_one_is_missing(run: Start) -> None:
    """A right that is missing is not an address in use: status 71, which the unit does not try
    again, and no advice to end a process that is not there."""
    unit = parse(UNITS / "svc-cluster-gateway.service")
    del unit["AmbientCapabilities"]
    process, log = run(unit)
    line = said(process, log, "start_refused")
    assert "CAP_NET_BIND_SERVICE" in line["message"]
    assert "end the process" not in line["message"]
    assert (process.wait(START_S), line["exit_status"]) == (71, 71)
    assert "71" in unit["RestartPreventExitStatus"].split()


def test_a_directive_that_nobody_knows_is_found(tmp_path: Path) -> None:
    """The runner passes over nothing."""
    path = tmp_path / "own.service"
    path.write_text("[Unit]\nWants=x\n[Service]\nMemoryMax=1G\n")
    with pytest.raises(ValueError, match="MemoryMax"):
        parse(path)


def test_the_backups_unit_runs_with_the_documented_environment(run: Start) -> None:
    """As its user, with the places of the page's file: it gets as far as the administrator's
    certificate, which is not on this host, and says so with a status that the timer's log shows."""
    unit = parse(UNITS / "svc-cluster-backup.service")
    process, log = run(unit)
    assert process.wait(START_S) == 1, log.read_text()
    said_last = whole_lines(log)[-1]
    assert "/etc/svc-cluster/administrator/" in said_last


def test_the_timer_belongs_to_a_unit_that_is_there() -> None:
    """Its name is the unit's, it makes up for what was missed, and it is installed by itself."""
    timer = (UNITS / "svc-cluster-backup.timer").read_text()
    assert (UNITS / "svc-cluster-backup.service").is_file()
    assert "Unit=" not in timer
    assert {"Persistent=yes", "WantedBy=timers.target"} <= set(timer.splitlines())
