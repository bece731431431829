"""An agent with a fake model and a session: `python example_agents.py URL TOKEN_FILE BASIN`.

Runs in `.venv/clients`, with `examples/` on its path. Ends with an exception at a difference.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.memory import Session
from agents_session import StreamSession
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class FakeModel(Model):  # type: ignore[misc]  # the library is not in this environment
    """Says how many items of history it was shown."""

    async def get_response(self, **given: Any) -> Any:
        text = ResponseOutputText(
            text=f"saw {len(given['input'])}", type="output_text", annotations=[]
        )
        message = ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, **_: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def main(url: str, token_file: str, basin: str) -> None:
    set_tracing_disabled(True)
    token = Path(token_file).read_text().strip()
    agent = Agent(name="counter", model=FakeModel())
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as client:

        def opened() -> StreamSession:
            return StreamSession(client, basin, "conversation/7")

        assert isinstance(opened(), Session)
        for turn in range(3):  # a worker of its own each time: nothing is kept in memory
            said = await Runner.run(agent, f"turn {turn}", session=opened())
            assert said.final_output == f"saw {2 * turn + 1}", said.final_output
        items = await opened().get_items()
        assert [item["role"] for item in items] == ["user", "assistant"] * 3
        assert (await opened().get_items(limit=2)) == items[-2:]
        taken = await asyncio.gather(*(opened().pop_item() for _ in range(3)))
        assert sorted(map(str, taken)) == sorted(map(str, items[-3:])), "each takes another one"
        assert await opened().get_items() == items[:3]
        await opened().clear_session()
        assert await opened().get_items() == [] and await opened().pop_item() is None
        await opened().add_items(items)
        assert await opened().get_items() == items
        other = StreamSession(client, basin, "conversation/8")
        assert await other.get_items() == []
    print("an agent's history: ok")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
