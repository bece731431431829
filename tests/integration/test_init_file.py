"""Gateways that declare basins, streams and access tokens, as processes beside a real cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.root_token import new_secret
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.settings_errors import EXIT_CONFIGURATION, EXIT_CREDENTIAL, EXIT_MISSING_FILE
from tests.contract.client import Answer, Client
from tests.integration.processes import READY_S, wait_page
from tests.log_lines import json_lines
from tests.service_process import service

SCOPE = {"basins": {"prefix": ""}, "streams": {"exact": "events"}, "ops": ["check-tail", "read"]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """One node; the gateways of the tests come beside its own."""
    directory = tmp_path_factory.mktemp("init") / "data"
    with contextlib.ExitStack() as stack:
        own = OwnCluster(directory, nodes=1)
        stack.callback(own.end)
        own.start()
        asyncio.run(own.wait_ready(READY_S))
        yield own


class GatewayProcess:
    """A gateway of its own, which asks for access tokens, with an init file."""

    def __init__(self, own: OwnCluster, place: Path, init_file: Path) -> None:
        held = HeldPorts(1)
        self.port = held.numbers[0]
        facts = json.loads((own.directory / "local.json").read_text())
        config = place.with_suffix(".yaml")
        settings = {
            "cluster_id": facts["cluster_id"],
            "nodes": {"1": f"127.0.0.1:{own.node(1)['rpc_port']}"},
            "secret_file": str(own.directory / "cluster.secret"),
            "port": self.port,
            "authentication": True,
            "audit_log": str(place.with_suffix(".audit")),
        }
        config.write_text(yaml.safe_dump(settings))
        self.log = place.with_suffix(".log")
        self.audit = place.with_suffix(".audit")
        self.process = service("gateway", config, self.log, "--init-file", str(init_file))
        self.process.start()

    def ready(self) -> None:
        """Return once it has done what it declares. Raises AssertionError."""
        asyncio.run(wait_page(self.port, "/readyz", 200))

    def applied(self) -> dict[str, Any]:
        """What the one line says that there must be."""
        (line,) = self.lines("declarations_applied")
        return line

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of this event."""
        return [line for line in json_lines(self.log) if line["event"] == event]

    def audited(self) -> list[tuple[str, str]]:
        """Operation and outcome of each line of the audit log, in order."""
        return [(line["operation"], line["outcome"]) for line in json_lines(self.audit)]

    def get(self, path: str, basin: str, secret: str) -> Answer:
        headers = {"authorization": f"Bearer {secret}", "svc-basin": basin}
        with Client(f"http://127.0.0.1:{self.port}") as client:
            return client.get(path, headers)

    def end(self) -> None:
        self.process.stop()


@contextlib.contextmanager
def gateways(
    own: OwnCluster, directory: Path, init_file: Path, count: int = 1
) -> Iterator[list[GatewayProcess]]:
    """So many at once, ready; ended in order."""
    started: list[GatewayProcess] = []
    try:
        for _ in range(count):
            place = directory / f"gateway-{len(list(directory.glob('*.yaml')))}"
            started.append(GatewayProcess(own, place, init_file))
        for each in started:
            each.ready()
        yield started
    finally:
        for each in started:
            each.end()


def declared(directory: Path, name: str, retention: str = "7days") -> dict[str, Any]:
    """A basin, two streams and a token, whose secret is in a file beside."""
    secret = directory / "reader.token"
    if not secret.exists():
        secret.write_text(new_secret() + "\n")
    return {
        "basins": [
            {
                "name": name,
                "config": {"create_stream_on_append": True},
                "streams": [
                    {"name": "events", "config": {"retention_policy": retention}},
                    {"name": "other"},
                ],
            }
        ],
        "access_tokens": [{"id": name, "scope": SCOPE, "secret_file": secret.name}],
    }


def written(directory: Path, value: object) -> Path:
    path = directory / "init.json"
    path.write_text(json.dumps(value))
    return path


def retention(own: OwnCluster, basin: str, stream: str) -> Any:
    with Client(own.url) as client:
        answer = client.get(f"/v1/streams/{stream}", {"svc-basin": basin})
    assert answer.status == 200, answer.body
    return json.loads(answer.body)["retention_policy"]


def counts(told: dict[str, Any]) -> list[int]:
    return [told[outcome] for outcome in ("created", "changed", "unchanged", "refused")]


def test_what_is_declared_is_made_once_and_changed_when_the_file_changes(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """The first start makes everything and says so once; the second changes nothing and writes
    nothing to the audit log; a changed stream is reconfigured, and a token with another secret
    refused: the old secret goes on working, the new one does not, and the gateway gets ready."""
    basin = f"declared-{os.urandom(4).hex()}"
    path = written(tmp_path, declared(tmp_path, basin))
    before = (tmp_path / "reader.token").read_text().strip()
    with gateways(cluster, tmp_path, path) as (first,):
        told = first.applied()
        assert counts(told) == [
            4,
            0,
            0,
            0,
        ]
        assert told["created_names"] == [basin, f"{basin}/events", f"{basin}/other", basin]
        assert first.audited() == [
            ("declare-basin", "created"),
            ("declare-stream", "created"),
            ("declare-stream", "created"),
            ("declare-access-token", "created"),
        ]
        assert first.get("/v1/streams/events/records/tail", basin, before).status == 200
        assert first.get("/v1/streams/other/records/tail", basin, before).status == 403
        assert before not in first.log.read_text() + first.audit.read_text()
    assert retention(cluster, basin, "events") == {"age": 604_800}

    with gateways(cluster, tmp_path, path) as (second,):
        told = second.applied()
        assert counts(told) == [
            0,
            0,
            4,
            0,
        ]
        assert second.audited() == []
        assert second.get("/v1/streams/events/records/tail", basin, before).status == 200

    (tmp_path / "reader.token").unlink()
    written(tmp_path, declared(tmp_path, basin, "2h 30m"))
    after = (tmp_path / "reader.token").read_text().strip()
    with gateways(cluster, tmp_path, path) as (third,):
        told = third.applied()
        assert counts(told) == [
            0,
            1,
            2,
            1,
        ]
        assert told["changed_names"] == [f"{basin}/events"]
        assert told["refused_names"] == [basin]
        (error,) = third.lines("declaration_refused")
        assert (error["path"], error["name"]) == ("access_tokens[0]", basin)
        assert f"`{basin}` is there with another secret and stays" in error["reason"]
        assert third.audited() == [("declare-stream", "updated")]
        assert third.get("/v1/streams/events/records/tail", basin, before).status == 200
        assert third.get("/v1/streams/events/records/tail", basin, after).status == 401
    assert retention(cluster, basin, "events") == {"age": 9_000}


def test_gateways_that_declare_the_same_at_once_make_it_once(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """Of three gateways one makes each thing and the others find it, all get ready, and the token
    is good at each."""
    basin = f"at-once-{os.urandom(4).hex()}"
    path = written(tmp_path, declared(tmp_path, basin))
    secret = (tmp_path / "reader.token").read_text().strip()
    with gateways(cluster, tmp_path, path, 3) as started:
        told = [each.applied() for each in started]
        assert sum(each["created"] for each in told) == 4
        assert sum(each["unchanged"] for each in told) == 8
        audited = [row for each in started for row in each.audited()]
        assert len(audited) == 4
        assert all(outcome == "created" for _, outcome in audited)
        for each in started:
            assert each.get("/v1/streams/events/records/tail", basin, secret).status == 200


def test_what_the_cluster_refuses_is_said_and_does_not_hold_up_the_rest(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """A location that there is not, and a secret that is another token's: an error each that names
    the place. What else is declared is made, and the gateway gets ready."""
    basin = f"refused-{os.urandom(4).hex()}"
    value = declared(tmp_path, basin)
    value["basins"].insert(
        0, {"name": f"no-{basin}", "location": "moon", "streams": [{"name": "s"}]}
    )
    path = written(tmp_path, value)
    with gateways(cluster, tmp_path, path) as (first,):
        assert first.applied()["refused_names"] == [f"no-{basin}"]
        assert first.applied()["created"] == 4
        (error,) = first.lines("declaration_refused")
        assert (error["level"], error["path"]) == ("error", "basins[0]")
        assert "location" in error["reason"]
    value["access_tokens"] = [value["access_tokens"][0] | {"id": f"twin-{basin}"}]
    written(tmp_path, value | {"basins": []})
    with gateways(cluster, tmp_path, path) as (second,):
        assert second.applied()["refused_names"] == [f"twin-{basin}"]
        (error,) = second.lines("declaration_refused")
        assert error["path"] == "access_tokens[0]"
        assert f"`{basin}`" in error["reason"]


UNKNOWN = {"basins": [{"name": "my-basin-1", "stream": []}]}


def tokens(**source: str) -> dict[str, Any]:
    return {"access_tokens": [{"id": "t", "scope": SCOPE, **source}]}


@pytest.mark.parametrize(
    ("command", "value", "status", "says"),
    [
        ("local", UNKNOWN, EXIT_CONFIGURATION, "no member `basins[0].stream`"),
        ("gateway", UNKNOWN, EXIT_CONFIGURATION, "no member `basins[0].stream`"),
        ("config", UNKNOWN, EXIT_CONFIGURATION, "no member `basins[0].stream`"),
        (
            "gateway",
            tokens(secret_file="none"),
            EXIT_MISSING_FILE,
            "access_tokens[0].secret_file names none, which cannot be read",
        ),
        (
            "local",
            tokens(secret_env="NO_SUCH"),
            EXIT_CREDENTIAL,
            "access_tokens[0].secret_env names the environment variable NO_SUCH",
        ),
        (
            "config",
            tokens(secret_env="PATH"),
            EXIT_CREDENTIAL,
            "access_tokens[0].secret_env leads to no access token",
        ),
    ],
)
def test_an_invalid_file_refuses_the_start_with_a_sentence(
    tmp_path: Path, command: str, value: object, status: int, says: str
) -> None:
    """The same sentence and status from `local`, which makes no directory then, from a gateway, and
    from `config check`."""
    path = written(tmp_path, value)
    config = tmp_path / "gateway.yaml"
    settings = {
        "cluster_id": "c",
        "nodes": {"1": "127.0.0.1:1"},
        "secret_file": str(tmp_path / "s"),
    }
    (tmp_path / "s").write_text("s" * 32)
    config.write_text(yaml.safe_dump(settings | {"log_format": "text"}))
    arguments = {
        "local": ["local", "--data-dir", str(tmp_path / "data"), "--init-file", str(path)],
        "gateway": ["gateway", "--config", str(config), "--init-file", str(path)],
        "config": ["config", "check", "gateway", "--config", str(config)],
    }[command]
    ended = subprocess.run(
        [sys.executable, "-m", "svc_cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"SVC_CLUSTER_INIT_FILE": str(path)},
    )
    lines = ended.stderr.splitlines()
    assert (ended.returncode, len(lines)) == (status, 1), ended.stderr
    assert says in lines[0]
    assert str(path) in lines[0]
    assert not (tmp_path / "data").exists()


def test_a_local_cluster_is_ready_with_what_it_declares(tmp_path: Path) -> None:
    """Node and gateway in one process; the file stands in the command line."""
    path = written(tmp_path, {"basins": [{"name": "my-basin-1", "streams": [{"name": "s"}]}]})
    own = OwnCluster(tmp_path / "data", nodes=1, options=["--init-file", str(path)])
    with contextlib.ExitStack() as stack:
        stack.callback(own.end)
        own.start()
        asyncio.run(own.wait_ready(READY_S))
        assert retention(own, "my-basin-1", "s") == {"age": 604_800}
