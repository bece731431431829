"""`svc-cluster config` tells before a start what the start would say."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from svc_cluster.cli.admin.authority import Authority, certificate_names, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_sources import keys_of


def ask(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Status, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster", "config", *arguments],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a node that can be started, and of one whose certificate is another's."""
    directory = tmp_path_factory.mktemp("config")
    (directory / "cluster.secret").write_text(secrets.token_hex(32))
    authority = Authority.create(directory / "ca", utc_now)
    for node in (1, 2):
        issue(authority, certificate_names([node]), directory / f"node-{node}")
        settings = {
            "cluster_id": "c",
            "node_id": 1,
            "data_dir": "/nonexistent/data",
            "nodes": {"1": "10.0.0.1:7000"},
            "replication_factor": 1,
            "secret_file": str(directory / "cluster.secret"),
            "peer_tls_cert": str(directory / f"node-{node}" / "tls.crt"),
            "peer_tls_key": str(directory / f"node-{node}" / "tls.key"),
            "peer_tls_ca": str(directory / "ca" / "ca.pem"),
        }
        (directory / f"{node}.yaml").write_text(yaml.safe_dump(settings))
    return directory


def test_print_shows_what_is_in_effect_and_no_way_to_a_secret(place: Path) -> None:
    """Every key once, the environment's value before the file's and the file's before the default;
    the places of secret, key and root token are masked."""
    status, out, _ = ask(
        "print",
        "node",
        "--config",
        str(place / "1.yaml"),
        SVC_CLUSTER_FLUSH_SECONDS="2.5",
        SVC_CLUSTER_ROOT_TOKEN_FILE="/root-token",
    )
    shown = yaml.safe_load(out)
    assert status == 0
    assert list(shown) == keys_of(NodeSettings)
    assert (shown["flush_seconds"], shown["cluster_id"], shown["memory_mib"]) == (2.5, "c", 320)
    assert {key for key, value in shown.items() if value == "[masked]"} == {
        "secret_file",
        "peer_tls_key",
        "root_token_file",
    }
    assert "cluster.secret" not in out
    assert "tls.key" not in out


def test_check_says_what_a_start_would_say(place: Path) -> None:
    """Good files pass without a data directory; another's certificate, a missing secret and an
    unknown variable end with the statuses of a start, and the variable's neighbour is named."""
    good = ("check", "node", "--config", str(place / "1.yaml"))
    assert ask(*good)[0] == 0
    assert not Path("/nonexistent").exists()
    wrong = ask("check", "node", "--config", str(place / "2.yaml"))
    assert (wrong[0], "not for node-1.svc-cluster.internal" in wrong[2]) == (65, True)
    missing = ask(*good, SVC_CLUSTER_SECRET_FILE="/nonexistent")
    assert (missing[0], "secret_file /nonexistent" in missing[2]) == (66, True)
    unknown = ask(*good, SVC_CLUSTER_FLUSH_SECOND="1")
    assert (unknown[0], "did you mean SVC_CLUSTER_FLUSH_SECONDS?" in unknown[2]) == (78, True)


def test_schema_is_one_that_editors_read() -> None:
    """Of each kind, with every key of it."""
    for role, kind in (("node", NodeSettings), ("gateway", GatewaySettings)):
        status, out, _ = ask("schema", role)
        assert status == 0
        assert list(json.loads(out)["properties"]) == keys_of(kind)
