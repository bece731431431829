"""The whole service as containers, under load and faults: nothing acknowledged is missing, judged
by the linearizability checker. Skipped, and said so, where no container engine answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.chaos.api import ChaosApi
from tests.chaos.recorder import ChaosRecorder
from tests.containers.compose import (
    DECLARED,
    GATEWAYS,
    NODES,
    TOKEN_FILE,
    Compose,
    docker,
)
from tests.linearizability.checker import check
from tests.linearizability.history import Outcome, SeenRecord
from tests.simulation.workload import (
    Client,
    NoEffectError,
    UnknownOutcomeError,
    WorkloadOptions,
)

BASIN = "compose-basin"
STEP_S = 180.0
"""How long the service may need to acknowledge again after a fault, on a slow machine."""
ACKED_MIN = 150
LATE_S = 6.0
"""Longer than a gateway waits: nothing sent before it can take effect any more."""

pytestmark = pytest.mark.timeout(1200)


def test_containers_are_confined(cluster: Compose) -> None:
    """No root, no writable root file system, no capability, and no peer port on the host."""
    for service in (*NODES, *GATEWAYS, "front"):
        facts = cluster.describe(service)
        assert facts["Config"]["User"] == "65532:65532"
        assert facts["HostConfig"]["ReadonlyRootfs"]
        assert facts["HostConfig"]["CapDrop"] == ["ALL"]
        published = [port for port, on in facts["NetworkSettings"]["Ports"].items() if on]
        assert "7000/tcp" not in published


def test_each_container_has_its_own_key_and_nobody_has_that_of_the_ca(cluster: Compose) -> None:
    """A process sees its certificate, or that of its role, its key and what all share; the key that
    signs is mounted nowhere but in the service that has ended."""
    keys = set()
    for service in (*NODES, *GATEWAYS):
        files = docker("exec", cluster.container(service), "find", "/pki", "-type", "f").split()
        wanted = {"/pki/tls.crt", "/pki/tls.key", "/pki/ca.crt", "/pki/cluster.secret"}
        assert {*files} == wanted | ({"/pki/root-token"} if service in NODES else set())
        keys.add(cluster.read_file(service, "/pki/tls.key"))
        mounted = cluster.describe(service)["Mounts"]
        mounts = {mount["Name"].rpartition("_")[2] for mount in mounted if "Name" in mount}
        assert mounts.isdisjoint({"ca", "pki"})
    assert len(keys) == len(NODES) + 1


def test_backups_are_taken_while_the_profile_runs(cluster: Compose) -> None:
    """The first one at once, into a volume, sealed with a key in another one; it is whole, and a
    container that is started again does not take the next one before its time."""
    cluster.run("--profile", "backup", "up", "--detach", "--no-build", "--no-deps", "backup")
    command = ("python3", "-m", "svc_cluster", "backup")
    try:
        said = asyncio.run(cluster.wait_said("backup", "backup 1 of compose in /backups/main"))
        assert "/key/svc-backup.key was made" in said
        container = cluster.container("backup")
        docker("restart", "--time", "1", container)
        assert ": whole" in docker("exec", container, *command, "verify")
        listed = docker("exec", container, *command, "list")
        assert (listed.startswith("1  "), "\n2  " in listed) == (True, False)
        assert f"   {DECLARED}  index " in listed
    finally:
        cluster.run("--profile", "backup", "rm", "--stop", "--force", "backup")


def test_requests_need_a_token(cluster: Compose) -> None:
    """Beyond loopback the gateway asks for tokens by itself, and takes the one that was made."""

    async def ask() -> list[int]:
        token = cluster.read_file("svc-0", "/pki/root-token").strip()
        out = []
        for given in (None, "svct_wrong", token):
            api = ChaosApi(cluster.url, given)
            status, _ = await api.ask("GET", "/v1/basins")
            out.append(status)
            api.close()
        return out

    assert asyncio.run(ask()) == [401, 401, 200]


def test_what_is_declared_is_there_from_the_start(cluster: Compose) -> None:
    """Basin, stream and token of the init file, of which the secret stands in a file beside it."""
    secret = (Path(cluster.declared.name) / TOKEN_FILE).read_text()

    async def ask() -> tuple[int, list[str]]:
        api = ChaosApi(cluster.url, secret)
        status, body = await api.ask("GET", "/v1/streams", basin=DECLARED)
        api.close()
        return status, [each["name"] for each in body["streams"]]

    assert asyncio.run(ask()) == (200, ["from-the-start"])


class Load:
    """Clients that append and read until they are stopped, and what came of it."""

    def __init__(self, compose: Compose, token: str, stream: str = "s") -> None:
        """`stream`: one that no other load of the same cluster has, or the checker finds records
        that nobody appended."""
        self.compose = compose
        self.stream = stream
        self.rng = random.Random("containers")
        self.recorder = ChaosRecorder(1)
        self.apis = [ChaosApi(compose.url, token)]
        self.history = self.recorder.stream(BASIN, stream)
        self._clients: list[Client] = []
        self._running: list[asyncio.Future[None]] = []

    async def set_up(self) -> None:
        await self.insist(lambda: self.apis[0].create_basin(BASIN))
        await self.insist(lambda: self.apis[0].create_stream(BASIN, self.stream))

    async def insist(self, call: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.timeout(STEP_S):
            while True:
                try:
                    await call()
                except (NoEffectError, UnknownOutcomeError):
                    await asyncio.sleep(0.2)
                else:
                    return

    def start(self) -> None:
        options = WorkloadOptions(
            think_s=0.02,
            batch_max=5,
            padding_max=100,
            read_share=0.25,
            tail_share=0.1,
            trim_share=0.0,
            event_streams=False,
        )
        for number in range(4):
            client = Client(self.recorder, self.apis, options, random.Random(f"load {number}"))
            self._clients.append(client)
            self._running.append(asyncio.ensure_future(client.run()))

    async def progress(self, appends: int = 20) -> None:
        """Until that many more appends are acknowledged. Raises TimeoutError."""
        wanted = self.recorder.counts.acked + appends
        async with asyncio.timeout(STEP_S):
            while self.recorder.counts.acked < wanted:
                for part in self._running:
                    if part.done():
                        part.result()
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        for client in self._clients:
            client.stopping = True
        await asyncio.wait(self._running, timeout=STEP_S)
        for part in self._running:
            part.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for api in self.apis:
            api.close()

    async def judge(self) -> list[str]:
        """What the checker finds in the history, against everything that is stored."""
        client = self.recorder.new_client()

        async def barrier() -> None:
            items = self.recorder.items(self.rng, client, 1, 0)
            append = await self.recorder.append(self.apis[0], self.history, client, items)
            if append.outcome is not Outcome.OK:
                raise NoEffectError("not yet")

        await asyncio.sleep(LATE_S)
        await self.insist(barrier)
        found: list[SeenRecord] = []

        async def more() -> None:
            while True:
                answer = await self.apis[0].read(BASIN, self.stream, len(found), 1000)
                found.extend(answer.records)
                if len(found) >= answer.tail:
                    return

        await self.insist(more)
        verdict = check(self.history.operations, found)
        assert len(found) > ACKED_MIN, "the load was too small to say anything"
        return [str(violation)[:600] for violation in verdict.violations]


def test_nothing_acknowledged_is_missing_after_faults_of_containers(cluster: Compose) -> None:
    """Under load: kill -9 of each node in turn, so of every leader too, and its return with its
    volume; a node cut off from the network and back; a restart; stop and start of everything. The
    service goes on each time, and the history is linearizable."""

    async def play() -> list[str]:
        token = cluster.read_file("svc-0", "/pki/root-token").strip()
        load = Load(cluster, token)
        await load.set_up()
        load.start()
        try:
            await load.progress()
            for node in NODES:
                await asyncio.to_thread(cluster.kill, node)
                await load.progress()
                await asyncio.to_thread(cluster.start, node)
                await load.progress()
            await asyncio.to_thread(cluster.disconnect, NODES[1])
            await load.progress()
            await asyncio.to_thread(cluster.connect, NODES[1])
            await load.progress()
            await asyncio.to_thread(docker, "restart", "--time", "20", cluster.container(NODES[2]))
            await load.progress()
            await asyncio.to_thread(cluster.run, "stop")
            await asyncio.to_thread(cluster.run, "start")
            await load.progress()
            await load.stop()
            return await load.judge()
        finally:
            await load.stop()

    assert asyncio.run(play()) == []
