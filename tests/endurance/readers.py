"""Who reads during a soak, and what each answer must be: what the writer had appended there."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from svc_cluster.http.client import ConnectionLostError, HttpResponse
from svc_cluster.lab.api_client import ApiClient, decode_batch
from tests.e2e.load import StreamWriter

PAUSE_S = 0.05
COUNT = 20
WAIT_S = 5


@dataclass(slots=True)
class Findings:
    """Of all readers: answers that were compared, records in them, and what was not as it is."""

    reads: int = 0
    records: int = 0
    followed: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


def compared(writer: StreamWriter, start: int, there: int, answer: HttpResponse) -> str | int:
    """What is wrong with an answer to a read at `start`, below the tail `there` that had been
    acknowledged when it was asked; else how many records were as the writer wrote them.

    What is behind the writer's acknowledged records is not judged: nobody knows yet what it is.
    """
    where = f"{writer.stream} at {start} below {there}"
    if answer.status != 200:
        is_wrong = answer.status == 404 or (answer.status == 416 and start < there)
        return f"{where}: {answer.status}" if is_wrong else 0
    try:
        records = decode_batch(answer.body)
    except msgspec.DecodeError as error:
        return f"{where}: not a batch: {error}"
    if not records and start < there:
        return f"{where}: no records"
    for number, record in enumerate(records, start):
        if record.seq_num != number:
            return f"{where}: record {record.seq_num} for {number}"
        if number < len(writer.log) and record.body != writer.log[number]:
            return f"{where}: record {number} is not what was appended"
    return min(len(records), max(0, len(writer.log) - start))


async def read_ranges(
    writers: Sequence[StreamWriter], rng: random.Random, found: Findings, stop: asyncio.Event
) -> None:
    """Ranges of what was acknowledged, at any place, until `stop`."""
    api = ApiClient(writers[0].url)
    try:
        while not stop.is_set():
            writer = rng.choice(writers)
            there = len(writer.log)
            start = rng.randint(0, max(0, there - 1))
            with contextlib.suppress(ConnectionLostError):
                query = f"seq_num={start}&count={COUNT}"
                answer = await api.read(writer.basin, writer.stream, query)
                verdict = compared(writer, start, there, answer)
                if isinstance(verdict, str):
                    found.wrong.append(verdict)
                elif answer.status == 200:
                    found.reads += 1
                    found.records += verdict
                else:
                    found.refused += 1
            await asyncio.sleep(PAUSE_S)
    finally:
        api.close()


async def follow(writer: StreamWriter, found: Findings, stop: asyncio.Event) -> None:
    """The stream from its beginning, each record once and in order, as it comes, until `stop`. What
    comes before its writer knows of it is compared when it does."""
    api = ApiClient(writer.url)
    place = 0
    try:
        while not stop.is_set():
            there = len(writer.log)
            answer = None
            with contextlib.suppress(ConnectionLostError):
                query = f"seq_num={place}&count=1000&wait={WAIT_S}"
                answer = await api.read(writer.basin, writer.stream, query, timeout_s=WAIT_S + 10)
            if answer is None or answer.status not in (200, 404, 416):
                await asyncio.sleep(PAUSE_S)
                continue
            verdict = compared(writer, place, there, answer)
            if isinstance(verdict, str):
                found.wrong.append(f"follower: {verdict}")
                return
            place += verdict
            found.followed += verdict
            if verdict == 0:
                await asyncio.sleep(PAUSE_S)
    finally:
        api.close()
