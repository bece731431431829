"""This is what `svc-cluster local --demo` shows once the cluster is ready. It shows the same calls
a user would make with curl, and their answers. Uses the public API only."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final

import msgspec
from rich.console import Console

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.tasks import Tasks
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord, records_path

BASIN: Final = "demo-basin"
STREAM: Final = "greetings"
_SET_UP_S: Final = 30.0
_FOLLOW_S: Final = 10.0


async def run_demo(
    url: str,
    console: Console | None = None,
    clock: Clock | None = None,
    tls: ssl.SSLContext | None = None,
) -> bool:
    """Append, read and follow on a stream of `url`, printing each call and its answer. Returns
    whether all of it worked; never raises for an answer of the service."""
    console = console or Console()
    clock = clock or SystemClock()
    api = ApiClient(url, tls)
    try:
        await api.make(clock, BASIN, None, _SET_UP_S)
        await api.make(clock, BASIN, STREAM, _SET_UP_S)
        return await _show(api, url, console)
    except Exception as error:
        console.print(f"the demonstration stopped: {error}", style="red", markup=False)
        return False
    finally:
        api.close()


async def _show(api: ApiClient, url: str, console: Console) -> bool:
    def say(call: str, answer: str) -> None:
        console.print(f"$ {call}", style="bold", highlight=False, markup=False, soft_wrap=True)
        console.print(answer, highlight=False, markup=False, soft_wrap=True)

    target = url + records_path(STREAM)
    header = f"-H 'svc-basin: {BASIN}' -H 'svc-format: utf8'"
    first = await _append(api, ["hello", "world"])
    say(
        f'curl {header} --json \'{{"records":[{{"body":"hello"}},{{"body":"world"}}]}}\' {target}',
        first.decode(),
    )
    start = int(msgspec.json.decode(first)["start"]["seq_num"])
    headers = {"svc-basin": BASIN, "svc-format": "utf8"}
    query = f"?seq_num={start}&count=10"
    answer = await api.http.request("GET", records_path(STREAM) + query, headers)
    say(f"curl {header} '{target}{query}'", answer.body.decode())
    follow = f"?seq_num={start}"
    console.print(
        f"$ curl -N {header} -H 'accept: text/event-stream' '{target}{follow}'",
        style="bold",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    seen = await _follow(api, headers, follow, console)
    console.print(
        f"ready at {url}" if seen else "following failed",
        style="green" if seen else "red",
        highlight=False,
    )
    return seen and answer.status == 200


async def _append(api: ApiClient, bodies: list[str]) -> bytes:
    answer = await api.append(BASIN, STREAM, [AppendRecord(body.encode()) for body in bodies])
    if answer.status != 200:
        raise ConnectionLostError(f"{answer.status}: {answer.body!r}", sent=True)
    return answer.body


async def _follow(api: ApiClient, headers: dict[str, str], query: str, console: Console) -> bool:
    """Follow from `query`, append one more record once caught up, and stop when it arrives."""
    tasks = Tasks()
    seen, told = b"", 0
    path = records_path(STREAM) + query
    accept = headers | {"accept": "text/event-stream"}
    try:
        pieces = api.connection().stream(path, accept)
        async with asyncio.timeout(_FOLLOW_S), contextlib.aclosing(pieces):
            async for piece in pieces:
                is_first = b"hello" not in seen
                seen += piece
                if is_first and b"hello" in seen:
                    tasks.spawn(_append(api, ["and this one was followed live"]), "append")
                # a piece of the answer may end in the middle of a line
                whole = seen.rfind(b"\n") + 1
                for line in seen[told:whole].decode().splitlines():
                    if line:
                        console.print(line, highlight=False, markup=False, soft_wrap=True)
                told = whole
                if b"followed live" in seen[:told]:
                    break
    except (TimeoutError, ConnectionLostError):
        return False
    finally:
        await tasks.cancel_all()
    return b"followed live" in seen
