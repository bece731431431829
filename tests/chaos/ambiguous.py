"""`python -m tests.chaos.ambiguous --outcomes 2000 [--record]`: retries that must not duplicate.

Rounds of kill -9. In each, all clients send one write with a request token at the same moment: an
append, mostly, with a condition now and then, the creation of a stream, or the issue of an access
token. Processes are killed while the writes are on their way: a gateway, the basin's leader, the
catalog's, or several of them. Whoever loses the answer sends the same again, through any gateway,
until it is definite. An outcome is ambiguous when at least one attempt at it ended without telling
whether the write has happened. In the end each stream is read completely and its history goes to
the checker (one write is one operation), each created stream is there once and each issued secret
works. Ends by itself; prints one JSON object. Status 1 when something was lost, doubled or open.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.api import ChaosApi
from tests.chaos.processes import Processes
from tests.linearizability.checker import check
from tests.linearizability.history import Outcome, SeenRecord
from tests.reliability import RunLog
from tests.simulation.recorder import Recorder, Retries, StreamHistory
from tests.simulation.workload import NoEffectError, UnknownOutcomeError

BASIN: Final = "ambiguous-basin"
STREAMS: Final = 8
CLIENTS: Final = 160
ATTEMPTS_MAX: Final = 400
"""Of one write; with the pauses between them this is minutes."""
KILL_DELAY_MAX_S: Final = 0.08
"""From the moment when all clients have sent: their writes are answered in about this time."""

ROUNDS: Final = (
    ("gateway",),
    ("gateway", "leader"),
    ("gateway", "other gateway"),
    ("leader",),
    ("gateway", "catalog leader"),
    ("gateway", "other gateway", "leader"),
)
"""Who is killed in turn."""


@dataclass(slots=True)
class Result:
    """What a run came to."""

    ambiguous: int = 0
    """Writes with at least one attempt of unknown outcome."""
    ambiguous_by_kind: Counter[str] = field(default_factory=Counter)
    writes: int = 0
    acknowledged: int = 0
    refused: int = 0
    attempts_lost: int = 0
    unresolved: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    duplicates: int = 0
    lost: int = 0
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not (self.violations or self.duplicates or self.lost or self.unresolved)

    def fields(self) -> dict[str, Any]:
        return {
            "ambiguous": self.ambiguous,
            "ambiguous_by_kind": dict(self.ambiguous_by_kind),
            "writes": self.writes,
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "attempts_lost": self.attempts_lost,
            "unresolved": self.unresolved,
            "kills": dict(self.kills),
            "rounds": self.rounds,
            "duplicates": self.duplicates,
            "lost": self.lost,
            "violations": self.violations[:20],
            "seconds": round(self.seconds, 1),
        }


class OneWrite:
    """The gateways as one write sees them: notes attempts of unknown outcome."""

    def __init__(self, apis: list[ChaosApi], rng: random.Random) -> None:
        self.unknown = 0
        self.rng = rng
        self.apis: list[Any] = [_Noting(self, api) for api in apis]

    async def ask(
        self,
        good: tuple[int, ...],
        method: str,
        path: str,
        body: dict[str, Any] | None,
        **named: Any,
    ) -> tuple[int, dict[str, Any]] | None:
        """Until one of these statuses comes; None: it was tried too often."""
        for _ in range(ATTEMPTS_MAX):
            try:
                status, found = await self.rng.choice(self.apis).ask(method, path, body, **named)
            except (NoEffectError, UnknownOutcomeError):
                status, found = 0, {}
            if status in good:
                return status, found
            self.unknown += bool(found.get("may_have_taken_effect"))
            await asyncio.sleep(self.rng.choice((0.0, 0.05, 0.2)))
        return None


class _Noting:
    def __init__(self, write: OneWrite, api: ChaosApi) -> None:
        self._write = write
        self._api = api

    async def append(self, *arguments: Any) -> Any:
        return await self._noted(self._api.append(*arguments))

    async def ask(self, *arguments: Any, **named: Any) -> Any:
        return await self._noted(self._api.ask(*arguments, **named))

    async def _noted(self, attempt: Any) -> Any:
        try:
            return await attempt
        except UnknownOutcomeError:
            self._write.unknown += 1
            raise


class Run:
    """One cluster and its clients."""

    def __init__(self, cluster: Processes, seed: int, clients: int) -> None:
        self.cluster = cluster
        self.result = Result()
        self.recorder = Recorder(seed)
        self._rng = random.Random(seed)
        self._apis = [ChaosApi(url, cluster.root_secret) for url in cluster.urls]
        self._clients = [self.recorder.new_client() for _ in range(clients)]
        self._made: set[str] = set()
        self._issued: dict[str, str] = {}

    # -- one write

    async def _client(self, place: int) -> None:
        write = OneWrite(self._apis, random.Random(self._rng.getrandbits(64)))
        token = f"{write.rng.getrandbits(128):032x}"
        kind = write.rng.choices(("append", "create", "issue"), (90, 7, 3))[0]
        self.result.writes += 1
        match kind:
            case "create":
                is_known = await self._create(write, token)
            case "issue":
                is_known = await self._issue(write, token)
            case _:
                is_known = await self._append(write, token, place)
        self.result.unresolved += not is_known
        self.result.attempts_lost += write.unknown
        if write.unknown:
            self.result.ambiguous += 1
            self.result.ambiguous_by_kind[kind] += 1

    async def _append(self, write: OneWrite, token: str, place: int) -> bool:
        rng = write.rng
        history = rng.choice(self.recorder.streams)
        client = self._clients[place]
        items = self.recorder.items(rng, client, rng.choice((1, 1, 3)), rng.choice((0, 300)))
        match = history.tail_seen if rng.random() < 0.15 else None
        retries = Retries(token, write.apis, rng, ATTEMPTS_MAX)
        append = await self.recorder.append(
            rng.choice(write.apis), history, client, items, match, None, retries
        )
        if append.outcome is Outcome.UNKNOWN:
            self._clients[place] = self.recorder.new_client()
        self.result.acknowledged += append.outcome is Outcome.OK
        self.result.refused += append.outcome is Outcome.FAILED
        return append.outcome is not Outcome.UNKNOWN

    async def _create(self, write: OneWrite, token: str) -> bool:
        """The answer to a repetition is the first one: created, never a conflict with itself."""
        name = f"made-{token}"
        answer = await write.ask(
            (201, 409), "POST", "/v1/streams", {"stream": name}, basin=BASIN, request_token=token
        )
        if answer is None:
            return False
        if answer[0] != 201:
            self.result.violations.append(f"creation of {name}: {answer}")
        self._made.add(name)
        return True

    async def _issue(self, write: OneWrite, token: str) -> bool:
        body = {"id": f"issued-{token}", "scope": {"ops": ["list-basins"]}}
        path = "/v1/access-tokens"
        answer = await write.ask((201, 409), "POST", path, body, request_token=token)
        if answer is None:
            return False
        if answer[0] != 201:
            self.result.violations.append(f"issue of {body['id']}: {answer}")
        else:
            self._issued[str(body["id"])] = answer[1]["access_token"]
        return True

    # -- rounds

    async def set_up(self) -> None:
        await self._insist("POST", "/v1/basins", {"basin": BASIN})
        for number in range(STREAMS):
            await self._insist("POST", "/v1/streams", {"stream": f"stream-{number}"}, basin=BASIN)
            self.recorder.stream(BASIN, f"stream-{number}")

    async def round(self) -> None:
        whom = ROUNDS[self.result.rounds % len(ROUNDS)]
        self.result.rounds += 1
        first = self._rng.randrange(len(self.cluster.gateways))
        victims = {
            "gateway": self.cluster.gateways[first],
            "other gateway": self.cluster.gateways[1 - first],
            "leader": self.cluster.nodes[await self.cluster.wait_leader(BASIN)],
            "catalog leader": self.cluster.nodes[await self.cluster.wait_leader(None)],
        }
        async with asyncio.TaskGroup() as group:
            for place in range(len(self._clients)):
                group.create_task(self._client(place))
            await asyncio.sleep(self._rng.uniform(0, KILL_DELAY_MAX_S))
            for name in whom:
                victims[name].kill()
                self.result.kills[name] += 1
            for name in whom:
                victims[name].start()
        await self.cluster.ready()

    # -- the judgement

    async def judge(self) -> None:
        for history in self.recorder.streams:
            final = await self._read_all(history)
            seen = Counter(record.body for record in final)
            self.result.duplicates += sum(count - 1 for count in seen.values())
            for operation in history.operations:
                if getattr(operation, "outcome", None) is Outcome.OK:
                    self.result.lost += sum(body not in seen for body in operation.bodies)  # type: ignore[union-attr]
            verdict = check(history.operations, final)
            if not verdict.ok:
                self.result.violations.append(f"{history.stream}: {verdict}")
        await self._judge_names()
        await self._judge_secrets()

    async def _read_all(self, history: StreamHistory) -> list[SeenRecord]:
        final: list[SeenRecord] = []
        client = self.recorder.new_client()
        while True:
            read = await self.recorder.read(self._apis[0], history, client, len(final), 1000)
            if read is not None:
                final.extend(read.records)
                if len(final) >= (read.tail or 0):
                    return final

    async def _judge_names(self) -> None:
        there: set[str] = set()
        after = "made-"
        while True:
            path = f"/v1/streams?prefix=made-&start_after={after}"
            page = await self._insist("GET", path, None, basin=BASIN)
            there.update(one["name"] for one in page["streams"])
            if not page["has_more"]:
                break
            after = page["streams"][-1]["name"]
        if there != self._made:
            self.result.violations.append(f"streams: {len(there)} for {len(self._made)} created")

    async def _judge_secrets(self) -> None:
        for token_id, secret in self._issued.items():
            api = ChaosApi(self.cluster.urls[0], secret)
            status, _ = await api.ask("GET", "/v1/basins")
            api.close()
            if status != 200:
                self.result.violations.append(f"the secret of {token_id}: {status}")

    async def _insist(
        self, method: str, path: str, body: dict[str, Any] | None, **named: Any
    ) -> dict[str, Any]:
        write = OneWrite(self._apis, self._rng)
        token = f"{self._rng.getrandbits(128):032x}"
        answer = await write.ask((200, 201), method, path, body, request_token=token, **named)
        if answer is None:
            raise TimeoutError(f"{method} {path}")
        return answer[1]

    def close(self) -> None:
        for api in self._apis:
            api.close()


async def run(
    directory: Path, outcomes: int, *, seed: int, clients: int = CLIENTS, seconds: float = 540.0
) -> Result:
    """Rounds until there were so many ambiguous outcomes, or until the time is over."""
    begun = time.monotonic()
    async with Processes(directory) as cluster:
        one = Run(cluster, seed, clients)
        try:
            await one.set_up()
            while one.result.ambiguous < outcomes and time.monotonic() - begun < seconds:
                await one.round()
            await one.judge()
        finally:
            one.close()
    one.result.seconds = time.monotonic() - begun
    return one.result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.ambiguous", description=__doc__)
    parser.add_argument("--outcomes", type=int, default=2000, help="ambiguous ones, at least")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="writes at one time")
    parser.add_argument("--seconds", type=float, default=540.0, help="at most, for the rounds")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    log = RunLog("ambiguous")
    with tempfile.TemporaryDirectory(prefix="svc-ambiguous-") as scratch:
        result = asyncio.run(
            run(
                Path(scratch) / "cluster",
                options.outcomes,
                seed=seed,
                clients=options.clients,
                seconds=options.seconds,
            )
        )
    fields = {"seed": seed, "wanted": options.outcomes, **result.fields()}
    print(json.dumps(fields, indent=2))
    if options.record:
        log.add(fields)
    return 0 if result.ok and result.ambiguous >= options.outcomes else 1


if __name__ == "__main__":
    sys.exit(main())
