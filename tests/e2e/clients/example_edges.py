"""What the examples do at the edges: `python example_edges.py URL TOKEN_FILE BASIN NAME`.

Runs in `.venv/clients`, with `examples/` on its path. Ends with an exception at a difference.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from agents_session import StreamSession
from exactly_once import BeginningLostError, append, follow, path_of
from resumable import Run, resumable

LARGE = [f"{number} " + "é" * 6000 for number in range(100)]
TEXTS = ["a\u0085b", "c\u2028d", "e\u2029f", "g\x0bh\x0ci\x1cj\x1ek\rl\nm", "n"]


def trim(seq_num: int) -> dict[str, Any]:
    return {"headers": [["", "trim"]], "body": seq_num.to_bytes(8, "big").decode()}


async def nothing(done: list[str]) -> AsyncIterator[str]:
    assert done == ["never"], f"a run without its beginning was gone on with: {done}"
    yield ""


async def refused(asked: Any) -> None:
    """It must end with BeginningLostError."""
    try:
        async with asyncio.timeout(20):
            await asked
    except BeginningLostError:
        return
    raise AssertionError("what has lost its beginning was taken for the whole")


class Edges:
    """Each method is one of the names."""

    def __init__(self, url: str, token: str, basin: str) -> None:
        self.given: dict[str, Any] = {
            "base_url": url,
            "headers": {"authorization": f"Bearer {token}"},
            "timeout": 20,
        }
        self.basin = basin

    async def lines(self) -> None:
        """Only LF ends a line of events, whatever else Unicode calls one."""
        path = path_of(self.basin, "lines")
        with httpx.Client(**self.given) as client:
            append(client, path, TEXTS)
            _, records = next(follow(client, path))
        assert [record["body"] for record in records] == TEXTS, records

    async def lost_run(self) -> None:
        """Of a run a part is gone, or all of it: it is refused, and nothing is appended."""
        async with httpx.AsyncClient(**self.given) as client:
            run = Run(client, self.basin, "lost run")
            assert await run.append(0, [{"body": "0"}, {"body": "1"}, trim(1)]) == 3
            await refused(resumable(run, nothing))
            assert await run.append(3, [trim(4)]) == 4
            await refused(resumable(run, nothing))
            assert await run.append(4, [{"body": "nobody came between"}]) == 5

    async def commanded_run(self) -> None:
        """A command to the stream is no event, and takes a number nevertheless."""

        async def events(done: list[str]) -> AsyncIterator[str]:
            assert done == ["0"], done
            yield "1"

        async with httpx.AsyncClient(**self.given) as client:
            run = Run(client, self.basin, "commanded run")
            await run.append(0, [{"body": "0"}])
            await run.append(1, [{"headers": [["", "fence"]], "body": "somebody"}])
            assert await resumable(run, events) == 2
            assert await run.done() == (["0", "1"], 4, True)

    async def large_run(self) -> None:
        """What waits is more than an append may have: it goes in several."""

        async def events(_: list[str]) -> AsyncIterator[str]:
            for event in LARGE:
                yield event

        async with httpx.AsyncClient(**self.given) as client:
            run = Run(client, self.basin, "large run")
            assert await resumable(run, events) == len(LARGE)
            assert await run.done() == (LARGE, len(LARGE) + 1, True)

    async def lost_session(self) -> None:
        """A history without its beginning is refused until the conversation is cleared."""
        items: list[Any] = [{"role": "user", "content": str(number)} for number in range(3)]
        async with httpx.AsyncClient(**self.given) as client:
            session = StreamSession(client, self.basin, "lost")
            await session.add_items(items)
            run = Run(client, self.basin, "sessions/lost")
            await run.append(3, [trim(1)])
            await refused(session.get_items())
            await refused(session.pop_item())
            await session.clear_session()
            assert await session.get_items() == []
            await session.add_items(items)
            assert await session.get_items() == items

    async def large_session(self) -> None:
        """More than an append may have, by its bytes and by its records."""
        items: list[Any] = [{"role": "user", "content": text} for text in LARGE]
        items += [{"role": "user", "content": str(number)} for number in range(1500)]
        async with httpx.AsyncClient(**self.given) as client:
            session = StreamSession(client, self.basin, "large")
            await session.add_items(items)
            assert await session.get_items() == items


if __name__ == "__main__":
    url, token_file, basin, name = sys.argv[1:]
    asyncio.run(getattr(Edges(url, Path(token_file).read_text().strip(), basin), name)())
    print("ok")
