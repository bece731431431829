"""A gateway of three processes on one port: who ends comes back, and what all have counted is told
as one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from svc_cluster.http.client import HttpClient
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.settings_errors import EXIT_ADDRESS, EXIT_CONFIGURATION, EXIT_MISSING_FILE
from tests.integration.gateway_groups import JSON, SECONDS, Clients, Group, lives, running, until
from tests.integration.impatient_gateway import SILENCE_SECONDS
from tests.integration.processes import READY_S, in_loop

PROCESSES: Final = 3
ENDED: Final = "gateway_process_ended"
HUNG: Final = "gateway_process_hung"
LIST: Final = 'svc_http_requests_total{code="200",method="GET",route="/v1/basins"}'


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OwnCluster, str]]:
    """One node, and the secret of the root token."""
    place = tmp_path_factory.mktemp("processes")
    token = place / "root-token"
    own = OwnCluster(place / "data", nodes=1, options=["--auth", "--root-token-file", str(token)])
    own.start()
    try:
        asyncio.run(own.wait_ready(READY_S))
        yield own, token.read_text().strip()
    finally:
        own.end()


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a short name: sockets lie in it."""
    return tmp_path_factory.mktemp("g")


@in_loop
async def test_requests_are_spread_and_counted_exactly(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """Several processes answer; whichever is asked tells the requests of all, to the last one, and
    which are theirs: their log lines, their directory, readiness. Nobody else may take the port."""
    own, token = scene
    async with running(Group(own, place / "spread", PROCESSES)) as group:
        clients = Clients(group.url, token)
        for _ in range(20):
            await asyncio.gather(*(clients.ask("/v1/basins") for _ in range(10)))
        assert (clients.failures, clients.answered) == ([], 200)
        for _ in range(2 * PROCESSES):
            samples = await group.samples()
            assert samples[LIST] == 200
            assert samples["svc_gateway_processes"] == PROCESSES
            starts = [key for key in samples if key.startswith("process_start_time_seconds{")]
            assert len(starts) == PROCESSES
        pages = [*group.directory.glob("*/*.page-1")]
        texts = [page.read_text() for page in pages]
        counts = [[line for line in text.split("\n") if line.startswith(LIST)] for text in texts]
        assert len(pages) == PROCESSES
        assert sum(bool(lines) for lines in counts) > 1, "one process has answered all"
        (directory,) = group.directory.iterdir()
        assert directory.stat().st_mode & 0o777 == 0o700
        assert sorted(group.pids()) == [1, 2, 3]
        second = group.parent()
        second.start()
        assert second.end(SECONDS) == EXIT_ADDRESS
    assert [*group.directory.iterdir()] == []


@in_loop
async def test_a_process_that_is_killed_comes_back_and_nobody_fails(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """Each in turn by SIGKILL, then one by SIGTERM, while clients go on, each over a new connection
    for each request. What was counted by those that are gone is counted on, to the last request
    where nobody asks meanwhile."""
    own, token = scene
    async with running(Group(own, place / "killed", PROCESSES)) as group:
        clients = Clients(group.url, token)
        seen = 0.0
        async with clients.going_on(8, "/v1/basins"):
            for number, how in ((1, signal.SIGKILL), (2, signal.SIGKILL), (3, signal.SIGTERM)):
                await clients.answers(100)
                samples = await group.samples()
                assert samples[LIST] >= seen
                seen = samples[LIST]
                await _end(group, number, how)
            await clients.answers(100)
        assert clients.failures == []
        counted = (await group.samples())[LIST]
        assert counted >= seen
        for number in range(1, PROCESSES + 1):
            await _end(group, number, signal.SIGKILL)
            assert (await group.samples())[LIST] == counted
        ends = [(line["process"], line["exit_status"]) for line in group.lines(ENDED)]
        assert ends == [
            *((1, -signal.SIGKILL), (2, -signal.SIGKILL), (3, 0)),
            *((number, -signal.SIGKILL) for number in range(1, PROCESSES + 1)),
        ]


async def _end(group: Group, number: int, how: signal.Signals) -> None:
    """Return once another process serves in its place."""
    before = group.pids()[number]
    os.kill(before, how)
    await until(lambda: group.pids()[number] != before)
    await group.ready()


@in_loop
async def test_a_process_that_hangs_is_killed_and_comes_back(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """SIGSTOP is what a loop that does not turn looks like from outside. One line says why, the
    others go on as they are, and the whole is stopped in order."""
    own, token = scene
    group = Group(own, place / "hung", PROCESSES)
    group.process = group.impatient()
    async with running(group):
        before = group.pids()
        os.kill(before[2], signal.SIGSTOP)
        try:
            await until(lambda: group.pids()[2] != before[2])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(before[2], signal.SIGCONT)
        await group.ready()
        assert not lives(before[2])
        assert group.pids() == before | {2: group.pids()[2]}
        hung = [(line["process"], line["silent_s"]) for line in group.lines(HUNG)]
        assert hung == [(2, SILENCE_SECONDS)]
        ends = [(line["process"], line["exit_status"]) for line in group.lines(ENDED)]
        assert ends == [(2, -signal.SIGKILL)]
        clients = Clients(group.url, token)
        await asyncio.gather(*(clients.ask("/v1/basins") for _ in range(10)))
        assert (clients.failures, clients.answered) == ([], 10)


@in_loop
async def test_a_stop_lets_each_process_finish_what_it_has_begun(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """Followers of a stream over several connections, and so over several processes, are told that
    the server stops; a request under way is answered; then all have ended with status 0."""
    own, token = scene
    headers = JSON | {"authorization": f"Bearer {token}"}
    group = Group(own, place / "stopped", PROCESSES, drain_seconds=2.0)
    with group.process as parent:
        await group.ready()
        async with HttpClient(group.url) as client:
            made = await client.request(
                "POST", "/v1/basins", headers, b'{"basin":"stop-basin"}', timeout_s=SECONDS
            )
            assert made.status in (201, 409)
            held = [HttpClient(group.url) for _ in range(12)]
            for each in held:
                answer = await each.request("GET", "/v1/basins", headers, timeout_s=SECONDS)
                assert answer.status == 200
            pids = [*group.pids().values()]
            parent.tell(signal.SIGTERM)
            # connections that are open are served until their next answer
            answers = await asyncio.gather(
                *(each.request("GET", "/v1/basins", headers, timeout_s=SECONDS) for each in held)
            )
            assert [answer.status for answer in answers] == [200] * len(held)
            for each in held:
                each.close()
        assert await asyncio.to_thread(parent.end) == 0
    assert not any(map(lives, pids))
    assert [*group.directory.iterdir()] == []


@in_loop
async def test_a_killed_parent_leaves_no_process(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """They see its end, finish, and take their directory away."""
    own, _ = scene
    group = Group(own, place / "orphans", PROCESSES)
    group.process.start()
    try:
        await group.ready()
        pids = [*group.pids().values()]
        assert all(map(lives, pids))
    finally:
        group.process.kill()
    await until(lambda: not any(map(lives, pids)))
    assert [*group.directory.rglob("*")] == [], group.process.said()


@in_loop
async def test_a_directory_that_somebody_removes_is_made_again(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """As cleaners of old files do: the whole, and then the sockets alone. The processes find each
    other again, none is started anew, and what each has counted outlives it as before."""
    own, token = scene
    async with running(Group(own, place / "cleaned", PROCESSES)) as group:
        before = group.pids()
        clients = Clients(group.url, token)
        await asyncio.gather(*(clients.ask("/v1/basins") for _ in range(20)))
        (directory,) = group.directory.iterdir()
        shutil.rmtree(directory)
        await until(lambda: len([*directory.glob("*.sock")]) == PROCESSES)
        await group.ready()
        assert directory.stat().st_mode & 0o777 == 0o700
        for path in directory.glob("*.sock"):
            path.unlink()
        await until(lambda: len([*directory.glob("*.sock")]) == PROCESSES)
        await group.ready()
        assert group.pids() == before
        assert (await group.samples())[LIST] == 20
        os.kill(before[1], signal.SIGKILL)
        await until(lambda: group.pids()[1] != before[1])
        await group.ready()
        assert (await group.samples())[LIST] == 20
    assert [*group.directory.iterdir()] == []


@in_loop
async def test_what_a_group_leaves_that_was_killed_the_next_one_removes(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """None of its processes could do it. The directory of a group that lives beside is left."""
    own, _ = scene
    group = Group(own, place / "killed-all", PROCESSES)
    group.process.start()
    try:
        await group.ready()
        pids = [*group.pids().values()]
        (left,) = group.directory.iterdir()
    finally:
        # its processes do not come to see its end
        for pid in group.pids().values():
            os.kill(pid, signal.SIGSTOP)
        group.process.kill()
        for pid in group.pids().values():
            os.kill(pid, signal.SIGKILL)
    await until(lambda: not any(map(lives, pids)))
    assert left.exists()
    async with running(group):
        assert [each == left for each in group.directory.iterdir()] == [False]
        (directory,) = group.directory.iterdir()
        beside = Group(own, place / "beside", 2)
        beside.directory.rmdir()
        beside.directory.symlink_to(group.directory)
        async with running(beside):
            assert len([*group.directory.iterdir()]) == 2
            await group.ready()
        assert [*group.directory.iterdir()] == [directory]
    assert [*group.directory.iterdir()] == []


@in_loop
async def test_every_process_reads_its_settings_again(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """SIGHUP to the parent reaches all, and each takes its part of what is divided."""
    own, _ = scene
    async with running(Group(own, place / "reload", PROCESSES)) as group:
        with group.config.open("a") as config:
            config.write("request_log_lines_per_second_max: 300\n")
        group.process.tell(signal.SIGHUP)
        await until(lambda: len(group.lines("settings_reloaded")) == PROCESSES)
        lines = group.lines("settings_reloaded")
        assert sorted(line["process"] for line in lines) == [1, 2, 3]
        change = {"setting": "request_log_lines_per_second_max", "from": 333, "to": 100}
        assert [line["changes"] for line in lines] == [[change]] * PROCESSES


def test_a_group_that_cannot_start_ends_with_the_status_of_its_processes(
    scene: tuple[OwnCluster, str], place: Path
) -> None:
    """A missing file, a busy port, parts that are too small: each by its own status, soon."""
    own, _ = scene
    cases: list[tuple[int, dict[str, Any]]] = [
        (EXIT_MISSING_FILE, {"secret_file": str(place / "none")}),
        (EXIT_CONFIGURATION, {"memory_mib": 100}),
    ]
    for status, changes in cases:
        group = Group(own, place / f"refused-{status}", PROCESSES, **changes)
        group.process.start()
        assert group.process.end(SECONDS) == status, group.process.said()
        assert [*group.directory.iterdir()] == []
    group = Group(own, place / "busy", PROCESSES)
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        busy.bind(("127.0.0.1", group.port))
        busy.listen()
        group.process.start()
        assert group.process.end(SECONDS) == EXIT_ADDRESS
