"""The chart's pods, run: what the StatefulSet and the Deployment render to, as containers on one
network. The cluster forms, the probes pass, and a restart in the order of a StatefulSet loses
nothing. Skipped, and said so, where no container engine or no engine of Helm's is there."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.backup.key_file import make_key
from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse
from tests.containers.compose import ROOT, ComposeError, docker, engine
from tests.containers.pods import Mount, Objects, Pod, differences, pods_of

HELM = ROOT / ".venv" / "helm" / "bin" / "python"
NETWORK = "svc-cluster-chart-test"
LABEL = "svc-cluster.chart-test"
GATEWAYS = 2
STEP_S = 240.0
BASIN = "chart-basin"
APPENDS_BETWEEN = 20
"""Acknowledged before the first restart, and after each."""

FILL = """
import json, os, sys
for name, mode, owner, group, files in json.load(sys.stdin):
    place = os.path.join("/volumes", name)
    for path, text in files.items():
        with open(os.path.join(place, path), "wb") as file:
            file.write(bytes.fromhex(text))
        os.chown(file.name, owner, group)
        os.chmod(file.name, mode)
    os.chown(place, 0, group)
    os.chmod(place, 0o2775)
"""
"""What the kubelet does: files with mode and group, and directories that the group may write to."""

pytestmark = pytest.mark.timeout(1200)


def rendered(values: dict[str, Any] | None = None) -> Objects:
    """By kind and name. Skips where Helm's engine is not there."""
    if not HELM.exists():
        pytest.skip("Helm's engine is not there (make helm-check): the chart's pods were not run")
    done = subprocess.run(
        [HELM, "-m", "tests.helm.rendered"],
        cwd=ROOT,
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=True,
    )
    return {(each["kind"], each["metadata"]["name"]): each for each in json.loads(done.stdout)}


class Pods:
    """Those of one release, and what they stand on."""

    def __init__(self, objects: Objects) -> None:
        nodes = objects["StatefulSet", "demo-svc-cluster-node"]["spec"]["replicas"]
        self.nodes = pods_of(objects, "StatefulSet", "demo-svc-cluster-node", nodes)
        self.gateways = pods_of(objects, "Deployment", "demo-svc-cluster-gateway", GATEWAYS)
        (self.backup,) = pods_of(objects, "CronJob", "demo-svc-cluster-backup", 1)
        secret = pods_of(objects, "StatefulSet", "demo-svc-cluster-node", 1)[0]
        (auth,) = [m for m in secret.mounts if m.path == "/secrets/auth"]
        assert auth.files is not None
        self.token = auth.files["root-token"].decode().strip()
        self._clock = SystemClock()

    @property
    def all(self) -> list[Pod]:
        return [*self.nodes, *self.gateways]

    def make(self) -> None:
        """The network, the claims, and what the Secrets hold."""
        docker("network", "create", "--label", LABEL, NETWORK)
        every = [*self.all, self.backup]
        mounts = {m.volume: (m, pod) for pod in every for m in pod.mounts if m.volume}
        for volume in mounts:
            docker("volume", "create", "--label", LABEL, volume)
        content = [_content(mount, pod) for mount, pod in mounts.values()]
        places = [x for v in mounts for x in ("--volume", f"{v}:/volumes/{v}")]
        subprocess.run(
            [
                *("docker", "run", "--rm", "--interactive", "--label", LABEL, "--user", "0:0"),
                *("--network", "none", *places, "--entrypoint", "python3"),
                *(self.nodes[0].image, "-c", FILL),
            ],
            input=json.dumps(content),
            text=True,
            timeout=STEP_S,
            check=True,
        )

    def start(self, pod: Pod) -> None:
        docker("run", "--detach", "--label", LABEL, *pod.run_arguments(NETWORK))

    def facts(self, pod: Pod) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(docker("inspect", pod.name))[0]
        return found

    def differences(self, *some: Pod) -> list[str]:
        """Between what was rendered and what the engine runs, of these or of all that stay."""
        image = json.loads(docker("image", "inspect", self.nodes[0].image))[0]
        chosen = some or self.all
        return [each for pod in chosen for each in differences(pod, self.facts(pod), image)]

    def job(self, pod: Pod) -> tuple[int, str]:
        """Run it to its end: its status, and what it said. Its container is left."""
        self.start(pod)
        return int(docker("wait", pod.name)), self.logs(pod)

    def address(self, pod: Pod) -> str:
        found: str = self.facts(pod)["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]
        return found

    async def wait_ready(self, pod: Pod) -> None:
        """As the kubelet sees to it: the startup probe until it passes, for as often as it may
        fail, then readiness; liveness holds by then. Raises ComposeError."""
        await self._passes(pod, "startup")
        await self._passes(pod, "readiness")
        if not await self.passes_now(pod, "liveness"):
            raise ComposeError(f"{pod.name} is ready and not alive: {self.logs(pod)}")

    async def _passes(self, pod: Pod, kind: str) -> None:
        probe = pod.probes[kind]
        # a pod that is not ready is no fault of the pod, so readiness has as long as a step
        allowed = probe["periodSeconds"] * probe["failureThreshold"]
        end = self._clock.monotonic() + (allowed if kind == "startup" else STEP_S)
        while not await self.passes_now(pod, kind):
            if not self.facts(pod)["State"]["Running"]:
                raise ComposeError(f"{pod.name} has ended: {self.logs(pod)}")
            if self._clock.monotonic() > end:
                raise ComposeError(f"{pod.name}: {kind} does not pass: {self.logs(pod)}")
            await asyncio.sleep(0.2)

    async def passes_now(self, pod: Pod, kind: str) -> bool:
        """One probe: from outside, to the pod's address; its certificate is not looked at."""
        probe = pod.probes[kind]
        http = probe["httpGet"]
        scheme = http.get("scheme", "HTTP").lower()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"{scheme}://{self.address(pod)}:{http['port']}"
        try:
            async with HttpClient(url, context if scheme == "https" else None) as client:
                timeout = float(probe["timeoutSeconds"])
                answer = await client.request("GET", http["path"], timeout_s=timeout)
        except (ConnectionLostError, OSError, ValueError):
            return False
        return 200 <= answer.status < 400

    async def replace(self, pod: Pod) -> None:
        """As a StatefulSet does: the hook, SIGTERM and the rest of the grace, a new container with
        the same name and claim, which is waited for. Raises ComposeError."""
        begun = self._clock.monotonic()
        await asyncio.to_thread(docker, "exec", pod.name, *pod.before_stop)
        left = max(1, int(pod.grace_seconds - (self._clock.monotonic() - begun)))
        await asyncio.to_thread(docker, "stop", "--time", str(left), pod.name)
        status = self.facts(pod)["State"]["ExitCode"]
        if status != 0:
            raise ComposeError(f"{pod.name} ended with {status}: {self.logs(pod)}")
        docker("rm", pod.name)
        self.start(pod)
        await self.wait_ready(pod)

    def logs(self, pod: Pod) -> str:
        done = subprocess.run(
            ["docker", "logs", "--tail", "20", pod.name],
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
        return done.stdout + done.stderr


def _content(mount: Mount, pod: Pod) -> list[Any]:
    files = {name: data.hex() for name, data in (mount.files or {}).items()}
    return [mount.volume, mount.mode, 0, pod.fs_group, files]


def remove() -> None:
    """All that this module makes, also what an earlier run that was killed has left."""
    chosen = ("--quiet", "--filter", f"label={LABEL}")
    if containers := docker("ps", "--all", *chosen).split():
        docker("rm", "--force", "--volumes", *containers)
    if volumes := docker("volume", "ls", *chosen).split():
        docker("volume", "rm", "--force", *volumes)
    if networks := docker("network", "ls", *chosen).split():
        docker("network", "rm", *networks)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """With backups into a claim, and the key for them in a Secret of the operator's."""
    key_file = tmp_path_factory.mktemp("key") / "svc-backup.key"
    make_key(key_file)
    key = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "backup-key"},
        "data": {"svc-backup.key": base64.b64encode(key_file.read_bytes()).decode()},
    }
    asked = {"enabled": True, "existingKeySecret": "backup-key", "existingClaim": "backup-claim"}
    return rendered({"backup": asked, "extraObjects": [key]})


@pytest.fixture(scope="module")
def pods(objects: Objects) -> Iterator[Pods]:
    missing = engine()
    if missing is not None:
        pytest.skip(f"{missing}: the chart's pods were not run")
    made = Pods(objects)
    remove()
    try:
        made.make()
        for pod in made.all:  # podManagementPolicy: Parallel
            made.start(pod)
        yield made
    finally:
        remove()


def test_the_pods_run_as_rendered_and_lose_nothing_in_a_restart(pods: Pods) -> None:
    """No difference between rendered and run; every probe passes; nodes are replaced from the last
    to the first, each ready before the next goes, under appends: each that was acknowledged is
    there, once and in order."""
    for pod in pods.all:
        asyncio.run(pods.wait_ready(pod))
    found = pods.differences()
    print(f"rendered and run: differences: {'; '.join(found) or 'none'}")
    assert found == []
    acknowledged, stored = asyncio.run(restart_under_appends(pods))
    assert pods.differences() == []
    assert len(acknowledged) >= APPENDS_BETWEEN * (1 + len(pods.nodes))
    lost = [each for each in acknowledged if each not in stored]
    assert (lost, [x for x in stored if x in set(acknowledged)]) == ([], acknowledged)


def test_the_job_for_backups_takes_one_each_time_it_is_run(pods: Pods) -> None:
    """As rendered, without a difference: the second one goes on in the same claim, with the key
    that the Secret has."""
    for number in (1, 2):
        status, said = pods.job(pods.backup)
        assert status == 0, said
        assert f"backup {number} of storage-demo-svc-cluster in /backups/main" in said
        assert pods.differences(pods.backup) == []
        docker("rm", pods.backup.name)


async def restart_under_appends(pods: Pods) -> tuple[list[str], list[str]]:
    """What was acknowledged, and all that is stored in the end."""
    headers = {"authorization": f"Bearer {pods.token}", "content-type": "application/json"}
    acknowledged: list[str] = []
    urls = [f"http://{pods.address(gateway)}:8080" for gateway in pods.gateways]

    async def ask(url: str, method: str, path: str, body: Any = None) -> HttpResponse | None:
        data = b"" if body is None else json.dumps(body).encode()
        named = headers | {"svc-basin": BASIN, "svc-format": "utf8"}
        try:
            async with HttpClient(url) as client:
                return await client.request(method, path, named, data)
        except ConnectionLostError:
            return None

    async def made(path: str, body: Any) -> None:
        async with asyncio.timeout(STEP_S):
            while (answer := await ask(urls[0], "POST", path, body)) is None or (
                answer.status not in (201, 409)
            ):
                await asyncio.sleep(0.2)

    async def append_for_ever() -> None:
        number = 0
        while True:
            number += 1
            body = {"records": [{"body": f"r-{number}"}]}
            path = "/v1/streams/s/records"
            answer = await ask(urls[number % len(urls)], "POST", path, body)
            if answer is not None and answer.status == 200:
                acknowledged.append(f"r-{number}")
            await asyncio.sleep(0.02)

    async def progress() -> None:
        wanted = len(acknowledged) + APPENDS_BETWEEN
        async with asyncio.timeout(STEP_S):
            while len(acknowledged) < wanted:
                await asyncio.sleep(0.1)

    await made("/v1/basins", {"basin": BASIN})
    await made("/v1/streams", {"stream": "s"})
    load = asyncio.ensure_future(append_for_ever())
    try:
        await progress()
        for pod in reversed(pods.nodes):
            await pods.replace(pod)
            await progress()
    finally:
        load.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await load
    stored: list[str] = []
    while True:
        path = f"/v1/streams/s/records?seq_num={len(stored)}&count=1000"
        answer = await ask(urls[0], "GET", path)
        assert answer is not None and answer.status in (200, 416), answer
        records = answer.json().get("records", []) if answer.status == 200 else []
        if not records:
            return acknowledged, stored
        stored += [record["body"] for record in records]


def test_a_field_that_nobody_knows_is_found(objects: Objects) -> None:
    """Of a pod, of its container, and of both their rights."""
    places: list[tuple[str, ...]] = [
        ("hostNetwork",),
        ("securityContext", "supplementalGroups"),
        ("containers", "stdin"),
        ("containers", "securityContext", "privileged"),
    ]
    for *way, name in places:
        written = copy.deepcopy(objects)
        place = written["StatefulSet", "demo-svc-cluster-node"]["spec"]["template"]["spec"]
        for step in way:
            place = place["containers"][0] if step == "containers" else place[step]
        place[name] = True
        with pytest.raises(ValueError, match=name):
            pods_of(written, "StatefulSet", "demo-svc-cluster-node", 1)


def test_a_difference_is_named(objects: Objects, tmp_path: Path) -> None:
    """Each thing that is compared, by a container that has something else."""
    (pod,) = pods_of(objects, "StatefulSet", "demo-svc-cluster-node", 1)
    image = {"Config": {"Entrypoint": ["python3"], "Env": ["PATH=/bin"]}}
    facts = _facts(pod)
    assert differences(pod, facts, image) == []
    planted: list[tuple[tuple[str, ...], Any]] = [
        (("Config", "Cmd"), ["-c", "exec sleep 1"]),
        (("Config", "Env"), ["PATH=/bin"]),
        (("Config", "Image"), "another"),
        (("Config", "Hostname"), "another"),
        (("Config", "User"), "0:0"),
        (("HostConfig", "GroupAdd"), []),
        (("HostConfig", "ReadonlyRootfs"), False),
        (("HostConfig", "CapDrop"), []),
        (("HostConfig", "SecurityOpt"), None),
        (("HostConfig", "Memory"), 0),
        (("HostConfig", "CpuShares"), 0),
        (("HostConfig", "Tmpfs"), {}),
        (("Mounts",), []),
        (("NetworkSettings", "Networks"), {}),
    ]
    for path, value in planted:
        other = copy.deepcopy(facts)
        place = other
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        assert len(differences(pod, other, image)) == 1, path


def _facts(pod: Pod) -> dict[str, Any]:
    """What the engine says of a container that is as rendered."""
    assert pod.entrypoint is not None
    return {
        "Id": "0" * 64,
        "Name": f"/{pod.name}",
        "Config": {
            "Entrypoint": pod.entrypoint[:1],
            "Cmd": [*pod.entrypoint[1:], *pod.arguments],
            "Env": ["PATH=/bin", *(f"{k}={v}" for k, v in pod.environment.items())],
            "Image": pod.image,
            "Hostname": pod.name,
            "User": f"{pod.user}:{pod.group}",
        },
        "HostConfig": {
            "GroupAdd": [str(pod.fs_group)],
            "ReadonlyRootfs": True,
            "CapDrop": pod.dropped,
            "SecurityOpt": ["no-new-privileges:true"],
            "Memory": pod.memory,
            "CpuShares": pod.cpu_shares,
            "Tmpfs": {m.path: "" for m in pod.mounts if m.size is not None},
        },
        "Mounts": [
            {"Destination": m.path, "Name": m.volume, "RW": not m.is_read_only}
            for m in pod.mounts
            if m.size is None
        ],
        "NetworkSettings": {"Networks": {"n": {"Aliases": [*pod.host_names, "0" * 12]}}},
    }
