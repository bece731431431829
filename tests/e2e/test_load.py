"""The fault tests' own writers and verdicts, against a small service that can be told to lie."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.load import StreamWriter, TailWatcher, Verdict


@dataclass
class Lies:
    """What goes wrong, as shares of the appends."""

    cut_before: float = 0.0  # the connection is cut, nothing was appended
    cut_after: float = 0.0  # the connection is cut, all was appended
    refuse: float = 0.0  # 503 without effect, truly
    false_refusal: float = 0.0  # 503 "without effect" of an append that was done
    lose: float = 0.0  # acknowledged and not kept
    double: float = 0.0  # appended twice
    stale_tail: bool = False


@dataclass
class Service:
    """One stream in memory behind as much HTTP as the writers use."""

    lies: Lies
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    log: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target = head.split()[:2]
        length = next(
            (int(line[16:]) for line in head.split("\r\n") if line.startswith("content-length: ")),
            0,
        )
        body = await reader.readexactly(length)
        if method == "GET" and target.endswith("/tail"):
            answer: tuple[int, dict[str, Any]]
            shown = self.log[:-30] if self.lies.stale_tail else self.log
            answer = (200, {"tail": {"seq_num": len(shown), "timestamp": 1}})
        elif method == "GET":
            start = int(target.partition("seq_num=")[2].partition("&")[0])
            page = enumerate(self.log[start : start + 1000], start)
            records: list[Any] = [
                {"seq_num": at, "timestamp": 1, "body": text} for at, text in page
            ]
            answer = (200, {"records": records})
        else:
            done = self._append(json.loads(body))
            if done is None:
                return False
            answer = done
        status, value = answer
        content = json.dumps(value).encode()
        effects = "svc-side-effects: none\r\n" if status == 503 else ""
        writer.write(
            f"HTTP/1.1 {status} x\r\n{effects}content-length: {len(content)}\r\n\r\n".encode()
        )
        writer.write(content)
        await writer.drain()
        return True

    def _append(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        bodies = [record["body"] for record in request["records"]]
        if request["match_seq_num"] != len(self.log):
            return 412, {"seq_num_mismatch": len(self.log)}
        start = len(self.log)
        if self.rng.random() < self.lies.cut_before:
            return None
        if self.rng.random() < self.lies.refuse:
            return 503, {"error": "unavailable"}
        if self.rng.random() >= self.lies.lose:
            self.log += bodies
        if self.rng.random() < self.lies.double:
            self.log += bodies
        if self.rng.random() < self.lies.cut_after:
            return None
        if self.rng.random() < self.lies.false_refusal:
            return 503, {"error": "unavailable"}
        end = {"seq_num": start + len(bodies), "timestamp": 1}
        return 200, {"start": {"seq_num": start, "timestamp": 1}, "end": end, "tail": end}


def outcome(
    lies: Lies, meddle: Callable[[Service], None] = lambda service: None
) -> tuple[Verdict, list[str], StreamWriter]:
    """Write for a while against a service with these lies; what writer, watcher and final read
    found."""

    async def main() -> tuple[Verdict, list[str], StreamWriter]:
        service = Service(lies)
        server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            writer = StreamWriter(url, "b", "s")
            watcher = TailWatcher(writer)
            tasks = [asyncio.create_task(writer.run()), asyncio.create_task(watcher.run())]
            async with asyncio.timeout(20):
                # The watcher's answers are waited for too: on a busy machine sixty appends may
                # pass before its second question.
                while (len(writer.outcomes) < 60 or watcher.answers < 20) and not (
                    writer.violations or watcher.violations
                ):
                    await asyncio.sleep(0.005)
            writer.stopping = watcher.stopping = True
            await asyncio.gather(*tasks)
            meddle(service)
            verdict = await writer.verify()
            return verdict, writer.violations + watcher.violations, writer

    return asyncio.run(main())


def test_an_honest_service_with_bad_connections_is_found_clean() -> None:
    """Lost answers and true refusals are resolved to exactly one copy of each record."""
    verdict, violations, writer = outcome(Lies(cut_before=0.1, cut_after=0.1, refuse=0.1))
    assert verdict.clean, verdict
    assert not violations
    assert 60 < verdict.acknowledged <= verdict.found <= verdict.acknowledged + writer.batch
    assert writer.ambiguous > 0
    assert any(done.ambiguous for done in writer.outcomes)


@pytest.mark.parametrize(
    "lies",
    [Lies(lose=0.1), Lies(double=0.1), Lies(false_refusal=0.1), Lies(stale_tail=True)],
    ids=["lost", "doubled", "false refusal", "stale tail"],
)
def test_every_lie_is_found_out_while_it_happens(lies: Lies) -> None:
    """Loss, doubling, a false claim of no effect and a stale tail each become a violation."""
    _, violations, _ = outcome(lies)
    assert violations


def lose_the_end(service: Service) -> None:
    del service.log[-5:]


def swap_two(service: Service) -> None:
    service.log[3], service.log[9] = service.log[9], service.log[3]


def repeat_one(service: Service) -> None:
    service.log.append(service.log[4])


def invent_one(service: Service) -> None:
    service.log.append(base64.b64encode(b"from nowhere").decode())


@pytest.mark.parametrize("meddle", [lose_the_end, swap_two, repeat_one, invent_one])
def test_the_final_read_finds_what_was_done_to_the_log(meddle: Callable[[Service], None]) -> None:
    """A log that lost, swapped, repeated or gained records is not clean."""
    verdict, violations, _ = outcome(Lies(), meddle)
    assert not violations
    assert not verdict.clean
