"""A cluster with clients who behave, and what is looked at while somebody does not."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pybase64

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse
from svc_cluster.lab.api_client import AppendRecord, append_body, decode_batch, records_path
from svc_cluster.lab.own_cluster import OwnCluster
from tests.hostile.clients.attacks import ATTACK_SECONDS, FOLLOWERS
from tests.hostile.clients.names import (
    AUTO_BASIN,
    BIG_BASIN,
    BIG_RECORD_BYTES,
    BIG_STREAM,
    LOG_RECORD_BYTES,
    LOG_RECORDS,
    LOG_STREAM,
)
from tests.hostile.conftest import Measured
from tests.hostile.figures import p99_ms
from tests.hostile.processes import above_budget, forget_peaks, in_mib, peaks
from tests.hostile.scale import MIB

ANSWER_S: Final = 60.0
"""How long a client who behaves waits: what counts is what it is answered, not when."""
READY_S: Final = 60.0
NODES: Final = 3
SETTLE_S: Final = 60.0
WRITTEN_MAX: Final = {"log lines": 200, "audit bytes": MIB, "metrics bytes": 32 * 1024}
"""Of one attack, however large it is."""

STREAMS_OPEN_MAX: Final = FOLLOWERS + 20
"""Of the gateway: so few that the sessions of an attack are more."""

REFUSED: Final = "refused for a moment"
SERVED: Final = frozenset({"200", REFUSED})
"""What a client who behaves may be answered."""

BUSY: Final = tuple(f"busy-basin-{number}" for number in range(6))
VICTIM: Final = "victim-basin"
STREAM: Final = "s"


def refused_for_a_moment(answer: HttpResponse) -> bool:
    """Whether nothing was done, because there is too much to do, and when to ask again is said."""
    effects = answer.headers.get("svc-side-effects", "none")  # what reads is not told of them
    return answer.status == 503 and effects == "none" and "retry-after-ms" in answer.headers


def retry_after_s(answer: HttpResponse) -> float:
    return int(answer.headers["retry-after-ms"]) / 1000


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
    waits_s: list[float] = field(default_factory=list)
    """Of each question of the prober, to its answer."""

    stopping: bool = False

    async def append(self) -> None:
        """One record after the other, each at the place that it must get. A definite refusal is
        tried again when it says. Stops at any other answer that is not 200: what follows would
        only repeat it."""
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
            if refused_for_a_moment(answer):
                await asyncio.sleep(retry_after_s(answer))
                continue
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
            begun = SystemClock().monotonic()
            try:
                answer = await client.ask("GET", *places[number % len(places)])
                self.note(answer)
                if refused_for_a_moment(answer):
                    await asyncio.sleep(retry_after_s(answer))
            except ConnectionLostError as lost:
                self.statuses[f"lost: {lost}"] += 1
            self.waits_s.append(SystemClock().monotonic() - begun)
        client.http.close()

    def note(self, answer: HttpResponse) -> None:
        text = REFUSED if refused_for_a_moment(answer) else str(answer.status)
        if text not in SERVED:
            effects = answer.headers.get("svc-side-effects", "")
            text += f" {effects} {answer.body[:200].decode(errors='replace')}"
        self.statuses[text] += 1

    def unexpected(self) -> bool:
        """Whether it was answered anything that it may not be."""
        return not self.statuses.keys() <= SERVED

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

    measured: Measured = lambda **_: None
    """Takes what an attack came to, for the table."""

    async def prepare(self) -> None:
        """Basins, streams with something in them, and tokens of low privilege."""
        client = Client(self.cluster.url, self.root)
        await until_taken(client)
        for basin in (BIG_BASIN, VICTIM, *BUSY):
            await client.insist("POST", "/v1/basins", None, {"basin": basin})
        auto = {"create_stream_on_append": True, "create_stream_on_read": True}
        await client.insist("POST", "/v1/basins", None, {"basin": AUTO_BASIN, "config": auto})
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
        returns what the attacker was answered. Fails on anything that they may not see.
        A machine that has too much to do refuses them definitely for a moment, as real clients
        are: they try again, and are refused less often than they are answered."""
        clients = [await self._victim(basin, f"{attack}-{basin}") for basin in (VICTIM, *busy)]
        prober = Victim(self.cluster.url, self.root, VICTIM, "prober")
        self.spoiled = True
        terms = await self.settled_terms()
        pids = self.cluster.pids()
        before = await self._written()
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
            if client.unexpected() or client.statuses[REFUSED] > client.statuses["200"]
        ]
        faults += [
            told_apart(client, found)
            for client in clients
            if (found := await client.committed()) != client.acknowledged
        ]
        taken = peaks(self.cluster)
        faults += above_budget(taken)
        written = await self._written()
        faults += [
            f"{name} grew from {before[name]} to {size}"
            for name, size in written.items()
            if size - before[name] > WRITTEN_MAX[name]
        ]
        if (after := await self.settled_terms()) != terms:
            faults.append(f"there was an election: {terms} became {after}")
        if self.cluster.pids() != pids:
            faults.append("a process has ended")
        counts = {client.name: client.statuses["200"] for client in (*clients, prober)}
        self.measured(
            **in_mib(taken),
            p99_ms=p99_ms(prober.waits_s),
            refusals=answered.total() - answered["answered"] - answered["whole"],
            attackers=dict(answered),
            clients=counts,
            refused_clients=sum(client.statuses[REFUSED] for client in (*clients, prober)),
        )
        assert not faults, "\n".join(faults)
        self.spoiled = False
        return answered

    async def _written(self) -> dict[str, int]:
        """How much the processes have told: lines of their logs, bytes of the audit log, and of
        the gateway's metrics as they are."""
        logs = [path for path in self.cluster.directory.glob("*.log") if path.stem != "audit"]
        audit = self.cluster.directory / "audit.log"
        client = Client(self.cluster.url, self.root)
        try:
            metrics = await client.ask("GET", "/metrics")
        finally:
            client.http.close()
        return {
            "log lines": sum(path.read_bytes().count(b"\n") for path in logs),
            "audit bytes": audit.stat().st_size if audit.exists() else 0,
            "metrics bytes": len(metrics.body),
        }

    async def metric(self, line: str) -> float:
        """What the gateway's page has behind `line`; 0 where there is none such."""
        client = Client(self.cluster.url, self.root)
        try:
            page = (await client.ask("GET", "/metrics")).body.decode()
        finally:
            client.http.close()
        values = [row.split()[-1] for row in page.splitlines() if row.startswith(f"{line} ")]
        return float(values[0]) if values else 0.0

    async def until_no_stream_is_open(self) -> None:
        async with asyncio.timeout(SETTLE_S):
            while await self.metric("svc_http_streams_open"):
                await asyncio.sleep(0.1)

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
    goals = [client.statuses["200"] + more for client in clients]
    async with asyncio.timeout(ANSWER_S):
        while any(
            client.statuses["200"] < goal and not client.unexpected()
            for client, goal in zip(clients, goals, strict=True)
        ):
            await asyncio.sleep(0.01)


async def play(attack: str, port: int, token: str) -> Counter[str]:
    """The attack in a process of its own, to its end; what it was answered, by status."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.hostile.clients.attacks", attack, str(port), token),
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
