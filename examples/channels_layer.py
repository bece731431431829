"""A channel layer for Django Channels: groups and inboxes are streams.

    CONFIG = {"url": "http://localhost:8080", "basin": "my-channels"}
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_layer.StreamChannelLayer", "CONFIG": CONFIG}
    }

The basin makes streams on append and on read. What was sent to a group after `group_add` has
returned reaches every member of it, through the end of any connection, once; the layer promises
less (a message may be lost), and so does a full queue here. Messages are JSON. A channel ends, and
leaves its groups, when a `receive` of it is cancelled, as Channels does when its consumer ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import defaultdict
from typing import Any

import httpx
from channels.exceptions import ChannelFull
from channels.layers import BaseChannelLayer
from exactly_once import PAUSE_SECONDS, path_of

WAIT_SECONDS = 10
QUERY: dict[str, Any] = {"wait": WAIT_SECONDS, "count": 1000, "clamp": "true"}
logger = logging.getLogger(__name__)


class StreamChannelLayer(BaseChannelLayer):  # type: ignore[misc]  # the library has no types
    """One of a process and event loop: `close` ends what it follows."""

    extensions = ("groups",)

    def __init__(
        self, url: str, basin: str, token: str = "", capacity: int = 100, **more: Any
    ) -> None:
        super().__init__(capacity=capacity, **more)
        headers = {"svc-format": "utf8"} | ({"authorization": f"Bearer {token}"} if token else {})
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=WAIT_SECONDS + 20)
        self._basin = basin
        self._inbox = f"inbox.{uuid.uuid4().hex[:12]}"
        self._queues: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        self._followers: dict[str, asyncio.Task[None]] = {}

    async def new_channel(self, prefix: str = "specific") -> str:
        """Return a channel of this process, with a queue of its own in it."""
        await self._followed(self._inbox)
        channel = f"{self._inbox}!{prefix}.{uuid.uuid4().hex[:12]}"
        self._queues[channel] = asyncio.Queue(self.get_capacity(channel))
        return channel

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        """Send to one channel, of whatever process."""
        self.require_valid_channel_name(channel)
        queue = self._queues.get(channel)
        if queue is not None and queue.full():
            raise ChannelFull
        await self._append(channel.partition("!")[0], {"to": channel, "message": message})

    async def receive(self, channel: str) -> dict[str, Any]:
        """Wait for the next message to a channel that `new_channel` gave."""
        try:
            return await self._queues[channel].get()
        except asyncio.CancelledError:
            self._queues.pop(channel, None)
            for group in list(self._members):
                await self.group_discard(group, channel)
            raise

    async def group_add(self, group: str, channel: str) -> None:
        """Have a channel of this process get what is sent to the group from now on."""
        self.require_valid_group_name(group)
        await self._followed(f"group.{group}")
        self._members[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self._members[group].discard(channel)
        if not self._members[group]:
            del self._members[group]
            if follower := self._followers.pop(f"group.{group}", None):
                follower.cancel()

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.require_valid_group_name(group)
        await self._append(f"group.{group}", {"message": message})

    async def close(self) -> None:
        """End what is followed, and the connections."""
        for follower in self._followers.values():
            follower.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)
        await self._client.aclose()

    async def _followed(self, stream: str) -> None:
        """Follow a stream from the tail that it has now, which this returns after."""
        if stream not in self._followers:
            tail = (await self._ask("GET", stream, "tail")).json()["tail"]["seq_num"]
            if stream not in self._followers:  # another may have come first meanwhile
                self._followers[stream] = asyncio.create_task(self._follow(stream, tail))

    async def _follow(self, stream: str, at: int) -> None:
        try:
            while True:
                page = await self._ask("GET", stream, "read", params=QUERY | {"seq_num": at})
                for record in page.json()["records"]:
                    at = record["seq_num"] + 1
                    self._hand_out(stream, said_in(record))
        except Exception:  # such as a token that has ended: the next `group_add` follows anew
            logger.exception("nothing follows %s any more", stream)
            self._followers.pop(stream, None)

    def _hand_out(self, stream: str, said: dict[str, Any]) -> None:
        to = said.get("to")
        for channel in [to] if to else self._members.get(stream.removeprefix("group."), ()):
            queue = self._queues.get(channel)
            if said and queue is not None and not queue.full():
                queue.put_nowait(said["message"])

    async def _append(self, stream: str, said: dict[str, Any]) -> None:
        body = {"records": [{"body": json.dumps(said)}]}
        token = {"svc-request-token": uuid.uuid4().hex}
        await self._ask("POST", stream, "append", json=body, headers=token)

    async def _ask(self, method: str, stream: str, verb: str, **given: Any) -> httpx.Response:
        url = f"{path_of(self._basin, stream)}/{verb}"
        while True:
            try:
                answer = await self._client.request(method, url, **given)
            except httpx.TransportError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.status_code not in (408, 429) and answer.status_code < 500:
                return answer.raise_for_status()
            await asyncio.sleep(int(answer.headers.get("retry-after-ms", 200)) / 1000)


def said_in(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a layer has written; of commands and of what others have written, nothing."""
    try:
        said = json.loads(record.get("body", ""))
    except (ValueError, RecursionError):
        return {}
    is_ours = isinstance(said, dict) and isinstance(said.get("message"), dict)
    return said if is_ours and isinstance(said.get("to", ""), str) else {}
