"""`svc_cluster.testing`, as the suites of others use it: a cluster in a container that answers, and
nothing left when the suite is over, however it ended."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.testing import SvcClusterContainer, unavailable
from svc_cluster.testing.container import ID_LABEL, LABEL, OWNER_LABEL
from svc_cluster.testing.owner import Owner
from tests.containers.compose import docker, engine

ROOT = Path(__file__).resolve().parents[2]
START_S = 240.0
"""Generous: the container shares a small machine with the rest of the suite."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def containers_can_run() -> Iterator[None]:
    """Skips with what is missing, and proves after each test that it has left nothing."""
    missing = unavailable() or engine()
    if missing is not None:
        pytest.skip(f"{missing}: the testing module is not tried")
    yield
    gc.collect()
    assert own_containers() == []


def own_containers() -> list[str]:
    """Of this process and of those that have ended: other suites of this host are not ours."""
    this = Owner.this_process()
    found = []
    for line in docker(
        "ps",
        "--all",
        "--filter",
        f"label={LABEL}",
        "--format",
        '{{.ID}} {{.Label "' + OWNER_LABEL + '"}}',
    ).splitlines():
        number, _, text = line.partition(" ")
        owner = Owner.parse(text)
        if owner is None or owner == this or owner.is_gone(this):
            found.append(number)
    return found


def call(
    cluster: SvcClusterContainer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    request = urllib.request.Request(
        cluster.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json", "svc-format": "utf8"} | headers,
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60, context=cluster.trust) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def append_and_read(cluster: SvcClusterContainer) -> list[str]:
    headers = cluster.headers | {"svc-basin": "testing-basin"}
    assert call(cluster, "POST", "/v1/basins", {"basin": "testing-basin"}, **headers)[0] == 201
    assert call(cluster, "POST", "/v1/streams", {"stream": "s"}, **headers)[0] == 201
    body = {"records": [{"body": "one"}, {"body": "two"}]}
    assert call(cluster, "POST", "/v1/streams/s/records", body, **headers)[0] == 200
    status, batch = call(cluster, "GET", "/v1/streams/s/records?seq_num=0&count=10", **headers)
    assert status == 200
    return [record["body"] for record in batch["records"]]


def test_a_suite_gets_a_cluster_that_asks_for_its_token(tmp_path: Path) -> None:
    """One node; records come back; without the token nothing is answered; the container has no
    rights it does not need; and a second `stop` does no harm."""
    with SvcClusterContainer(start_seconds=START_S) as cluster:
        assert append_and_read(cluster) == ["one", "two"]
        assert call(cluster, "GET", "/v1/basins")[0] == 401
        assert cluster.environment["S2_ACCESS_TOKEN"] == cluster.token
        assert cluster.environment["S2_BASIN_ENDPOINT"] == cluster.get_endpoint()
        facts = json.loads(docker("inspect", cluster.container.get_container_id()))[0]
        assert facts["HostConfig"]["CapDrop"] == ["ALL"]
        assert facts["Config"]["User"] == "65532:65532"
        assert cluster.token is not None
        assert cluster.token not in json.dumps(facts), "a secret is in no argument or variable"
    cluster.stop()


def test_three_nodes_without_tokens() -> None:
    """`nodes=3` is a cluster of three; `auth=False` asks nobody for a token."""
    with SvcClusterContainer(nodes=3, auth=False, start_seconds=START_S) as cluster:
        assert cluster.token is None
        assert append_and_read(cluster) == ["one", "two"]
        listed = cluster.container.exec(["ls", "/data"]).output.decode().split()
        assert {"node-1", "node-2", "node-3"} <= {*listed}


def test_three_nodes_under_tls_that_ask_for_their_token() -> None:
    """`tls=True`: records come back over TLS, a client that does not trust the cluster's CA gets
    nothing, nor does one in clear text, and the nodes speak TLS among each other."""
    with SvcClusterContainer(nodes=3, auth=True, tls=True, start_seconds=START_S) as cluster:
        assert cluster.url.startswith("https://")
        assert append_and_read(cluster) == ["one", "two"]
        assert call(cluster, "GET", "/v1/basins")[0] == 401
        for url in (cluster.url, cluster.url.replace("https://", "http://")):
            with pytest.raises((urllib.error.URLError, OSError)):
                urllib.request.urlopen(f"{url}/livez", timeout=60)
        settings = cluster.container.exec(["cat", "/data/node-3.yaml"]).output.decode()
        assert "peer_tls_ca" in settings
    assert SvcClusterContainer().trust is None


def test_an_object_that_is_forgotten_takes_its_container_along() -> None:
    """Without `stop`: the finalizer runs when nobody holds the object any more."""
    cluster = SvcClusterContainer(start_seconds=START_S).start()
    number = cluster.container.get_container_id()
    assert docker("ps", "--quiet", "--no-trunc").count(number) == 1
    del cluster
    gc.collect()
    assert docker("ps", "--all", "--quiet", "--no-trunc").count(number) == 0


def test_a_start_that_fails_says_why_and_leaves_nothing() -> None:
    """The end of the container's log is in the error."""
    from svc_cluster.testing.container import StartError

    cluster = SvcClusterContainer(start_seconds=START_S)
    cluster.container.with_command(["local", "--nodes", "2"])
    with pytest.raises(StartError, match="--nodes is 2"):
        cluster.start()


PAGE = ROOT / "docs" / "operations" / "testing.md"


def test_the_example_of_the_page_is_true(tmp_path: Path) -> None:
    """As it stands there, run by a pytest of its own."""
    example = PAGE.read_text().split("```python\n", 1)[1].split("```", 1)[0]
    (tmp_path / "test_example.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


SUITE = """
import os, signal
from svc_cluster.testing import SvcClusterContainer

def test_first_suite():
    with SvcClusterContainer(start_seconds={seconds}) as cluster:
        print("started", cluster.container.get_container_id(), flush=True)
        if {killed}:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def run_suite(directory: Path, *, killed: bool) -> tuple[int, str]:
    """A pytest of its own: its exit status and the id of the container it had."""
    path = directory / f"test_suite_{killed}.py"
    path.write_text(textwrap.dedent(SUITE.format(seconds=START_S, killed=killed)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-n0", str(path)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if "started " in line]
    assert len(lines) == 1, done.stdout + done.stderr
    return done.returncode, lines[0].split()[-1]


def test_a_killed_suite_and_a_second_run_leave_nothing(tmp_path: Path) -> None:
    """kill -9 of pytest leaves its container behind; the next run takes it away before it starts
    its own, which is gone at its end."""
    status, left = run_suite(tmp_path, killed=True)
    assert status == -signal.SIGKILL
    everything = docker("ps", "--all", "--quiet", "--no-trunc").split()
    assert left in everything, "nothing but the next run could have removed it"
    status, second = run_suite(tmp_path, killed=False)
    assert status == 0
    everything = docker("ps", "--all", "--quiet", "--no-trunc").split()
    assert left not in everything
    assert second not in everything


def test_a_container_of_a_live_process_is_left_alone() -> None:
    """Two suites at the same time: the start of one does not take the other's away."""
    with SvcClusterContainer(start_seconds=START_S) as first:
        labels = json.loads(docker("inspect", first.container.get_container_id()))[0]["Config"]
        assert Owner.parse(labels["Labels"][OWNER_LABEL]) == Owner.this_process()
        assert ID_LABEL in labels["Labels"]
        with SvcClusterContainer(start_seconds=START_S) as second:
            assert call(first, "GET", "/v1/basins", **first.headers)[0] == 200
            assert call(second, "GET", "/v1/basins", **second.headers)[0] == 200
