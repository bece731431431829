"""A session store for the OpenAI Agents SDK (PyPI: openai-agents): one stream a conversation.

`Runner.run(agent, text, session=StreamSession(client, basin, "conversation-7"))` keeps its history
there. Nothing is overwritten: an item is a record, and so is the word that the last one was taken
back or that the conversation was cleared. Items that are added together are one batch, there as a
whole or not at all (of more than 1,000 or 900 KB, each part of that). A conversation whose
beginning has expired is refused (BeginningLostError) until it is cleared.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import httpx
from agents import SessionSettings, TResponseInputItem
from agents.memory import SessionABC
from exactly_once import PAUSE_SECONDS, BeginningLostError, batches, path_of

PAGE_RECORDS = 1000
ITEM, POP, CLEAR = "item", "pop", "clear"


class StreamSession(SessionABC):
    """The history of one conversation, safe for several processes at once."""

    def __init__(
        self, client: httpx.AsyncClient, basin: str, session_id: str, prefix: str = "sessions/"
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = None
        self._client = client
        self._path = path_of(basin, prefix + session_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        items, _ = await self._replayed()
        if limit is None:
            return items
        return items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        for batch in batches([record(ITEM, json.dumps(item)) for item in items]):
            await self._append(batch)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the last item. Of two that take at the same time each gets another one: it is
        taken only where nothing came behind what was read."""
        while True:
            items, tail = await self._replayed()
            if not items:
                return None
            if await self._append([record(POP)], match_seq_num=tail):
                return items[-1]

    async def clear_session(self) -> None:
        await self._append([record(CLEAR)])

    async def _replayed(self) -> tuple[list[TResponseInputItem], int]:
        """Return the items that stand, and the tail that they were read up to."""
        items: list[TResponseInputItem] = []
        at, is_whole = 0, True
        while True:
            query = {"seq_num": at, "count": PAGE_RECORDS, "clamp": "true"}
            page = (await self._ask("GET", "read", params=query)).json()
            tail = page["tail"]["seq_num"]
            begin = page["records"][0]["seq_num"] if page["records"] else tail
            is_whole = is_whole and begin == at
            at = begin
            for each in page["records"]:
                at = each["seq_num"] + 1
                kind = dict(each.get("headers", [])).get("kind")
                if kind == ITEM:
                    items.append(json.loads(each["body"]))
                elif kind == POP and items:
                    items.pop()
                elif kind == CLEAR:
                    items.clear()
                    is_whole = True  # what was before is not asked for any more
            if at >= tail:
                if not is_whole:
                    raise BeginningLostError("the first items of the conversation have expired")
                return items, at

    async def _append(self, records: list[dict[str, Any]], **condition: int) -> bool:
        """Return whether the condition held; the batch is carried out once, however often asked."""
        token = {"svc-request-token": uuid.uuid4().hex}
        body = {"records": records, **condition}
        return (await self._ask("POST", "append", json=body, headers=token)).status_code != 412

    async def _ask(self, method: str, verb: str, **given: Any) -> httpx.Response:
        headers = {"svc-format": "utf8"} | given.pop("headers", {})
        while True:
            try:
                answer = await self._client.request(
                    method, f"{self._path}/{verb}", headers=headers, **given
                )
            except httpx.TransportError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.status_code not in (408, 429) and answer.status_code < 500:
                return answer if answer.status_code == 412 else answer.raise_for_status()
            await asyncio.sleep(int(answer.headers.get("retry-after-ms", 200)) / 1000)


def record(kind: str, body: str = "") -> dict[str, Any]:
    return {"headers": [["kind", kind]], "body": body}
