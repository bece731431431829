"""Requests to one node: many in one message, answers matched by number.

Knows no socket: a `Link` carries the bytes, and says when it came up or went down. Used by
gateways, and by nodes that ask the catalog's leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.codec.batch import check_member, pack, unpack

log = get_logger("link")


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
        self._members: list[bytes] = []
        """Of the batch that is being filled: requests, each encoded."""
        self._unsent: list[int] = []
        """Their numbers."""
        self._unread = Seldom()
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
        """Send a request whose operation `fill` writes; the calls of one turn of the event loop
        leave together. The future fails with LinkLostError.

        The request is encoded before it has a number and a place in the batch: what `fill` raises,
        and MemberTooLongError, leave nothing behind that could be sent or answered."""
        future: asyncio.Future[pb.Response] = self._loop.create_future()
        if not self._up:
            future.set_exception(LinkLostError(sent=False))
            return future
        request = pb.Request()
        fill(request)
        request.id = self._next_id
        request.group_id = group_id
        request.deadline_ms = max(deadline_ms, 0)
        member = check_member(request.SerializeToString())
        if not self._members:
            self._loop.call_soon(self._flush)
        self._members.append(member)
        self._unsent.append(self._next_id)
        self._pending[self._next_id] = future
        self._next_id += 1
        return future

    def _flush(self) -> None:
        members, self._members = self._members, []
        unsent, self._unsent = self._unsent, []
        if self._link is None:
            return
        sent = 0
        try:
            for message in pack(members):
                self._link.send(message.data)
                sent += message.member_count
        except LinkLostError:
            for request_id in unsent[sent:]:
                self._fail(request_id, sent=False)

    def _fail(self, request_id: int, *, sent: bool) -> None:
        future = self._pending.pop(request_id, None)
        if future is not None and not future.done():
            future.set_exception(LinkLostError(sent=sent))

    def link_up(self) -> None:
        self._up = True

    def link_down(self) -> None:
        self._up = False
        self._members = []
        unsent = set(self._unsent)
        self._unsent = []
        for request_id in list(self._pending):
            self._fail(request_id, sent=request_id not in unsent)

    def message(self, data: bytes) -> None:
        """A batch of answers arrived. Answers nobody waits for are dropped; so is one that cannot
        be read, and whoever waits for it goes by its deadline. Raises BatchError for what is no
        batch."""
        for member in unpack(data):
            try:
                response = pb.Response.FromString(member)
            except DecodeError:
                self._note_unread()
                continue
            future = self._pending.pop(response.id, None)
            if future is not None and not future.done():
                future.set_result(response)

    def _note_unread(self) -> None:
        count = self._unread.note(self._loop.time())
        if count is not None:
            log.warning("answers_unreadable", count=count)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
        self.link_down()
