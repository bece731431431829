"""Secrets that stand where they do not belong are told by no process that refuses its settings.

It is so at its start in both forms of the log, at SIGHUP, and in what a debug bundle takes of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svc_cluster.cli.admin.debug_bundle import Bundle
from svc_cluster.model.access_secret import secret_text
from svc_cluster.settings_errors import EXIT_CONFIGURATION, EXIT_CREDENTIAL
from tests.integration.processes import in_loop
from tests.integration.test_reload import Pair, in_pair

ROOT = Path(__file__).resolve().parents[2]
TOKEN: Final = secret_text(bytes(range(32)))
HEX: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
WORD: Final = "Tr0ub4dor"
PEM: Final = f"-----BEGIN EC PRIVATE KEY-----\n{WORD}\n-----END EC PRIVATE KEY-----"
URL: Final = f"http://user:{WORD}@otlp.example/v1?api_key={WORD}"
FORMS: Final = ("json", "text")


@dataclass
class Case:
    """One start with a secret in it."""

    planted: str
    told: str
    """What is said all the same."""
    settings: dict[str, Any] = field(default_factory=dict)
    raw: str = ""
    """What stands behind the settings."""
    environment: dict[str, str] = field(default_factory=dict)
    status: int = EXIT_CONFIGURATION
    config: str = ""
    """The name of the file, in place of a good one."""


INSTEAD: Final = "looks like the secret itself"
CASES: Final = {
    "a key that nobody knows": Case(WORD, "no key root_token", {"root_token": WORD}),
    "a token under it": Case(TOKEN, "no key root_token", {"root_token": TOKEN}),
    "a key that is nearly right": Case(WORD, "did you mean secret_file?", {"secret": WORD}),
    "a wrong type": Case(WORD, "root_token_file is [masked]", {"root_token_file": [WORD]}),
    "a URL": Case(WORD, "traces_endpoint is 'http://[masked]@", {"traces_endpoint": URL}),
    "a URL for an address": Case(WORD, "admin_address has", {"admin_address": URL}),
    "a URL for a name": Case(WORD, "host is 'http://[masked]@", {"host": URL}),
    "text that is no YAML": Case(WORD, "is not YAML", raw=f'root_token: "{WORD}'),
    "an alias": Case(WORD, "found undefined alias", raw=f"root_token: *{WORD}"),
    "a doubled key": Case(WORD, "'secret_file' twice", raw=f"secret_file: {WORD}"),
    "a token for a file": Case(
        TOKEN, INSTEAD, environment={"SVC_CLUSTER_ROOT_TOKEN_FILE": TOKEN}, status=EXIT_CREDENTIAL
    ),
    "a cluster secret for a file": Case(HEX, INSTEAD, {"secret_file": HEX}, status=EXIT_CREDENTIAL),
    "a join token for a file": Case(
        HEX,
        INSTEAD,
        {"join_token_file": f"svc-join-1-{HEX}", "nodes": {"1": "127.0.0.1:0", "2": "127.0.0.1:7"}},
        status=EXIT_CREDENTIAL,
    ),
    "a key for a file": Case(
        WORD,
        INSTEAD,
        {"peer_tls_key": PEM, "peer_tls_cert": "/c", "peer_tls_ca": "/a"},
        status=EXIT_CREDENTIAL,
    ),
    "a token for the configuration": Case(TOKEN, INSTEAD, config=TOKEN, status=EXIT_CREDENTIAL),
    "a token for a place": Case(TOKEN, "host is '[redacted]/'", {"host": TOKEN + "/"}),
    "a token for a level": Case(TOKEN, "log_level is '[redacted]'", {"log_level": TOKEN}),
    "a token for a list": Case(TOKEN, "locations has '[redacted]", {"locations": {TOKEN: True}}),
    "a token in a directory's name": Case(
        TOKEN, "data_dir /proc/[redacted]", {"data_dir": f"/proc/{TOKEN}"}, status=73
    ),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, str]]:
    """Status and output of every case's process, by its form of the log."""
    directory = tmp_path_factory.mktemp("planted")
    (directory / "secret").write_text("s" * 64)
    jobs = []
    for number, case in enumerate(CASES.values()):
        settings = {
            "cluster_id": "c",
            "node_id": 1,
            "data_dir": str(directory / f"data-{number}"),
            "nodes": {"1": "127.0.0.1:0"},
            "replication_factor": 1,
            "secret_file": str(directory / "secret"),
        }
        path = directory / f"{number}.yaml"
        path.write_text(yaml.safe_dump(settings | case.settings) + case.raw)
        jobs += [
            {
                "arguments": ["node", "--config", case.config or str(path)],
                "files": None,
                "uid": None,
                "environment": {"SVC_CLUSTER_LOG_FORMAT": form, **case.environment},
            }
            for form in FORMS
        ]
    (directory / "jobs.json").write_text(json.dumps(jobs))
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.start_rows", directory / "jobs.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    names = [(name, form) for name in CASES for form in FORMS]
    return dict(zip(names, map(tuple, json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_start_that_is_refused_says_why_without_the_secret(
    name: str, form: str, outcomes: dict[tuple[str, str], tuple[int, str]], tmp_path: Path
) -> None:
    """In the log's form; and neither has it what a debug bundle takes of that log."""
    case = CASES[name]
    status, text = outcomes[name, form]
    assert status == case.status, text
    last = text.splitlines()[-1]
    if form == "json":
        line = json.loads(last)
        assert (line["event"], line["exit_status"]) == ("start_refused", case.status)
        assert case.told in line["message"]
    else:
        assert last.startswith("svc-cluster: ")
        assert case.told in last
    assert case.planted not in text
    (tmp_path / "node-1.log").write_text(text)
    bundle = Bundle()
    bundle.add_logs(tmp_path)
    assert bundle.parts == {"logs/node-1.log": text.encode()}


@in_loop
async def test_settings_that_are_refused_while_a_node_runs_are_told_without_their_secrets(
    tmp_path: Path,
) -> None:
    """By SIGHUP, for each kind; the node goes on, and neither its log nor the audit log has one."""

    async def body(pair: Pair, node: Any, gateway: Any) -> None:
        before = dict(pair.node)
        expected = []
        for case in CASES.values():
            if case.settings and "data_dir" not in case.settings and case.status == 78:
                pair.node = before | case.settings
                await pair.reload(node, "node", "settings_refused")
                expected.append(case.told)
        lines = pair.lines("node", "settings_refused")
        assert len(lines) == len(expected) == 10
        for line, told in zip(lines, expected, strict=True):
            assert told in line["reason"]
        assert [line["effect"] for line in pair.audit()] == ["none"] * len(expected)

    await in_pair(body, tmp_path)
    for name in ("node.log", "audit.log"):
        text = (tmp_path / name).read_text()
        assert not any(case.planted in text for case in CASES.values())
