"""Unary appends: one request at a time on each connection."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import records_path
from svc_cluster.lab.load.work import Work

AFTER_ERROR_S: Final = 0.02
_TYPES: Final = {"json": "application/json", "protobuf": "application/protobuf"}


class AppendRefusedError(Exception):
    """An append was answered, and not with success. The message is the kind of error."""


class UnaryCaller(Protocol):
    """One connection that appends."""

    async def append(self, body: bytes) -> None:
        """Send one body and return when it is acknowledged. Raises AppendRefusedError, and
        ConnectionLostError where nothing was answered."""
        ...

    def close(self) -> None: ...


class HttpCaller:
    """Appends over HTTP/1.1 to one stream, or to several in turns."""

    def __init__(self, work: Work, connection: int) -> None:
        self._client = HttpClient(work.access.url)
        assert work.bodies is not None, "a part that appends has bodies"
        share = work.share
        headers = work.access.headers(share.basin) | {"content-type": _TYPES[share.part.encoding]}
        if share.part.encoding == "json":
            headers |= work.access.format_header
        filler = bytes(work.bodies.length)
        self._heads = [
            self._client.encode("POST", records_path(share.streams[number]), headers, filler)[
                : -len(filler)
            ]
            for number in share.stream_of(connection)
        ]
        self._turn = 0

    async def append(self, body: bytes) -> None:
        head = self._heads[self._turn]
        self._turn = (self._turn + 1) % len(self._heads)
        response = await self._client.exchange(head + body)
        if response.status != 200:
            headers = response.headers
            effects = headers.get("svc-side-effects", headers.get("s2-side-effects", "-"))
            raise AppendRefusedError(f"{response.status}/{effects}")

    def close(self) -> None:
        self._client.close()


async def run_appends(work: Work, connection: int, caller: UnaryCaller) -> None:
    """Append until the end of the span."""
    assert work.bodies is not None, "a part that appends has bodies"
    try:
        while (due := await work.next_due()) is not None:
            number = work.sent(due)
            try:
                await caller.append(work.bodies.next(due))
            except AppendRefusedError as refused:
                work.failed(number, str(refused))
                await asyncio.sleep(AFTER_ERROR_S)
            except ConnectionLostError as error:
                kind = "connection_lost" if error.sent else "not_connected"
                work.failed(number, kind, unanswered=True)
                await asyncio.sleep(AFTER_ERROR_S)
            else:
                work.answered(number)
    finally:
        caller.close()
