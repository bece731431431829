"""A backup that is taken under load and kills, and restored: a prefix of what was acknowledged.

The checker of histories judges both lives (tests/linearizability/restored.py). Each participant is
killed at random moments; what was cut off is repeated as it was.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.chaos.api import ChaosApi
from tests.chaos.recorder import ChaosRecorder
from tests.chaos.rounds import LATE_S
from tests.e2e.cluster import running
from tests.e2e.load import set_up
from tests.integration.bucket_server import MortalStore, environment, s3s_command
from tests.integration.test_backup import END_S, KILLS, NODES, command, configured, told
from tests.linearizability.history import Outcome, SeenRecord
from tests.linearizability.restored import Backup, Life, judge
from tests.simulation.api import NoEffectError, UnknownOutcomeError
from tests.simulation.workload import Client, StreamHistory, WorkloadOptions

BASIN, STREAM = "kept-basin", "history"
FIRST_NODES = int(os.environ.get("BACKUP_HISTORY_NODES", "3"))
OPTIONS = WorkloadOptions(
    think_s=0.1, batch_max=10, padding_max=2_000, read_share=0.25, follow=False, session_share=0.1
)
CLIENTS = 4
SURE_S = 60.0
KILL_S = 60
"""What one kill may add: a mark counts for more than the command line's timeout."""


async def insist(call: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SURE_S):
        while not await call():
            await asyncio.sleep(0.05)


@dataclass(slots=True)
class Scene:
    """One life of the stream: a cluster, its clients, and what they saw."""

    cluster: OwnCluster
    rng: random.Random
    recorder: ChaosRecorder
    api: ChaosApi = field(init=False)
    history: StreamHistory = field(init=False)
    clients: list[Client] = field(default_factory=list)
    load: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api = ChaosApi(self.cluster.url)
        self.history = self.recorder.stream(BASIN, STREAM)

    def begin(self) -> None:
        for _ in range(CLIENTS):
            client = Client(self.recorder, [self.api], OPTIONS, random.Random(self.rng.random()))
            self.clients.append(client)
            self.load.append(asyncio.create_task(client.run()))

    async def grown(self, more: int) -> None:
        """Until so many more appends were acknowledged."""
        wanted = self.recorder.counts.acked + more

        async def is_there() -> bool:
            for task in self.load:
                if task.done():
                    task.result()
            return self.recorder.counts.acked >= wanted

        await insist(is_there)

    async def end(self) -> Life:
        """Let clients come to their end, and what is late arrive; returns what all of them saw."""
        for client in self.clients:
            client.stopping = True
        async with asyncio.timeout(SURE_S):
            await asyncio.gather(*self.load)
        await self.cluster.wait_ready(SURE_S)
        if self.recorder.unknown:
            await asyncio.sleep(LATE_S)
        last = self.recorder.new_client()

        async def barrier() -> bool:
            items = self.recorder.items(self.rng, last, 1, 0)
            append = await self.recorder.append(self.api, self.history, last, items)
            return append.outcome is Outcome.OK

        await insist(barrier)
        final = await self.read()
        self.api.close()
        return Life(tuple(self.history.operations), final)

    async def read(self) -> tuple[SeenRecord, ...]:
        found: list[SeenRecord] = []

        async def more() -> bool:
            try:
                answer = await self.api.read(BASIN, STREAM, len(found), 1000)
            except (NoEffectError, UnknownOutcomeError):
                return False
            found.extend(answer.records)
            return len(found) >= answer.tail

        await insist(more)
        return tuple(found)


@dataclass(slots=True)
class Kills:
    """Who was killed while something was done that is repeated until it is done."""

    rng: random.Random
    left: int
    store: MortalStore | None = None
    victims: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)
    """What commands said that did not come to their end by themselves."""

    async def until_done(
        self,
        cluster: OwnCluster | None,
        *arguments: str,
        moment: Callable[[], int] = lambda: 0,
    ) -> int:
        """Repeat the command as it is. It ends by SIGKILL, or well, or with one sentence. Returns
        the `moment` before the attempt that came to its end unharmed."""
        while True:
            began = moment()
            process = command(*arguments)
            ended = asyncio.create_task(asyncio.to_thread(process.communicate))
            kills = self.left > 0
            if kills:
                self.left -= 1
                await asyncio.wait([ended], timeout=self.rng.uniform(0.1, 3.0))
                await self._kill(cluster, process.pid if process.poll() is None else 0)
            async with asyncio.timeout(END_S):
                said, _ = await ended
            if process.returncode == 0 and (cluster is None or not kills):
                return began  # a restore is made once; another backup is wanted that is unharmed
            assert "Traceback" not in said, said
            if process.returncode not in (0, -signal.SIGKILL):
                assert process.returncode == 1, said
                assert said.strip(), "it says what is missing"
                self.cut_off.append(said.strip().splitlines()[-1])
            if cluster is not None:
                await cluster.wait_ready(SURE_S)

    async def _kill(self, cluster: OwnCluster | None, pid: int) -> None:
        kinds = ["command"] if cluster is None else ["command", "node", "gateway"]
        kinds += [] if self.store is None else ["store"]
        victim = self.rng.choice(kinds)
        if victim == "store" and self.store is not None:
            self.victims.append(victim)
            self.store.kill()
            await asyncio.sleep(self.rng.uniform(0.0, 1.0))
            self.store.start()
            return
        if victim == "node" and cluster is not None:
            row = self.rng.choice(cluster.file()["nodes"])
            pid = int(row["pid"])
        elif victim == "gateway" and cluster is not None:
            pid = int(cluster.file()["gateway"]["pid"])
        if pid > 0:
            self.victims.append(victim)
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=["directory", "bucket"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, MortalStore | None]]:
    """Where backups are kept, and who keeps them, if that can be killed."""
    if request.param == "directory":
        yield str(tmp_path / "backups"), None
        return
    if s3s_command() is None:
        pytest.skip("the crate s3s-fs is not here (S3S_FS=PATH): moto keeps nothing over a kill")
    (tmp_path / "store").mkdir()
    store = MortalStore("kept", tmp_path / "store")
    for name, value in environment(store.url).items():
        monkeypatch.setenv(name, value)
    yield "s3://kept/some/folder", store
    store.kill()


@pytest.mark.timeout(900 + KILL_S * KILLS)
def test_a_restore_of_a_backup_under_kills_is_a_prefix_of_what_was_acknowledged(
    tmp_path: Path, place: tuple[str, MortalStore | None]
) -> None:
    """Command, nodes, gateway and store are killed while clients append and a backup is taken; then
    restores and store, on another number of nodes. Both lives are one history without a fault."""
    rng = random.Random(int(os.environ.get("BACKUP_SEED", "29")))
    at, store = place
    rest = ["--at", at, "--key-file", str(tmp_path / "key")]
    kills = Kills(rng, KILLS // 2, store)

    async def first_life() -> tuple[Life, int, int]:
        directory = tmp_path / "first"
        async with running(directory, nodes=FIRST_NODES) as cluster:
            await set_up(cluster.url, BASIN, [STREAM])
            scene = Scene(cluster, rng, ChaosRecorder(1))
            scene.begin()
            await scene.grown(30)
            create = ["create", "--data-dir", str(directory), *rest]
            await kills.until_done(cluster, *create)
            await scene.grown(10)
            kills.left = KILLS - KILLS // 2
            moment = scene.recorder.moment
            began = await kills.until_done(cluster, *create, moment=moment)
            ended = moment()
            await scene.grown(20)
            return await scene.end(), began, ended

    async def second_life() -> tuple[tuple[SeenRecord, ...], Life]:
        directory = tmp_path / "second"
        await configured(directory, NODES[1])
        restores = Kills(rng, KILLS, store)
        for node in range(1, NODES[1] + 1):
            shutil.rmtree(directory / f"node-{node}")
            await restores.until_done(
                None, "restore", "--config", str(directory / f"node-{node}.yaml"), *rest
            )
        kills.victims += [f"restore: {victim}" for victim in restores.victims]
        kills.cut_off += restores.cut_off
        async with running(directory, nodes=NODES[1]) as cluster:
            scene = Scene(cluster, rng, ChaosRecorder(2))
            kept = await scene.read()
            scene.begin()
            await scene.grown(20)
            return kept, await scene.end()

    first, began, ended = asyncio.run(first_life())
    assert "whole" in told("verify", *rest)
    shutil.rmtree(tmp_path / "first")
    kept, second = asyncio.run(second_life())
    assert 0 < len(kept) < len(first.final), "it was taken on the way"
    faults = judge(first, Backup(began, ended, kept), second)
    assert not faults, "\n".join(faults[:10])
    print(f"\n{len(kept)} of {len(first.final)} records restored; killed: {kills.victims}")
    print("\n".join(sorted(set(kills.cut_off))))
