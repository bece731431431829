"""A worker with a fake model: `python example_worker.py URL TOKEN_FILE BASIN STREAM EVENTS`.

It ends with 3 where another worker has gone on. Runs in `.venv/clients`, with `examples/` on its
path.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
from resumable import Run, SupersededError, resumable


def model_events(count: int) -> list[str]:
    """What the fake model says, whoever asks it. Each ends with what Unicode takes for ends of
    lines, and events do not."""
    return [f"token {number} of {count}\u0085\u2028\u2029" for number in range(count)]


async def main(url: str, token_file: str, basin: str, stream: str, count: int) -> int:
    async def events(done: list[str]) -> AsyncIterator[str]:
        said = model_events(count)
        assert done == said[: len(done)], "what is safe is not what was said"
        for event in said[len(done) :]:
            await asyncio.sleep(0)  # a model takes its time
            yield event

    token = Path(token_file).read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as client:
        try:
            found = await resumable(Run(client, basin, stream), events)
        except SupersededError:
            return 3
    assert found == count, found
    return 0


if __name__ == "__main__":
    place = (sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
    sys.exit(asyncio.run(main(*place, int(sys.argv[5]))))
