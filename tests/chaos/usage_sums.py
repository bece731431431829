"""`python -m tests.chaos.usage_sums --kills 50 [--gateway-kills 5] [--retries 1000] [--record]`.

Does usage add up? Writers append records of one size while the basin's leader is killed (SIGKILL)
again and again, and gateways now and then. Most appends carry a request token: an answer that is
lost is asked for again until it is definite, and of those that were answered some are sent once
more, `--retries` in all. The others carry none, and are not repeated: what became of them is seen
at the end, when the streams are read back. Then, through whichever gateway:

- the sum over the buckets of `append-throughput` is the metered bytes of the records that the
  streams hold, exactly, by the minute, the hour and the day; and what is stored is the same;
- reads: no more are counted than were asked for, and no fewer than were answered, less those of one
  interval before each death of a gateway.

Ends by itself; prints one JSON object. Status 1 when a sum is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.gateway.usage.reporter import INTERVAL_SECONDS
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse
from svc_cluster.lab.api_client import AppendRecord, append_body, decode_batch, records_path
from tests.chaos.processes import Processes
from tests.reliability import RunLog

BASIN: Final = "usage-sums-basin"
WRITERS: Final = 12
READERS: Final = 2
BODY_BYTES: Final = 92
METERED_BYTES: Final = 8 + BODY_BYTES
"""Of each record."""
BATCH_MAX: Final = 10
PLAIN_SHARE: Final = 0.2
"""Of appends without a token."""
REQUEST_S: Final = 8.0
SETTLE_S: Final = 60.0
BETWEEN_KILLS_APPENDS: Final = 40
"""Acknowledged by all writers together."""
SLACK_S: Final = 1.0


@dataclass
class Tally:
    """What the clients know."""

    acked: int = 0
    """Appends."""
    acked_records: int = 0
    ambiguous: int = 0
    """Appends with an attempt of unknown outcome."""
    retried: int = 0
    """Attempts with a token that had been sent before."""
    repeated: int = 0
    """Of these, behind an answer: on purpose."""
    wrong: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    reads: list[tuple[float, int]] = field(default_factory=list)
    """When each read was answered, and by which gateway."""
    reads_lost: int = 0


class Api:
    """A connection to one of the gateways; another one whenever it is lost."""

    def __init__(self, cluster: Processes, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._auth = {"authorization": f"Bearer {cluster.root_secret}"}
        self.gateway = 0
        self._http: HttpClient | None = None

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpResponse:
        """Raises ConnectionLostError."""
        if self._http is None:
            self.gateway = self._rng.randrange(len(self._cluster.urls))
            self._http = HttpClient(self._cluster.urls[self.gateway])
        try:
            return await self._http.request(
                method, path, {**headers, **self._auth}, body, timeout_s=REQUEST_S
            )
        except ConnectionLostError:
            self.close()
            raise

    async def insist(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Of what may be asked again: until it is answered."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                try:
                    answer = await self.ask(method, path, headers or {}, body)
                except ConnectionLostError:
                    pass
                else:
                    if answer.status < 400 or answer.status in (409, 416):
                        return answer
                await asyncio.sleep(0.05)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


class Writer:
    """Appends to a stream of its own, one batch after the other."""

    def __init__(self, number: int, cluster: Processes, run: Run) -> None:
        self.stream = f"stream-{number}"
        self._rng = random.Random(f"{run.seed}/{number}")
        self._api = Api(cluster, self._rng)
        self._run = run

    async def run(self) -> None:
        run, tally = self._run, self._run.tally
        number = 0
        while not run.stopping:
            number += 1
            count = self._rng.randint(1, BATCH_MAX)
            mark = b"%s/%d/" % (self.stream.encode(), number)
            body = append_body([AppendRecord(mark.ljust(BODY_BYTES, b"."))] * count)
            token = f"{self.stream}-{number}" if self._rng.random() >= PLAIN_SHARE else None
            told = await self._append(body, token)
            if told is None:
                continue
            tally.acked += 1
            tally.acked_records += count
            if token is not None and tally.repeated < run.retries_wanted:
                tally.repeated += 1
                again = await self._append(body, token, first=False)
                if again != told:
                    tally.wrong.append(f"{token}: {told!r} and then {again!r}")
        self._api.close()

    async def _append(self, body: bytes, token: str | None, *, first: bool = True) -> bytes | None:
        """The answer; None for an append without a token of which nobody knows."""
        tally = self._run.tally
        headers = {
            "content-type": "application/json",
            "svc-format": "base64",
            "svc-basin": BASIN,
            **({} if token is None else {"svc-request-token": token}),
        }
        was_ambiguous = False
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end:
            if not first:
                tally.retried += 1
            first = False
            unknown = True
            try:
                answer = await self._api.ask("POST", records_path(self.stream), headers, body)
            except ConnectionLostError as error:
                unknown = error.sent
                tally.errors["lost" if error.sent else "not connected"] += 1
            else:
                if answer.status == 200:
                    return answer.body
                unknown = answer.may_have_taken_effect
                tally.errors[str(answer.status)] += 1
            if unknown:
                tally.ambiguous += not was_ambiguous
                was_ambiguous = True
                if token is None:
                    return None
            await asyncio.sleep(0.05 * self._rng.random())
        tally.wrong.append(f"{self.stream}: no definite answer in {SETTLE_S} s")
        return None


async def read_now_and_then(cluster: Processes, run: Run, number: int) -> None:
    """Unary reads, each noted with its gateway."""
    rng = random.Random(f"{run.seed}/reader {number}")
    api = Api(cluster, rng)
    while not run.stopping:
        path = f"{records_path(f'stream-{rng.randrange(WRITERS)}')}?seq_num=0&count=1"
        try:
            answer = await api.ask("GET", path, {"svc-basin": BASIN})
        except ConnectionLostError as error:
            run.tally.reads_lost += error.sent
        else:
            if answer.status == 200:
                run.tally.reads.append((time.monotonic(), api.gateway))
        await asyncio.sleep(0.02)
    api.close()


@dataclass
class Run:
    seed: int
    kills: int
    gateway_kills: int
    retries_wanted: int
    tally: Tally = field(default_factory=Tally)
    stopping: bool = False
    killed_leaders: int = 0
    gateway_deaths: list[tuple[float, int]] = field(default_factory=list)

    async def play(self, cluster: Processes) -> dict[str, Any]:
        api = Api(cluster, random.Random(self.seed))
        begun = int(time.time())
        json_type = {"content-type": "application/json"}
        body = json.dumps({"basin": BASIN}).encode()
        await api.insist("POST", "/v1/basins", json_type, body)
        writers = [Writer(number, cluster, self) for number in range(WRITERS)]
        for writer in writers:
            body = json.dumps({"stream": writer.stream}).encode()
            await api.insist("POST", "/v1/streams", {**json_type, "svc-basin": BASIN}, body)
        async with asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.run())
            for number in range(READERS):
                tasks.create_task(read_now_and_then(cluster, self, number))
            await self._torment(cluster)
            self.stopping = True
        return await self._judge(api, cluster, writers, begun)

    async def _torment(self, cluster: Processes) -> None:
        rng = random.Random(f"{self.seed}/torment")
        whom = ["leader"] * self.kills + ["gateway"] * self.gateway_kills
        rng.shuffle(whom)
        for victim in whom:
            await self._acknowledged(BETWEEN_KILLS_APPENDS)
            if victim == "leader":
                member = cluster.nodes[await cluster.wait_leader(BASIN)]
                member.kill()
                self.killed_leaders += 1
            else:
                number = rng.randrange(len(cluster.gateways))
                member = cluster.gateways[number]
                member.kill()
                self.gateway_deaths.append((time.monotonic(), number))
            await self._acknowledged(BETWEEN_KILLS_APPENDS // 4)
            member.start()
            await cluster.ready()
        async with asyncio.timeout(SETTLE_S + self.retries_wanted):
            while self.tally.repeated < self.retries_wanted:
                await asyncio.sleep(0.05)

    async def _acknowledged(self, more: int) -> None:
        goal = self.tally.acked + more
        async with asyncio.timeout(SETTLE_S):
            while self.tally.acked < goal:
                await asyncio.sleep(0.01)

    async def _judge(
        self, api: Api, cluster: Processes, writers: list[Writer], begun: int
    ) -> dict[str, Any]:
        tally = self.tally
        await asyncio.sleep(REQUEST_S)  # longer than anything unknown is under way
        asked = len(tally.reads) + tally.reads_lost
        read_back = 0
        found = 0
        for writer in writers:
            records, reads = await self._read_all(api, writer.stream)
            found += records
            read_back += reads
        sums: dict[str, float] = {}
        for interval in ("minute", "hour", "day"):
            sums[interval] = await _sum(api, begun, "append-throughput", "standard", interval)
        await asyncio.sleep(2 * INTERVAL_SECONDS)
        stored = await _stored(api, begun)
        unary = await _sum(api, begun, "read-ops", "unary", "minute")
        in_doubt = sum(
            1
            for died, number in self.gateway_deaths
            for at, gateway in tally.reads
            if gateway == number and died - INTERVAL_SECONDS - SLACK_S <= at <= died + SLACK_S
        )
        wrong = list(tally.wrong)
        for interval, total in sums.items():
            if total != found * METERED_BYTES:
                wrong.append(f"{interval}: {total} counted, {found * METERED_BYTES} there")
        if stored != found * METERED_BYTES:
            wrong.append(f"{stored} stored by the last reading, {found * METERED_BYTES} there")
        if tally.acked_records > found:
            wrong.append(f"{tally.acked_records} acknowledged, {found} there")
        least = len(tally.reads) + read_back - in_doubt
        if not least <= unary <= asked + read_back:
            wrong.append(f"{unary} reads counted, {least} to {asked + read_back} made")
        return {
            "seed": self.seed,
            "leader_kills": self.killed_leaders,
            "gateway_kills": len(self.gateway_deaths),
            "records": found,
            "acknowledged_records": tally.acked_records,
            "appends": tally.acked,
            "ambiguous": tally.ambiguous,
            "token_retries": tally.retried,
            "retries_of_answered": tally.repeated,
            "counted_bytes": sums,
            "counted_records": sums["minute"] / METERED_BYTES,
            "stored_bytes": stored,
            "reads": {
                "answered": len(tally.reads) + read_back,
                "lost": tally.reads_lost,
                "counted": unary,
                "in_doubt": in_doubt,
            },
            "errors": dict(tally.errors),
            "wrong": wrong,
        }

    async def _read_all(self, api: Api, stream: str) -> tuple[int, int]:
        """How many records of the one size a stream holds, and how many reads that took."""
        records = reads = 0
        while True:
            path = f"{records_path(stream)}?seq_num={records}&count=1000"
            answer = await api.insist("GET", path, {"svc-basin": BASIN, "svc-format": "base64"})
            if answer.status != 200:
                return records, reads
            reads += 1
            batch = decode_batch(answer.body)
            if not batch:
                return records, reads
            for record in batch:
                if len(record.body) != BODY_BYTES or record.headers:
                    self.tally.wrong.append(f"{stream}: a record of another size")
            records += len(batch)


async def _metrics(api: Api, begun: int, of: str, interval: str) -> dict[str, dict[str, Any]]:
    query = f"set={of}&start={begun}&end={int(time.time())}&interval={interval}"
    answer = await api.insist("GET", f"/v1/metrics/{BASIN}?{query}")
    return {body["name"]: body for metric in answer.json()["values"] for body in metric.values()}


async def _sum(api: Api, begun: int, of: str, name: str, interval: str) -> float:
    body = (await _metrics(api, begun, of, interval))[name]
    return float(sum(value for _, value in body["values"]))


async def _stored(api: Api, begun: int) -> float:
    body = (await _metrics(api, begun, "storage", "hour"))["storage"]
    return float(body["values"][-1][1])


async def main(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    run = Run(seed, options.kills, options.gateway_kills, options.retries)
    begun = time.monotonic()
    log = RunLog("usage")
    with tempfile.TemporaryDirectory(prefix="svc-usage-") as scratch:
        async with Processes(Path(scratch) / "cluster") as cluster:
            async with asyncio.timeout(options.seconds):
                result = await run.play(cluster)
    result["seconds"] = round(time.monotonic() - begun, 1)
    print(json.dumps(result, indent=2))
    if options.record:
        log.add(result)
    return 1 if result["wrong"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.usage_sums")
    parser.add_argument("--kills", type=int, default=50, help="of the basin's leader")
    parser.add_argument("--gateway-kills", type=int, default=5)
    parser.add_argument("--retries", type=int, default=1000, help="of answered appends, by token")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--seconds", type=float, default=1800.0, help="at most")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
