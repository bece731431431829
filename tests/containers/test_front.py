"""Two gateways behind the shipped nginx: one of them is restarted, and no client notices."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpClient, HttpResponse
from tests.containers.compose import GATEWAYS, Compose, docker

BASIN = "front-basin"
RECORDS = "/v1/streams/s/records"
CLIENTS = 6
STEP_S = 180.0
AFTER_EACH = 100
"""Answers before a gateway is told to end, and after it is healthy again."""

pytestmark = pytest.mark.timeout(1200)


@dataclass
class Load:
    """Half of the clients append a record at a time, the others read the first one. Each keeps its
    connection to nginx; a request is sent once."""

    url: str
    token: str
    answered: int = 0
    appended: int = 0
    doubtful: int = 0
    """Appends that were answered "may have taken effect"."""
    waited: int = 0
    """Definite refusals of a cluster that elects a leader on a busy machine: tried again."""
    failed: list[str] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def headers(self) -> dict[str, str]:
        kind = {"content-type": "application/json", "svc-basin": BASIN}
        return kind | {"authorization": f"Bearer {self.token}"}

    async def insist(self, path: str, body: object) -> None:
        """Until it is there. Raises TimeoutError."""
        data = msgspec.json.encode(body)
        async with asyncio.timeout(STEP_S), HttpClient(self.url) as client:
            while True:
                made = await client.request("POST", path, self.headers, data, timeout_s=30.0)
                if made.status in (201, 409):
                    return
                await asyncio.sleep(0.1)

    async def asked(self, client: HttpClient, method: str, path: str, data: bytes) -> HttpResponse:
        """The answer; what a gateway refuses without effect is tried again, as clients do."""
        async with asyncio.timeout(STEP_S):
            while True:
                answer = await client.request(method, path, self.headers, data, timeout_s=60.0)
                is_definite = answer.headers.get("svc-side-effects") == "none"
                if (
                    answer.status != 503
                    or not is_definite
                    or "retry-after-ms" not in answer.headers
                ):
                    return answer
                self.waited += 1
                await asyncio.sleep(int(answer.headers["retry-after-ms"]) / 1000)

    @staticmethod
    def is_of_an_election(answer: HttpResponse) -> bool:
        """A gateway, not nginx, says that a leader was lost before it had answered."""
        return answer.status in (408, 503) and "svc-side-effects" in answer.headers

    async def append(self, client: HttpClient) -> None:
        data = msgspec.json.encode({"records": [{"body": "eA=="}]})
        answer = await self.asked(client, "POST", RECORDS, data)
        if answer.status == 200:
            self.appended += 1
        elif self.is_of_an_election(answer):
            self.doubtful += 1
        else:
            self.failed.append(f"append {answer.status} {answer.body!r}")

    async def read(self, client: HttpClient) -> None:
        path = f"{RECORDS}?seq_num=0&count=1"
        answer = await self.asked(client, "GET", path, b"")
        if self.is_of_an_election(answer):
            return
        if answer.status != 200 or len(answer.json()["records"]) != 1:
            self.failed.append(f"read {answer.status} {answer.body!r}")

    async def work(self, number: int) -> None:
        async with HttpClient(self.url) as client:
            while not self.stopping.is_set():
                await (self.append(client) if number % 2 else self.read(client))
                self.answered += 1
                await asyncio.sleep(0.02)

    async def go_on(self) -> None:
        """Until there are some more answers. Raises TimeoutError."""
        enough = self.answered + AFTER_EACH
        async with asyncio.timeout(STEP_S):
            while self.answered < enough:
                await asyncio.sleep(0.05)

    async def tail(self) -> int:
        async with HttpClient(self.url) as client:
            answer = await client.request("GET", f"{RECORDS}/tail", self.headers, timeout_s=30.0)
        return int(answer.json()["tail"]["seq_num"])


def test_no_request_fails_while_each_gateway_is_restarted(cluster: Compose) -> None:
    """One after the other, as an upgrade does: every append and every read is answered, and there
    are as many records as appends were acknowledged, so that none was sent twice. An election,
    which a busy machine brings about, is told by the gateways themselves and is no failure here;
    whatever nginx says by itself is one."""

    async def play() -> Load:
        load = Load(cluster.url, cluster.read_file("svc-0", "/pki/root-token").strip())
        await load.insist("/v1/basins", {"basin": BASIN})
        await load.insist("/v1/streams", {"stream": "s"})
        before = await load.tail()
        async with HttpClient(load.url) as client:
            await load.append(client)
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(load.work(number))
            try:
                for gateway in GATEWAYS:
                    await load.go_on()
                    begun = cluster.describe(gateway)["State"]["StartedAt"]
                    container = cluster.container(gateway)
                    await asyncio.to_thread(docker, "restart", "--time", "30", container)
                    assert cluster.describe(gateway)["State"]["StartedAt"] != begun
                    await cluster.wait_healthy(gateway)
                await load.go_on()
            finally:
                load.stopping.set()
        assert load.appended <= await load.tail() - before <= load.appended + load.doubtful
        return load

    load = asyncio.run(play())
    assert load.failed == []
    assert load.waited + load.doubtful < load.answered / 2, "refusals are the exception"
    assert load.answered > 3 * AFTER_EACH


def test_events_are_not_held_back_and_appends_are_never_passed_on_twice(cluster: Compose) -> None:
    """A follower hears through nginx of a record when it is appended. What nginx may try again is
    said in its configuration: nothing that is not to be repeated."""

    async def play() -> None:
        load = Load(cluster.url, cluster.read_file("svc-0", "/pki/root-token").strip())
        await load.insist("/v1/basins", {"basin": BASIN})
        await load.insist("/v1/streams", {"stream": "s"})
        tail = await load.tail()
        host, _, port = load.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"GET {RECORDS}?seq_num={tail} HTTP/1.1\r\nhost: localhost\r\nsvc-basin: {BASIN}\r\n"
            f"authorization: Bearer {load.token}\r\naccept: text/event-stream\r\n\r\n".encode()
        )
        async with asyncio.timeout(STEP_S), HttpClient(load.url) as client:
            await reader.readuntil(b"event: ping")
            begun = SystemClock().monotonic()
            await load.append(client)
            await reader.readuntil(b"event: batch")
        assert SystemClock().monotonic() - begun < 10.0, "a ping pushes nothing out before 15 s"
        writer.close()
        site = docker(
            "exec", cluster.container("front"), "cat", "/etc/svc-cluster/svc-cluster.conf"
        )
        (tried,) = [line for line in site.splitlines() if "proxy_next_upstream " in line]
        assert tried.strip() == "proxy_next_upstream error timeout;"

    asyncio.run(play())
