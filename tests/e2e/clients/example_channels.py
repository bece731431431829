"""Two processes' worth of a channel layer: `python example_channels.py URL TOKEN_FILE BASIN`.

It says `half` and waits for a line before the second half, for whoever ends the gateway between.
Runs in `.venv/clients`, with `examples/` on its path. Ends with an exception at a difference.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import django
from asgiref.testing import ApplicationCommunicator
from channels.consumer import AsyncConsumer
from channels.exceptions import ChannelFull
from channels.layers import channel_layers
from django.conf import settings

MESSAGES = 50


class Chat(AsyncConsumer):  # type: ignore[misc]  # the library has no types
    """Hands on to its page what its group is sent."""

    async def chat_join(self, _: dict[str, Any]) -> None:
        await self.channel_layer.group_add("room", self.channel_name)
        await self.send({"type": "joined"})

    async def chat_text(self, event: dict[str, Any]) -> None:
        await self.send({"type": "page", "text": event["text"]})


async def page(number: int) -> ApplicationCommunicator:
    """A page that has joined; even and odd ones are of another process."""
    Chat.channel_layer_alias = ("default", "other")[number % 2]
    opened = ApplicationCommunicator(Chat(), {"type": "chat"})
    await opened.send_input({"type": "chat.join"})
    assert await opened.receive_output(20) == {"type": "joined"}
    return opened


async def main() -> None:
    one, other = channel_layers["default"], channel_layers["other"]
    pages = [await page(number) for number in range(4)]
    for half in ("first", "second"):
        for number in range(MESSAGES):
            sender = (one, other)[number % 2]
            await sender.group_send("room", {"type": "chat.text", "text": f"{half} {number}"})
        for opened in pages:
            texts = [(await opened.receive_output(20))["text"] for _ in range(MESSAGES)]
            assert texts == [f"{half} {number}" for number in range(MESSAGES)], texts
            assert await opened.receive_nothing()
        if half == "first":
            print("half", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    inbox = await one.new_channel()
    await other.send(inbox, {"type": "direct"})
    assert await one.receive(inbox) == {"type": "direct"}
    await one.group_add("small", inbox)
    await one.group_discard("small", inbox)
    await other.group_send("small", {"type": "to nobody"})
    for number in range(one.capacity):
        await one.send(inbox, {"number": number})
    while one._queues[inbox].qsize() < one.capacity:
        await asyncio.sleep(0.01)
    try:
        await one.send(inbox, {"number": "one too many"})
        raise AssertionError("a full channel took another message")
    except ChannelFull:
        pass
    for opened in pages:
        opened.stop()
    await one.close()
    await other.close()
    print("a channel layer: ok")


if __name__ == "__main__":
    url, token_file, basin = sys.argv[1:]
    token = Path(token_file).read_text().strip()
    place = {"url": url, "basin": basin, "token": token}
    layer = {"BACKEND": "channels_layer.StreamChannelLayer", "CONFIG": place}
    settings.configure(CHANNEL_LAYERS={"default": layer, "other": layer})
    django.setup()
    asyncio.run(main())
