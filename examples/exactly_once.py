"""Append exactly once, and follow without a gap, over plain httpx.

`append` sends a batch under one request token until the answer is definite: however often it is
asked, the batch is carried out once. `follow` goes on behind the last event that it has seen,
through whatever ends its connection. Both take the path of a stream (`path_of`). `whole` is for
those who replay a stream from its beginning, `batches` for those who append more than fits at once.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

PAUSE_SECONDS = 0.2
PATIENCE = httpx.Timeout(10, read=30)  # a stream at rest has an event at least every 15 s
BATCH_RECORDS_MAX = 1000
BATCH_BYTES_MAX = 900_000
"""The service takes 1 MiB (1,048,576), of which each record counts 8 and each header 2 besides."""


class BeginningLostError(Exception):
    """Retention or a trim has taken what a stream began with: what is left is not the whole."""


def path_of(basin: str, stream: str) -> str:
    return f"/v1/basins/{basin}/streams/{quote(stream, safe='')}"


def append(client: httpx.Client, path: str, bodies: list[str], token: str = "") -> int:
    """Return the sequence number of the first. Who may die between two attempts names a `token`
    (1 to 36 characters) that the next one will name again, made of what is appended."""
    body = {"records": [{"body": text} for text in bodies]}
    headers = {"svc-format": "utf8", "svc-request-token": token or uuid.uuid4().hex}
    while True:
        try:
            answer = client.post(f"{path}/append", json=body, headers=headers)
        except httpx.TransportError:  # it may have happened: the token keeps it from doubling
            time.sleep(PAUSE_SECONDS)
            continue
        if answer.status_code in (408, 429) or answer.status_code >= 500:
            time.sleep(int(answer.headers.get("retry-after-ms", PAUSE_SECONDS * 1000)) / 1000)
            continue
        answer.raise_for_status()
        return int(answer.json()["start"]["seq_num"])


def follow(
    client: httpx.Client, path: str, last_event_id: str = ""
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield an id and the records of each batch, from the first on or behind `last_event_id`. Who
    keeps the id with what came of the records goes on exactly there after a restart."""
    while True:
        headers = {"accept": "text/event-stream", "svc-format": "utf8"}
        if last_event_id:
            headers["last-event-id"] = last_event_id
        query = {"seq_num": "0", "clamp": "true"}
        try:
            with client.stream(
                "GET", f"{path}/read", params=query, headers=headers, timeout=PATIENCE
            ) as answer:
                if answer.status_code != 429 and answer.status_code < 500:
                    answer.raise_for_status()
                    for event in events(lines_of(answer.iter_bytes())):
                        if event.get("event") == "batch":
                            last_event_id = event["id"]
                            yield last_event_id, json.loads(event["data"])["records"]
        except httpx.TransportError:
            pass  # the gateway is gone, or it was silent for too long: ask another connection
        time.sleep(PAUSE_SECONDS)


def lines_of(chunks: Iterator[bytes]) -> Iterator[str]:
    """Yield lines that end with LF, and nothing else: a record's text may have U+2028 in it."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in lines)


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Yield whole events only: what was cut off is asked for again."""
    event: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            event[name] = value
        else:
            yield event
            event = {}


def whole(page: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Return the records of a page that was asked for from `at` on. Raises BeginningLostError where
    it begins elsewhere: a read below the first record that is kept begins there."""
    records: list[dict[str, Any]] = page["records"]
    begin = records[0]["seq_num"] if records else page["tail"]["seq_num"]
    if begin != at:
        raise BeginningLostError(f"record {at} is not there, the next one is {begin}")
    return records


def batches(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the records in as many appends as they need. A record that is too large by itself is
    an append of its own, which the service refuses."""
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        headers = sum(2 + len((name + value).encode()) for name, value in record.get("headers", []))
        more = 8 + headers + len(record.get("body", "").encode())
        if batch and (len(batch) == BATCH_RECORDS_MAX or size + more > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += more
    if batch:
        yield batch
