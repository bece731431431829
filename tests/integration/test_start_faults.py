"""What keeps a node or a gateway from its start: each fault ends the process with one sentence that
names key, value and remedy, and with the exit status that docs/operations/starting.md gives it."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from svc_cluster.cli.admin.authority import Authority, certificate_names, issue
from svc_cluster.cli.local.embedded import EmbeddedNode
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.cli.processes.start_checks import (
    embedded_connections_max,
    gateway_files_min,
    node_files_min,
)
from svc_cluster.settings import GatewaySettings, NodeSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations" / "starting.md"
NOBODY = 65532


@dataclass
class Case:
    """One start: settings by key, and what the process is allowed."""

    role: str
    settings: dict[str, Any]
    files: int | None = None
    uid: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """The file's content, in place of `settings`."""


class Place:
    """A directory that other users may enter, with a CA and one good set of everything."""

    def __init__(self, directory: Path, held: ExitStack) -> None:
        self.directory = directory
        self.held = held
        self.cases = 0
        self.ca = Authority.create(directory / "ca", utc_now)
        self.secret = self.write("cluster.secret", secrets.token_hex(32))

    def write(self, name: str, text: str) -> str:
        (self.directory / name).write_text(text)
        return str(self.directory / name)

    def folder(self, mode: int = 0o755) -> Path:
        """A new directory of that mode."""
        path = Path(tempfile.mkdtemp(dir=self.directory))
        path.chmod(mode)
        return path

    def certificate(
        self, names: list[str], by: Authority | None = None, days: int = 1
    ) -> dict[str, str]:
        """A new certificate, as settings for TLS in the cluster."""
        out = self.folder()
        issue(by or self.ca, names, out, days=days)
        shutil.copy(self.directory / "ca" / "ca.pem", out / "ca.crt")
        return {
            "peer_tls_cert": str(out / "tls.crt"),
            "peer_tls_key": str(out / "tls.key"),
            "peer_tls_ca": str(out / "ca.crt"),
        }

    def shifted(self, **time: float) -> Authority:
        """The CA, with a clock that is off by so much."""
        return Authority(self.directory / "ca", lambda: utc_now() + datetime.timedelta(**time))

    def busy(self) -> int:
        """A port that is taken until the end."""
        taken = self.held.enter_context(socket.create_server(("127.0.0.1", 0)))
        return int(taken.getsockname()[1])

    def node(self, **changes: Any) -> Case:
        settings = {
            "cluster_id": "c",
            "node_id": 1,
            "data_dir": str(self.folder() / "data"),
            "nodes": {"1": "127.0.0.1:0"},
            "replication_factor": 1,
            "secret_file": self.secret,
        }
        return Case("node", without_none(settings | changes))

    def gateway(self, **changes: Any) -> Case:
        settings = {
            "cluster_id": "c",
            "nodes": {"1": "127.0.0.1:1"},
            "secret_file": self.secret,
            "port": 0,
        }
        return Case("gateway", without_none(settings | changes))


def without_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


NODE = certificate_names([1])
GATEWAY = certificate_names([], gateway=True)


def mixed(*sets: dict[str, str]) -> dict[str, str]:
    """The certificate of the first and the key of the second."""
    return sets[0] | {"peer_tls_key": sets[1]["peer_tls_key"]}


def public(peer: dict[str, str]) -> dict[str, str]:
    return {"tls_cert": peer["peer_tls_cert"], "tls_key": peer["peer_tls_key"]}


def forbidden(place: Place, mode: int) -> Case:
    """A data directory that the user of the process must not use in that way."""
    data = place.folder(mode)
    case = place.node(data_dir=str(data))
    if os.getuid() == 0:
        case.uid = NOBODY  # for root there is no forbidden directory
    return case


def with_wal_of_root(place: Place) -> Case:
    """A directory whose inside belongs to somebody else, as after a start as root."""
    case = place.node()
    data = Path(case.settings["data_dir"])
    data.mkdir()
    (data / "wal").mkdir(mode=0o755)
    if os.getuid() == 0:
        os.chown(data, NOBODY, NOBODY)
        case.uid = NOBODY
    else:
        (data / "wal").chmod(0o500)
    return case


def held_directory(place: Place) -> Case:
    """A data directory that another process, this one, works in."""
    data = place.folder()
    (data / "LOCK").touch(0o600)
    lock = place.held.enter_context((data / "LOCK").open("w"))
    fcntl.flock(lock, fcntl.LOCK_EX)
    return place.node(data_dir=str(data))


def of_three(place: Place) -> Case:
    """A data directory of a cluster of three, and settings of one node."""
    data = place.folder()
    (data / "members.json").touch(0o600)
    (data / "members.json").write_text("[1, 2, 3]")
    return place.node(data_dir=str(data))


Make = Callable[[Place], Case]
ROWS: dict[str, tuple[int, Make, list[str]]] = {
    "a key that does not exist": (
        78,
        lambda p: p.node(data_dirs="/x"),
        ["data_dirs", "remove it", "did you mean data_dir?"],
    ),
    "a key that stands twice": (
        78,
        lambda p: Case("node", {}, raw=b"zone: a\nhost: h\nzone: b\n"),
        ["'zone' twice", "in the lines 1 and 3", "leave one of them out"],
    ),
    "a value of the wrong type": (78, lambda p: p.node(node_id="one"), ["node_id", "'one'", "int"]),
    "a value out of its range": (
        78,
        lambda p: p.node(wal_segment_mib=1),
        ["wal_segment_mib", "1", "4 to 4095"],
    ),
    "a key that is missing": (78, lambda p: p.node(cluster_id=None), ["cluster_id", "set it"]),
    "an environment variable of the wrong type": (
        78,
        lambda p: with_environment(p.gateway(), SVC_CLUSTER_PORT="many"),
        ["SVC_CLUSTER_PORT", "'many'", "int"],
    ),
    "text that is not YAML": (
        78,
        lambda p: Case("node", {}, raw=b"nodes: {"),
        ["not YAML"],
    ),
    "an id that is not in the list": (
        78,
        lambda p: p.node(node_id=7),
        ["node_id 7", "name this node in nodes"],
    ),
    "an even replication factor": (
        78,
        lambda p: p.node(replication_factor=2),
        ["replication_factor is 2", "1, 3 or 5"],
    ),
    "more replicas than nodes": (
        78,
        lambda p: p.node(replication_factor=3),
        ["replication_factor is 3", "add nodes or lower it"],
    ),
    "two nodes at one address": (
        78,
        lambda p: p.node(nodes={"1": "127.0.0.1:7", "2": "127.0.0.1:7"}),
        ["127.0.0.1:7", "give each its own"],
    ),
    "half of the files for TLS": (
        78,
        lambda p: p.node(peer_tls_cert="/x"),
        ["peer_tls_cert", "together"],
    ),
    "an address for others without TLS": (
        78,
        lambda p: p.node(listen_address="0.0.0.0:0"),
        ["listen_address", "'0.0.0.0:0'", "set peer_tls_cert"],
    ),
    "other members than before": (78, of_three, ["[1]", "[1, 2, 3]", "put the ids back"]),
    "no configuration file": (
        66,
        lambda p: Case("node", {}),
        ["cannot be read", "--config"],
    ),
    "no cluster secret": (
        66,
        lambda p: p.gateway(secret_file="/nonexistent"),
        ["secret_file /nonexistent", "put the cluster's secret there"],
    ),
    "no root token": (
        66,
        lambda p: p.node(root_token_file="/nonexistent"),
        ["root_token_file /nonexistent", "new-token"],
    ),
    "no certificate": (
        66,
        lambda p: p.node(**p.certificate(NODE) | {"peer_tls_cert": "/nonexistent"}),
        ["/nonexistent", "peer_tls_cert", "put the file there"],
    ),
    "no CA": (
        66,
        lambda p: p.gateway(**p.certificate(GATEWAY) | {"peer_tls_ca": "/nonexistent"}),
        ["/nonexistent", "peer_tls_ca", "put the file there"],
    ),
    "a cluster secret that is too short": (
        65,
        lambda p: p.node(secret_file=p.write("short", "secret")),
        ["secret_file", "6 bytes", "at least 32"],
    ),
    "a root token that is none": (
        65,
        lambda p: p.node(root_token_file=p.write("token", "hello")),
        ["root_token_file", "new-token"],
    ),
    "a secret in place of its file's name": (
        65,
        lambda p: p.node(root_token_file="svct_" + "s" * 51),
        ["root_token_file looks like the secret itself", "put the secret into a file"],
    ),
    "a certificate that has expired": (
        65,
        lambda p: p.node(**p.certificate(NODE, p.shifted(days=-10))),
        ["tls.crt", "expired", "renew it", "peer_tls_cert"],
    ),
    "a certificate of tomorrow": (
        65,
        lambda p: p.gateway(**p.certificate(GATEWAY, p.shifted(days=1), days=2)),
        ["tls.crt", "not valid before", "set the clock", "peer_tls_cert"],
    ),
    "a key of another certificate": (
        65,
        lambda p: p.node(**mixed(p.certificate(NODE), p.certificate(NODE))),
        ["tls.key", "of one issue", "peer_tls_key"],
    ),
    "a certificate of another process": (
        65,
        lambda p: p.node(**p.certificate(certificate_names([2]))),
        ["node-2.svc-cluster.internal", "node-1.svc-cluster.internal", "use the certificate"],
    ),
    "a certificate of another CA": (
        65,
        lambda p: p.node(**p.certificate(NODE, Authority.create(p.folder() / "other", utc_now))),
        ["refused under", "the cluster's CA", "peer_tls_ca"],
    ),
    "a public certificate that has expired": (
        65,
        lambda p: p.gateway(**public(p.certificate(["localhost"], p.shifted(days=-10)))),
        ["tls.crt", "expired", "renew it", "tls_cert"],
    ),
    "a busy peer port": (
        69,
        lambda p: p.node(nodes={"1": f"127.0.0.1:{p.busy()}"}),
        ["nodes", "127.0.0.1:", "choose another port"],
    ),
    "a busy admin port": (
        69,
        lambda p: p.node(admin_address=f"127.0.0.1:{p.busy()}"),
        ["admin_address 127.0.0.1:", "choose another port"],
    ),
    "a busy public port": (
        69,
        lambda p: p.gateway(port=p.busy()),
        ["port ", "choose another port"],
    ),
    "too few open files for a node": (
        71,
        lambda p: limited(p.node(), 200),
        ["RLIMIT_NOFILE is 200", "raise it"],
    ),
    "too few open files for a gateway": (
        71,
        lambda p: limited(p.gateway(), 200),
        ["RLIMIT_NOFILE is 200", "raise it"],
    ),
    "a file in the directory's place": (
        73,
        lambda p: p.node(data_dir=p.write("file", "") + "/data"),
        ["data_dir", "file/data", "choose another directory"],
    ),
    "a directory that must not be read": (
        73,
        lambda p: forbidden(p, 0o700 if os.getuid() == 0 else 0),
        ["data_dir", "Permission denied", "read and write"],
    ),
    "a directory that must not be written": (
        73,
        lambda p: forbidden(p, 0o755 if os.getuid() == 0 else 0o500),
        ["data_dir", "Permission denied", "read and write"],
    ),
    "a directory with an inside of another user": (
        73,
        with_wal_of_root,
        ["data_dir", "Permission denied", "read and write"],
    ),
    "a directory in use": (73, held_directory, ["data_dir", "in use", "choose another directory"]),
}


def with_environment(case: Case, **variables: str) -> Case:
    case.environment = variables
    return case


def limited(case: Case, files: int) -> Case:
    case.files = files
    return case


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, tuple[int, str]]]:
    """Status and output of every row's process."""
    directory = Path(tempfile.mkdtemp(prefix="svc-start-"))
    directory.chmod(0o755)
    jobs = []
    try:
        with ExitStack() as held:
            place = Place(directory, held)
            for number, (_, make, _) in enumerate(ROWS.values()):
                case = make(place)
                path = directory / f"{number}.yaml"
                if case.raw is not None:
                    path.write_bytes(case.raw)
                elif case.settings:
                    path.write_text(yaml.safe_dump(case.settings))
                jobs.append(
                    {
                        "arguments": [case.role, "--config", str(path)],
                        "files": case.files,
                        "uid": case.uid,
                        "environment": case.environment,
                    }
                )
            (directory / "jobs.json").write_text(json.dumps(jobs))
            done = subprocess.run(
                [sys.executable, "-m", "tests.integration.start_rows", directory / "jobs.json"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=280,
                check=True,
            )
        yield dict(zip(ROWS, map(tuple, json.loads(done.stdout)), strict=True))
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("fault", ROWS)
def test_a_fault_ends_the_start_with_one_sentence_and_its_status(
    fault: str, outcomes: dict[str, tuple[int, str]]
) -> None:
    """One line of the log, which is JSON to its end, has the sentence with key, value and remedy,
    and the status."""
    wanted, _, words = ROWS[fault]
    status, text = outcomes[fault]
    lines = [json.loads(line) for line in text.splitlines()]
    said = [line for line in lines if line["event"] == "start_refused"]
    assert status == wanted, text
    assert [(line["level"], line["exit_status"]) for line in said] == [("error", wanted)], text
    assert "Traceback" not in text
    for word in words:
        assert word in said[0]["message"], said[0]


def test_the_page_has_the_floors_of_open_files() -> None:
    """The numbers that it gives are those that are asked for."""
    page = " ".join(PAGE.read_text().split())
    node = NodeSettings(
        cluster_id="c",
        node_id=1,
        data_dir="/",
        nodes={"1": "a:1", "2": "b:1", "3": "c:1"},
        secret_file="/",
        wal_retain_mib=160,
        wal_segment_mib=16,
    )
    floor = node_files_min(node) - (10 + 2) - 4 * 2
    assert f"A node needs {floor} files" in page
    gateway = GatewaySettings(cluster_id="c", nodes=node.nodes, secret_file="/")
    assert f"a gateway {gateway_files_min(gateway) - 4 * 3} and four for each node" in page


def test_connections_beside_a_node_leave_it_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process has both: a connection that takes a node's file would end it."""
    node = NodeSettings(
        cluster_id="c", node_id=1, data_dir="/", nodes={"1": "a:1"}, secret_file="/"
    )
    floor = node_files_min(node)
    for limit, most in (
        (resource.RLIM_INFINITY, 500),
        (floor + 501, 500),
        (floor + 499, 499),
        (floor, 1),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert embedded_connections_max(node, 500) == most
        chosen = GatewaySettings(
            cluster_id="c", nodes=node.nodes, secret_file="/", connections_max=500
        )
        assert EmbeddedNode(node, chosen).gateway_settings.connections_max == most


def test_the_page_has_these_rows_and_no_others() -> None:
    """Every fault of the page's table is one that is tested here, with that status."""
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert {fault: int(status) for fault, status in rows} == {
        fault: status for fault, (status, _, _) in ROWS.items()
    }
