"""Clusters for the tests: real processes in a temporary directory, always ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.load import StreamWriter, TailWatcher, Verdict

READY_S = 40.0


@contextlib.asynccontextmanager
async def running(
    directory: Path,
    *,
    nodes: int = 3,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[OwnCluster]:
    """A ready cluster; its log is shown when the test fails inside."""
    cluster = OwnCluster(directory, nodes=nodes, options=options, environment=environment)
    cluster.start()
    try:
        await cluster.wait_ready(READY_S)
        yield cluster
    except BaseException:
        print(cluster.log_tail(120))
        raise
    finally:
        cluster.end()


async def whole(cluster: OwnCluster, basin: str, nodes: int, deadline_s: float = 30.0) -> None:
    """Until every node's replica of the basin follows one leader and has applied some of it."""
    async with asyncio.timeout(deadline_s):
        while True:
            groups = [
                group
                for found in (await cluster.groups()).values()
                for group in found
                if group["basin"] == basin
            ]
            leaders = {group["leader"] for group in groups}
            applied = [group["applied_index"] for group in groups]
            if len(groups) == nodes and len(leaders) == 1 and None not in leaders and min(applied):
                return
            await asyncio.sleep(0.05)


async def same_applied(
    cluster: OwnCluster, basin: str, nodes: int, deadline_s: float = 30.0
) -> None:
    """Until every node's replica of a basin to which nobody writes has applied the same."""
    async with asyncio.timeout(deadline_s):
        while True:
            found = (await cluster.groups()).values()
            applied = [
                group["applied_index"]
                for groups in found
                for group in groups
                if group["basin"] == basin
            ]
            if len(applied) == nodes and len({*applied}) == 1 and applied[0]:
                return
            await asyncio.sleep(0.05)


class Load:
    """Writers and tail watchers of one basin, as background tasks."""

    def __init__(self, url: str, basin: str, *, writers: int, seed: int = 0) -> None:
        self.writers = [
            StreamWriter(url, basin, f"stream-{number}", seed=seed) for number in range(writers)
        ]
        self.watchers = [TailWatcher(writer) for writer in self.writers]
        self._actors: list[StreamWriter | TailWatcher] = [*self.writers, *self.watchers]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for actor in self._actors:
            actor.stopping = False
            self._tasks.append(asyncio.create_task(actor.run()))

    async def stop(self) -> None:
        """Stop, and fail on what any of them saw that may not be."""
        for actor in self._actors:
            actor.stopping = True
        await asyncio.gather(*self._tasks)
        self._tasks = []
        violations = [v for actor in self._actors for v in actor.violations]
        assert not violations, violations

    async def acknowledged(self, more: int, deadline_s: float = 20.0) -> None:
        """Until `more` appends of every writer have been acknowledged from now on."""
        goals = [len(writer.outcomes) + more for writer in self.writers]
        async with asyncio.timeout(deadline_s):
            while any(len(w.outcomes) < goal for w, goal in zip(self.writers, goals, strict=True)):
                await asyncio.sleep(0.01)

    def first_success_after(self, moment: float) -> float | None:
        """When the first append that was begun after `moment` was known to have happened."""
        known = [
            outcome.known
            for writer in self.writers
            for outcome in reversed(writer.outcomes[-2000:])
            if outcome.begun > moment
        ]
        return min(known, default=None)

    async def verify(self) -> Verdict:
        total = Verdict()
        for writer in self.writers:
            total += await writer.verify()
        return total

    @property
    def ambiguous(self) -> int:
        return sum(writer.ambiguous for writer in self.writers)

    def errors(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for writer in self.writers:
            for name, count in writer.errors.items():
                total[name] = total.get(name, 0) + count
        return total


def rounds(variable: str, default: int) -> int:
    """How often to repeat a test: by environment for long runs, few in the suite."""
    return int(os.environ.get(variable, default))


class SameCommand:
    """The command of a running process, to be run once more, without its supervisor's pipe."""

    def __init__(self, pid: int) -> None:
        process = Path(f"/proc/{pid}")
        arguments = process.joinpath("cmdline").read_bytes().split(b"\0")[:-1]
        self.command = [os.fsdecode(argument) for argument in arguments]
        pairs = process.joinpath("environ").read_bytes().split(b"\0")
        self.environment = dict(os.fsdecode(pair).partition("=")[::2] for pair in pairs if pair)
        self.environment.pop("SVC_CLUSTER_SUPERVISOR_FD", None)

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def refusal(self, deadline_s: float = 20.0) -> tuple[int, str]:
        """Run it and expect it to end: its exit status, and the last line it printed on stderr."""
        process = self.start()
        try:
            _, text = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            _, text = process.communicate()
            raise AssertionError(f"the node started instead of refusing:\n{text}") from None
        lines = text.strip().splitlines()
        return process.returncode, lines[-1] if lines else ""


def logs(cluster: OwnCluster) -> list[Path]:
    """What the processes print for people: a power cut in a test spares it."""
    return sorted(cluster.directory.glob("*.log"))
