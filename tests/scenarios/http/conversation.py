"""Plays a golden conversation over HTTP: blocks of a request, `----`, and the answer's bytes.

GET /v1/basins?limit=1     the method and the target, first in each block
header name: value         a header of the request
text {...}                 its body, as text
frame 0a0b                 its body, as frames of a session, each with such a payload
advance 0.5                let that many seconds pass first

The answer is its status, its headers in order, and its body: JSON as text, all else in hexadecimal.
What an answer that ends tells caches is left out (tests/contract/test_caching.py has it).
The gateway is the real one, its cluster is in memory, its time is virtual, its chance has a seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from pathlib import Path
from typing import Final

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.http.message import BytesBody, Request, Response
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run

SEPARATOR: Final = "----"
BYTES_PER_LINE: Final = 40
AGENT: Final = ("user-agent", "s2-cli/0.43.4 (channel=release)")
"""The one mark of the dialect that every request of S2's command has."""


def blocks_of(path: Path) -> list[tuple[list[str], list[str]]]:
    """The request and the expected lines of each block; blocks are apart by an empty line."""
    blocks = []
    for text in path.read_text().strip().split("\n\n"):
        commands, _, expected = text.partition(f"\n{SEPARATOR}")
        blocks.append((commands.splitlines(), expected.strip("\n").splitlines()))
    return blocks


def play(requests: list[list[str]]) -> list[list[str]]:
    """What a new gateway answers to these requests, one after the other."""

    async def main() -> list[list[str]]:
        loop = asyncio.get_running_loop()
        clock = SimClock(loop)
        backend = MemoryBackend(clock)
        app = GatewayApp(backend, clock=clock, rng=random.Random(7), metrics=Metrics())
        answers = [await _answer(app, lines) for lines in requests]
        await app.close()
        return answers

    answers: list[list[str]] = run(lambda loop: main())
    return answers


def rewrite(path: Path) -> None:
    """Put down what is answered now. Only for differences that are understood."""
    requests = [commands for commands, _ in blocks_of(path)]
    texts = [
        "\n".join([*commands, SEPARATOR, *answer])
        for commands, answer in zip(requests, play(requests), strict=True)
    ]
    path.write_text("\n\n".join(texts) + "\n")


async def _answer(app: GatewayApp, lines: list[str]) -> list[str]:
    lines = [line for line in lines if not line.startswith("#")]
    for line in lines:
        if line.startswith("advance "):
            await asyncio.sleep(float(line.removeprefix("advance ")))
    return await _lines_of(await app.handle(_request_of(lines)))


def _request_of(lines: list[str]) -> Request:
    method, target = lines[0].split()
    path, _, query = target.partition("?")
    headers: list[tuple[str, str]] = [AGENT]
    body = b""
    for line in lines[1:]:
        verb, _, rest = line.partition(" ")
        if verb == "header":
            name, _, value = rest.partition(": ")
            headers.append((name, value))
        elif verb == "text":
            body += rest.encode()
        elif verb == "frame":
            payload = bytes.fromhex(rest)
            body += (len(payload) + 1).to_bytes(3, "big") + b"\0" + payload
    if body:
        headers.append(("content-length", str(len(body))))
    return Request(method, path, query, headers, BytesBody(body))


async def _lines_of(response: Response) -> list[str]:
    body = response.body
    left_out = {"x-request-id"}
    if isinstance(body, bytes):
        left_out |= {"cache-control", "etag", "vary"}
    else:
        body = b"".join([piece async for piece in body])
    lines = [
        str(response.status),
        *(f"{name}: {value}" for name, value in response.headers if name not in left_out),
    ]
    if not body:
        return lines
    if ("content-type", "application/json") in response.headers:
        return [*lines, body.decode()]
    return lines + [
        body[start : start + BYTES_PER_LINE].hex() for start in range(0, len(body), BYTES_PER_LINE)
    ]


def digest(path: Path) -> str:
    """16 hexadecimal digits over the conversation's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
