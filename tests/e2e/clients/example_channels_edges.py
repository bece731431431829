"""What a channel layer does at its edges, by name: URL TOKEN_FILE BASIN NAME.

Runs in `.venv/clients`, with `examples/` on its path. Ends with an exception at a difference.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import httpx
from asgiref.testing import ApplicationCommunicator
from channels.consumer import AsyncConsumer
from channels.layers import channel_layers
from django.conf import settings
from exactly_once import path_of

STRANGE = ["", "no JSON", "[1]", "3", "{}", '{"message": 3}', '{"to": ["x"], "message": {"a": 1}}']


class Member(AsyncConsumer):  # type: ignore[misc]  # the library has no types
    """Joins two groups, and leaves none."""

    async def chat_join(self, _: dict[str, Any]) -> None:
        for group in ("one", "two"):
            await self.channel_layer.group_add(group, self.channel_name)
        await self.send({"type": "joined"})


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def ended_consumers() -> None:
    """Nothing is left of a consumer that has ended, though it has discarded no group."""
    layer = channel_layers["default"]
    for _ in range(3):
        opened = ApplicationCommunicator(Member(), {"type": "chat"})
        await opened.send_input({"type": "chat.join"})
        assert await opened.receive_output(20) == {"type": "joined"}
        assert len(layer._queues) == 1 and len(layer._members) == 2
        opened.stop()
        await until(lambda: not layer._queues)
        assert not layer._members and list(layer._followers) == [layer._inbox]


async def strange_records() -> None:
    """Records that no layer has written are passed over."""
    layer = channel_layers["default"]
    channel = await layer.new_channel()
    await layer.group_add("strange", channel)
    path = path_of(settings.PLACE["basin"], "group.strange")
    records: list[dict[str, Any]] = [{"body": text} for text in STRANGE]
    records += [{}, {"body": "[" * 100_000}, {"headers": [["", "fence"]], "body": "somebody"}]
    async with httpx.AsyncClient(base_url=settings.PLACE["url"]) as client:
        headers = layer._client.headers
        body = json.dumps({"records": records})
        (await client.post(f"{path}/append", headers=headers, content=body)).raise_for_status()
    await layer.group_send("strange", {"type": "ours"})
    async with asyncio.timeout(20):
        assert await layer.receive(channel) == {"type": "ours"}


class Kept(logging.Handler):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record)


async def failed_followers() -> None:
    """What follows no more says so, and the next one that joins follows anew."""
    kept = Kept()
    logging.getLogger("channels_layer").addHandler(kept)
    layer, other = channel_layers["default"], channel_layers["other"]
    channels = [await layer.new_channel(), await layer.new_channel()]
    await layer.group_add("failed", channels[0])
    await other.group_send("failed", {"type": "before"})
    async with asyncio.timeout(20):
        assert await layer.receive(channels[0]) == {"type": "before"}
    good = layer._client.headers["authorization"]
    layer._client.headers["authorization"] = "Bearer none"
    await other.group_send("failed", {"type": "more"})
    await until(lambda: "group.failed" not in layer._followers)
    layer._client.headers["authorization"] = good
    assert any(each.exc_info and "group.failed" in each.getMessage() for each in kept.told)
    await layer.group_add("failed", channels[1])
    await other.group_send("failed", {"type": "again"})
    async with asyncio.timeout(20):
        found = [await layer.receive(channel) for channel in channels]
        if found[0] == {"type": "more"}:  # it came before the layer was refused
            found[0] = await layer.receive(channels[0])
    assert found == [{"type": "again"}] * 2


async def main(name: str) -> None:
    try:
        await globals()[name]()
    finally:
        for alias in ("default", "other"):
            await channel_layers[alias].close()


if __name__ == "__main__":
    url, token_file, basin, asked = sys.argv[1:]
    token = Path(token_file).read_text().strip()
    place = {"url": url, "basin": basin, "token": token}
    layer = {"BACKEND": "channels_layer.StreamChannelLayer", "CONFIG": place}
    settings.configure(CHANNEL_LAYERS={"default": layer, "other": layer}, PLACE=place)
    django.setup()
    asyncio.run(main(asked))
    print("ok")
