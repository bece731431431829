"""Requests to one node: many in one message, answers matched by number.

Knows no socket: a `Link` carries the bytes, and says when it came up or went down. Used by
gateways, and by nodes that ask the catalog's leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId


class LinkLostError(ConnectionError):
    """The connection ended before the answer came. `sent` is False when the request never left:
    then it had no effect; otherwise nobody here knows."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the connection to the node is lost")
        self.sent = sent


class Link(Protocol):
    """One ordered two-way connection to a node."""

    def send(self, data: bytes) -> None:
        """Queue a message. Raises LinkLostError(sent=False) while the connection is down."""
        ...

    async def close(self) -> None: ...


class LinkEvents(Protocol):
    """What a link tells its owner."""

    def link_up(self) -> None: ...

    def link_down(self) -> None: ...

    def message(self, data: bytes) -> None: ...


class NodeSession:
    """The conversation with one node. Requests made while the link is down fail at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._link: Link | None = None
        self._up = False
        self._next_id = 1
        self._batch: pb.RequestBatch | None = None
        self._unsent: list[int] = []
        self._pending: dict[int, asyncio.Future[pb.Response]] = {}

    def attach(self, link: Link) -> None:
        self._link = link

    @property
    def is_up(self) -> bool:
        return self._up

    @property
    def pending(self) -> int:
        return len(self._pending)

    def call(
        self,
        group_id: GroupId,
        deadline_ms: int,
        fill: Callable[[pb.Request], None],
    ) -> asyncio.Future[pb.Response]:
        """Send a request whose operation `fill` writes; all calls of one turn of the event loop
        leave in one message. The future fails with LinkLostError."""
        future: asyncio.Future[pb.Response] = self._loop.create_future()
        if not self._up:
            future.set_exception(LinkLostError(sent=False))
            return future
        if self._batch is None:
            self._batch = pb.RequestBatch()
            self._loop.call_soon(self._flush)
        request = self._batch.requests.add()
        request.id = self._next_id
        request.group_id = group_id
        request.deadline_ms = max(deadline_ms, 0)
        fill(request)
        self._unsent.append(self._next_id)
        self._pending[self._next_id] = future
        self._next_id += 1
        return future

    def _flush(self) -> None:
        batch, self._batch = self._batch, None
        unsent, self._unsent = self._unsent, []
        if batch is None or self._link is None:
            return
        try:
            self._link.send(batch.SerializeToString())
        except LinkLostError:
            for request_id in unsent:
                self._fail(request_id, sent=False)

    def _fail(self, request_id: int, *, sent: bool) -> None:
        future = self._pending.pop(request_id, None)
        if future is not None and not future.done():
            future.set_exception(LinkLostError(sent=sent))

    def link_up(self) -> None:
        self._up = True

    def link_down(self) -> None:
        self._up = False
        self._batch = None
        unsent = set(self._unsent)
        self._unsent = []
        for request_id in list(self._pending):
            self._fail(request_id, sent=request_id not in unsent)

    def message(self, data: bytes) -> None:
        """An answer batch arrived. Answers nobody waits for are dropped."""
        for response in pb.ResponseBatch.FromString(data).responses:
            future = self._pending.pop(response.id, None)
            if future is not None and not future.done():
                future.set_result(response)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
        self.link_down()
