"""Runs that outlive the worker that writes them and the page that shows them.

`resumable(run, events)` writes what an asynchronous iterator gives into a stream, detached from
whoever looks on. A worker that dies is started again with the same stream: `events` is called with
what stands there already and gives what comes behind it. Of two workers that write one run, one
goes on and the other ends with SupersededError, so nothing is lost and nothing is doubled. (A
worker's own last append, sent before it died, counts as another's: start it once more then.)
A run whose beginning has expired is not gone on with: BeginningLostError.

A page follows the same stream by itself (`browser/resumable.js`), a program by
`exactly_once.follow`: from the first event on, or behind the last one it has seen.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from exactly_once import PAUSE_SECONDS, batches, path_of, whole

BATCH_RECORDS = 100
WAITING_EVENTS_MAX = 1000
PAGE_RECORDS = 1000
END = ["end", ""]
"""The header of a run's last record, which has no body: whoever follows it may stop there."""
LAST: dict[str, Any] = {"headers": [END]}

Events = Callable[[list[str]], AsyncIterator[str]]


class SupersededError(Exception):
    """Another worker has written to the run meanwhile: it goes on, this one ends."""


class Run:
    """One run: a stream of its own."""

    def __init__(self, client: httpx.AsyncClient, basin: str, stream: str) -> None:
        self._client = client
        self._path = path_of(basin, stream)

    async def done(self) -> tuple[list[str], int, bool]:
        """Return the events that are safe, the sequence number behind them, and whether the run has
        ended. Raises BeginningLostError where some of them have expired."""
        found: list[str] = []
        at = 0
        while True:
            query = {"seq_num": at, "count": PAGE_RECORDS, "clamp": "true"}
            page = (await self._ask("GET", "read", params=query)).json()
            for record in whole(page, at):
                at = record["seq_num"] + 1
                headers = record.get("headers", [])
                if END in headers:
                    return found, at, True
                if [name for name, _ in headers] != [""]:  # a command to the stream is no event
                    found.append(record.get("body", ""))
            if at >= page["tail"]["seq_num"]:
                return found, at, False

    async def append(self, at: int, records: list[dict[str, Any]]) -> int:
        """Append at the sequence number `at`; return the one behind. Every attempt has the same
        request token, so a refusal by the condition is another worker's doing."""
        body = {"match_seq_num": at, "records": records}
        token = {"svc-request-token": uuid.uuid4().hex}
        answer = await self._ask("POST", "append", json=body, headers=token)
        return int(answer.json()["end"]["seq_num"])

    async def _ask(self, method: str, verb: str, **given: Any) -> httpx.Response:
        headers = {"svc-format": "utf8"} | given.pop("headers", {})
        url = f"{self._path}/{verb}"
        while True:
            try:
                answer = await self._client.request(method, url, headers=headers, **given)
            except httpx.TransportError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.status_code == 412:
                raise SupersededError(answer.text)
            if answer.status_code not in (408, 429) and answer.status_code < 500:
                return answer.raise_for_status()
            await asyncio.sleep(int(answer.headers.get("retry-after-ms", 200)) / 1000)


async def resumable(run: Run, events: Events) -> int:
    """Write the rest of a run and its end; return how many events it has. What comes while an
    append is under way goes with the next one, at most WAITING_EVENTS_MAX."""
    done, begin, is_over = await run.done()
    if is_over:
        return len(done)
    waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(WAITING_EVENTS_MAX)

    async def write() -> int:
        at, count, is_whole = begin, len(done), False
        while not is_whole:
            records = [await waiting.get()]
            while len(records) < BATCH_RECORDS and not waiting.empty():
                records.append(waiting.get_nowait())
            for batch in batches(records):
                at = await run.append(at, batch)
            is_whole = records[-1] is LAST
            count += len(records) - is_whole
        return count

    try:
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(write())
            async for event in events(done):
                await waiting.put({"body": event})
            await waiting.put(LAST)
    except ExceptionGroup as group:
        raise group.exceptions[0] from group  # what the caller knows by its name
    return writing.result()
