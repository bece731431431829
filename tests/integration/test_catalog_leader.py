"""The process that leads the catalog is restarted, and is killed, and so is the gateway, while
clients with access tokens go on: none of them is told that its token cannot be checked."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.catalog.leases import LEASE_SECONDS
from svc_cluster.gateway.access.token_directory import NO_LEASE
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.own_cluster import OwnCluster
from tests.log_lines import whole_lines

READY_S = 90.0
CATALOG = 1
CLIENTS = 8
BASIN = "leads-basin"
RECORDS = "/v1/streams/s/records"
JSON = {"content-type": "application/json", "svc-basin": BASIN}
SCOPE = {"ops": ["list-basins"], "basins": {"prefix": ""}}


@dataclass
class Scene:
    cluster: OwnCluster
    root: str
    answered: int = 0
    refused: list[str] = field(default_factory=list)
    """What clients were told that had a right to an answer."""

    async def ask(
        self, client: HttpClient, method: str, path: str, token: str, body: object = None
    ) -> Any:
        headers = JSON | {"authorization": f"Bearer {token}"}
        data = b"" if body is None else msgspec.json.encode(body)
        return await client.request(method, path, headers, data, timeout_s=30.0)

    async def insist(self, method: str, path: str, body: object, *good: int) -> Any:
        """Until it is answered so, as the root. Raises AssertionError."""
        end = SystemClock().monotonic() + READY_S
        async with HttpClient(self.cluster.url) as client:
            while True:
                answer = await self.ask(client, method, path, self.root, body)
                if answer.status in good:
                    return answer
                assert SystemClock().monotonic() < end, f"{answer.status} {answer.body!r}"
                await asyncio.sleep(0.1)

    async def issue(self, token_id: str) -> str:
        wanted = {"id": token_id, "scope": SCOPE}
        answer = await self.insist("POST", "/v1/access-tokens", wanted, 201)
        return str(answer.json()["access_token"])

    async def leader(self, but: int | None = None) -> tuple[int, int]:
        """The node that leads the catalog, other than `but`, and its term."""
        end = SystemClock().monotonic() + READY_S
        while True:
            found = [
                (int(group["term"]), node)
                for node, groups in (await self.cluster.groups()).items()
                for group in groups
                if group["group_id"] == CATALOG and group["serving"] and node != but
            ]
            if found:
                term, node = max(found)
                return node, term
            assert SystemClock().monotonic() < end, self.cluster.log_tail()
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def load(self, token: str) -> AsyncIterator[None]:
        """Clients with a valid token: half of them append, the others ask for what is not there,
        which a gateway answers by itself, and only to who has a valid token."""
        stopping = asyncio.Event()
        self.refused.clear()
        self.answered = 0

        async def work(method: str, path: str, body: object, status: int) -> None:
            async with HttpClient(self.cluster.url) as client:
                while not stopping.is_set():
                    answer = await self.ask(client, method, path, token, body)
                    self.answered += 1
                    if answer.status != status:
                        self.refused.append(f"{method} {answer.status} {answer.body!r}")
                    await asyncio.sleep(0.01)

        record = {"records": [{"body": "eA=="}]}
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                if number % 2:
                    clients.create_task(work("POST", RECORDS, record, 200))
                else:
                    clients.create_task(work("GET", "/v1/no-such-route", None, 404))
            try:
                yield
            finally:
                stopping.set()

    async def go_on(self, seconds: float = 0.0) -> None:
        """Let clients have a hundred answers more, and so much time: what they have by old leases
        ends meanwhile."""
        enough, end = self.answered + 100, SystemClock().monotonic() + seconds
        while self.answered < enough or SystemClock().monotonic() < end:
            await asyncio.sleep(0.05)

    async def is_let_in(self, token: str) -> bool:
        async with HttpClient(self.cluster.url) as client:
            answer = await self.ask(client, "GET", "/v1/no-such-route", token)
        assert answer.status in (401, 404), answer
        return bool(answer.status == 404)

    async def first_answer(self, token: str) -> int:
        """The status of the first answer that there is. Connections that are refused, or lost, are
        none."""
        end = SystemClock().monotonic() + READY_S
        while True:
            try:
                async with HttpClient(self.cluster.url) as client:
                    return int((await self.ask(client, "GET", "/v1/no-such-route", token)).status)
            except ConnectionLostError:
                assert SystemClock().monotonic() < end, self.cluster.log_tail()
            await asyncio.sleep(0.005)

    def told(self, event: str) -> int:
        """How many lines of the nodes' logs have it."""
        logs = self.cluster.directory.glob("node-*.log")
        return sum(f" {event} " in line for log in logs for line in whole_lines(log))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    place = tmp_path_factory.mktemp("leads")
    token = place / "root-token"
    own = OwnCluster(place / "data", options=["--auth", "--root-token-file", str(token)])
    own.start()
    try:
        asyncio.run(own.wait_ready(READY_S))
        yield Scene(own, Path(token).read_text().strip())
    finally:
        own.end()


async def grown(scene: Scene) -> str:
    """A basin and a stream, and a token for everything in them."""
    await scene.insist("POST", "/v1/basins", {"basin": BASIN}, 201, 409)
    await scene.insist("POST", "/v1/streams", {"stream": "s"}, 201, 409)
    return scene.root


def test_a_restart_of_the_catalogs_leader_is_not_felt(scene: Scene) -> None:
    """While clients go on the process is told to end, as a rolling restart does: nobody is refused
    anything, the successor has the leases, and a revocation by it holds at once."""

    async def play() -> None:
        token = await grown(scene)
        brief = await scene.issue("brief")
        assert await scene.is_let_in(brief)
        node, term = await scene.leader()
        handed = scene.told("leases_taken_over")
        async with scene.load(token):
            await scene.go_on()
            scene.cluster.kill_node(node, signal.SIGTERM)
            successor, later = await scene.leader(but=node)
            await scene.insist("DELETE", "/v1/access-tokens/brief", None, 204)
            assert not await scene.is_let_in(brief)
            await scene.go_on(LEASE_SECONDS + 1.0)
        assert scene.refused == []
        assert scene.answered > 100
        assert (later, successor != node) == (term + 1, True)
        assert scene.told("leases_taken_over") == handed + 1

    asyncio.run(play())


def test_after_a_crash_of_the_catalogs_leader_no_token_is_refused(scene: Scene) -> None:
    """Appends may be refused that the killed process was to carry out; nobody is told that its
    token is not valid, or cannot be checked."""

    async def play() -> None:
        await scene.cluster.wait_ready(READY_S)
        token = await grown(scene)
        brief = await scene.issue("brief")
        node, _ = await scene.leader()
        async with scene.load(token):
            await scene.go_on()
            scene.cluster.kill_node(node)
            await scene.leader(but=node)
            await scene.insist("DELETE", "/v1/access-tokens/brief", None, 204, 404)
            assert not await scene.is_let_in(brief)
            await scene.go_on(LEASE_SECONDS + 1.0)
        of_tokens = [text for text in scene.refused if " 40" in text or NO_LEASE in text]
        assert of_tokens == []
        assert [text for text in scene.refused if text.startswith("GET")] == []
        assert scene.answered > 100

    asyncio.run(play())


GATEWAY_KILLS = 5


def test_a_gateway_that_comes_back_knows_the_tokens_before_it_listens(scene: Scene) -> None:
    """Each time its process is killed it is there again; until then connections are refused, and
    the first request that is answered at all is let in."""

    async def play() -> None:
        await scene.cluster.wait_ready(READY_S)
        token = await grown(scene)
        first: list[int] = []
        for _ in range(GATEWAY_KILLS):
            assert await scene.is_let_in(token)
            pid = int(scene.cluster.file()["gateway"]["pid"])
            os.kill(pid, signal.SIGKILL)
            first.append(await scene.first_answer(token))
            assert int(scene.cluster.file()["gateway"]["pid"]) != pid
        assert first == [404] * GATEWAY_KILLS, "503: it listened, and could not check the token"

    asyncio.run(play())
