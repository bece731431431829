"""A cluster with clients who behave, and what is looked at while somebody does not."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pybase64

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.api_client import AppendRecord, append_body, decode_batch, records_path
from svc_cluster.cli.http_client import ConnectionLostError, HttpClient, HttpResponse
from svc_cluster.cli.own_cluster import OwnCluster
from tests.e2e.hostile_attacks import (
    ATTACK_SECONDS,
    BIG_BASIN,
    BIG_RECORD_BYTES,
    BIG_STREAM,
    LOG_RECORD_BYTES,
    LOG_RECORDS,
    LOG_STREAM,
)

MIB: Final = 1024 * 1024
RESIDENT_BYTES_MAX: Final = 700 * MIB
ANSWER_S: Final = 60.0
"""How long a client who behaves waits: what counts is what it is answered, not when."""
READY_S: Final = 60.0
NODES: Final = 3
SETTLE_S: Final = 60.0
BUSY: Final = tuple(f"busy-basin-{number}" for number in range(6))
VICTIM: Final = "victim-basin"
STREAM: Final = "s"


class Client:
    """One connection of somebody with a token."""

    def __init__(self, url: str, token: str) -> None:
        self.http = HttpClient(url)
        """For one request at a time; it connects anew where the connection was lost."""
        self._token = {"authorization": f"Bearer {token}"}

    async def ask(
        self, method: str, path: str, basin: str | None = None, body: bytes = b""
    ) -> HttpResponse:
        headers = self._token | {"content-type": "application/json", "svc-format": "base64"}
        if basin is not None:
            headers["svc-basin"] = basin
        return await self.http.request(method, path, headers, body, timeout_s=ANSWER_S)

    async def insist(
        self, method: str, path: str, basin: str | None, body: Any, *, also: int = 409
    ) -> HttpResponse:
        """Until it is done, or answered with the status `also`, for what is before and behind an
        attack."""
        end = SystemClock().monotonic() + SETTLE_S
        data = b"" if body is None else json.dumps(body).encode()
        while True:
            answer = await self.ask(method, path, basin, data)
            if answer.status < 300 or answer.status == also:
                return answer
            assert SystemClock().monotonic() < end, answer
            await asyncio.sleep(0.1)

    async def append(self, basin: str, stream: str, body: bytes, at: int) -> HttpResponse:
        return await self.ask(
            "POST", records_path(stream), basin, append_body([AppendRecord(body)], at)
        )


@dataclass(slots=True)
class Victim:
    """Somebody who behaves, until `stopping`; whatever it is answered is counted."""

    url: str
    token: str
    basin: str
    name: str
    statuses: Counter[str] = field(default_factory=Counter)
    acknowledged: list[bytes] = field(default_factory=list)
    stopping: bool = False

    async def append(self) -> None:
        """One record after the other, each at the place that it must get. Stops at an answer that
        is not 200: what follows would only repeat it."""
        client = Client(self.url, self.token)
        number = len(self.acknowledged)
        while not self.stopping:
            body = f"{self.name}/{number}".encode()
            try:
                answer = await client.append(self.basin, STREAM, body, number)
            except ConnectionLostError as lost:
                self.statuses[f"lost: {lost}"] += 1
                break
            self.note(answer)
            if answer.status != 200:
                break
            assert answer.json()["start"]["seq_num"] == number, answer
            self.acknowledged.append(body)
            number += 1
        client.http.close()

    async def probe(self) -> None:
        """Reads, tails and lists, in turn."""
        client = Client(self.url, self.token)
        path = records_path(STREAM)
        places = (
            (f"{path}?seq_num=0&count=1", self.basin),
            (f"{path}/tail", self.basin),
            ("/v1/basins", None),
            ("/v1/streams", self.basin),
        )
        number = 0
        while not self.stopping:
            number += 1
            try:
                self.note(await client.ask("GET", *places[number % len(places)]))
            except ConnectionLostError as lost:
                self.statuses[f"lost: {lost}"] += 1
        client.http.close()

    def note(self, answer: HttpResponse) -> None:
        text = str(answer.status)
        if answer.status != 200:
            effects = answer.headers.get("svc-side-effects", "")
            text += f" {effects} {answer.body[:200].decode(errors='replace')}"
        self.statuses[text] += 1

    async def committed(self) -> list[bytes]:
        """All that the stream holds."""
        client = Client(self.url, self.token)
        found: list[bytes] = []
        while True:
            path = f"{records_path(STREAM)}?seq_num={len(found)}&count=1000"
            answer = await client.insist("GET", path, self.basin, None, also=416)
            if answer.status == 416:
                break
            records = decode_batch(answer.body)
            if not records:
                break
            found += [record.body for record in records]
        client.http.close()
        return found


@dataclass(slots=True)
class Scene:
    """Three nodes and a gateway that asks for tokens, with streams to attack."""

    cluster: OwnCluster
    root: str = ""
    reader: str = ""
    """May read everything, and nothing else."""
    issuer: str = ""
    """May issue tokens, make streams and append."""
    spoiled: bool = False
    """An attack has done harm: the next one would be judged by it."""

    async def prepare(self) -> None:
        """Basins, streams with something in them, and tokens of low privilege."""
        client = Client(self.cluster.url, self.root)
        await until_taken(client)
        for basin in (BIG_BASIN, VICTIM, *BUSY):
            await client.insist("POST", "/v1/basins", None, {"basin": basin})
        for basin, stream in (
            (BIG_BASIN, BIG_STREAM),
            (BIG_BASIN, LOG_STREAM),
            *((basin, STREAM) for basin in (VICTIM, *BUSY)),
        ):
            await client.insist("POST", "/v1/streams", basin, {"stream": stream})
        await self._fill(client, BIG_STREAM, BIG_RECORD_BYTES, 1)
        await self._fill(client, LOG_STREAM, LOG_RECORD_BYTES, LOG_RECORDS)
        self.reader = await _issue(client, "reader", ["read", "check-tail"])
        ops = ["issue-access-token", "append", "read", "create-stream", "check-tail"]
        self.issuer = await _issue(client, "issuer", ops)
        client.http.close()

    async def _fill(self, client: Client, stream: str, size: int, count: int) -> None:
        body = pybase64.b64encode(bytes(size)).decode()
        for number in range(count):
            records = {"records": [{"body": body}], "match_seq_num": number}
            answer = await client.insist("POST", records_path(stream), BIG_BASIN, records)
            assert answer.status == 200, answer

    async def under(self, attack: str, token: str, busy: Sequence[str] = ()) -> Counter[str]:
        """Play one attack beside an appender, a prober and busy clients on the basins of `busy`;
        returns what the attacker was answered. Fails on anything that they may not see."""
        clients = [await self._victim(basin, f"{attack}-{basin}") for basin in (VICTIM, *busy)]
        prober = Victim(self.cluster.url, self.root, VICTIM, "prober")
        self.spoiled = True
        terms = await self.settled_terms()
        pids = self.cluster.pids()
        forget_peaks(pids)
        tasks = [asyncio.ensure_future(client.append()) for client in clients]
        tasks.append(asyncio.ensure_future(prober.probe()))
        try:
            async with appended(clients, 3):
                answered = await play(attack, self.cluster.port, token)
        finally:
            for client in (*clients, prober):
                client.stopping = True
            await asyncio.gather(*tasks)
        faults = [
            f"{client.name} was answered {dict(client.statuses)}"
            for client in (*clients, prober)
            if set(client.statuses) != {"200"}
        ]
        faults += [
            told_apart(client, found)
            for client in clients
            if (found := await client.committed()) != client.acknowledged
        ]
        peaks = {pid: peak_bytes(pid) for pid in pids}
        faults += [
            f"process {pid} took {size // MIB} MiB"
            for pid, size in peaks.items()
            if size >= RESIDENT_BYTES_MAX
        ]
        if (after := await self.settled_terms()) != terms:
            faults.append(f"there was an election: {terms} became {after}")
        if self.cluster.pids() != pids:
            faults.append("a process has ended")
        counts = {client.name: client.statuses["200"] for client in (*clients, prober)}
        print(f"{attack}: {answered}, beside {counts}; MiB: {[s // MIB for s in peaks.values()]}")
        assert not faults, "\n".join(faults)
        self.spoiled = False
        return answered

    async def _victim(self, basin: str, name: str) -> Victim:
        """With what its stream holds already, so that the whole of it is judged."""
        victim = Victim(self.cluster.url, self.root, basin, name)
        victim.acknowledged = await victim.committed()
        return victim

    async def terms(self) -> dict[str, set[tuple[int, int | None]]]:
        """Term and leader of every group, as each node knows them."""
        async with asyncio.timeout(SETTLE_S):
            while len(nodes := await self.cluster.groups()) < NODES:
                await asyncio.sleep(0.1)
        found: dict[str, set[tuple[int, int | None]]] = {}
        for groups in nodes.values():
            for group in groups:
                found.setdefault(str(group["basin"]), set()).add((group["term"], group["leader"]))
        return found

    async def settled_terms(self) -> dict[str, set[tuple[int, int | None]]]:
        """The same, once all nodes agree."""
        terms = await self.terms()
        async with asyncio.timeout(SETTLE_S):
            while any(len(known) != 1 for known in terms.values()):
                await asyncio.sleep(0.1)
                terms = await self.terms()
        return terms


@contextlib.asynccontextmanager
async def appended(clients: Sequence[Victim], count: int) -> AsyncIterator[None]:
    """Each client gets `count` answers before what is inside begins, and as many behind it."""
    await _answers(clients, count)
    yield
    await _answers(clients, count)


async def _answers(clients: Sequence[Victim], more: int) -> None:
    goals = [client.statuses.total() + more for client in clients]
    async with asyncio.timeout(ANSWER_S):
        while any(
            client.statuses.total() < goal and set(client.statuses) <= {"200"}
            for client, goal in zip(clients, goals, strict=True)
        ):
            await asyncio.sleep(0.01)


async def play(attack: str, port: int, token: str) -> Counter[str]:
    """The attack in a process of its own, to its end; what it was answered, by status."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.hostile_attacks", attack, str(port), token),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(ATTACK_SECONDS + ANSWER_S):
            out, _ = await process.communicate()
    except BaseException:
        process.kill()
        raise
    assert process.returncode == 0, out
    return Counter(json.loads(out))


async def until_taken(client: Client) -> None:
    """A new root token is taken over a moment after the start."""
    async with asyncio.timeout(SETTLE_S):
        while (await client.ask("GET", "/v1/basins")).status != 200:
            await asyncio.sleep(0.1)


async def _issue(client: Client, name: str, ops: list[str]) -> str:
    everything = {"prefix": ""}
    scope = {"basins": everything, "streams": everything, "access_tokens": everything, "ops": ops}
    body = {"id": name, "scope": scope, "auto_prefix_streams": False}
    answer = await client.insist("POST", "/v1/access-tokens", None, body)
    assert answer.status == 201, answer
    return str(answer.json()["access_token"])


def told_apart(client: Victim, found: list[bytes]) -> str:
    """Where what was committed differs from what was acknowledged."""
    wanted = client.acknowledged
    pairs = zip(wanted, found, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return (
        f"{client.name} was acknowledged {len(wanted)} records and the stream has {len(found)}; "
        f"they differ from record {same} on"
    )


def forget_peaks(pids: Sequence[int]) -> None:
    """From now on `peak_bytes` counts anew."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The most resident memory that the process had at any time since `forget_peaks`."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None, status
    return int(found[1]) * 1024
