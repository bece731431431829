"""Requests to one node's service: each leaves by itself, answers are matched by number.

Knows no socket: a `Sender` carries the messages, and tells when it came up or went down. Used by
gateways, and by nodes that ask the catalog's leader or take part in a formation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.link.calls import (
    HEAD,
    CallError,
    Calls,
    Sender,
    UnreadableAnswerError,
    Verb,
    decode,
)
from svc_cluster.link.credit import MESSAGE_BYTES_MAX
from svc_cluster.link.errors import LinkLostError
from svc_cluster.link.frame import CLASSES, Kind
from svc_cluster.link.greeting import Speaker

T = TypeVar("T")

log = get_logger("link")

REQUEST_BYTES_MAX: Final = {kind: MESSAGE_BYTES_MAX[kind] - HEAD.size for kind in CLASSES}
"""Of one request, encoded, by its class."""


class RequestTooLongError(ValueError):
    """No node would take a request of so many bytes."""


class NodeLink(Sender, Protocol):
    """A sender that is made for one session and closed with it."""

    async def close(self) -> None: ...


class NodeSession:
    """The conversation with one node. Requests made while the link is down fail at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls = Calls(loop)
        self._link: NodeLink | None = None
        self._up = False
        self._unread = Seldom()
        self.peer: Speaker | None = None
        """The node as it described itself when the link last came up."""

    def attach(self, link: NodeLink) -> None:
        self._link = link
        self._calls.attach(link)

    @property
    def is_up(self) -> bool:
        return self._up

    @property
    def pending(self) -> int:
        return self._calls.pending

    def call(
        self,
        group_id: GroupId,
        deadline_ms: int,
        fill: Callable[[pb.Request], None],
        kind: Kind = Kind.CALL,
    ) -> asyncio.Future[pb.Response]:
        """Send a request whose operation `fill` writes; requests of one group arrive in the order
        in which they were made. The future fails with LinkLostError, or LinkBusyError where the
        node has too much to deal with. A future that is given up cancels its request.

        The request is encoded before it has a number: what `fill` raises, and RequestTooLongError,
        leave nothing behind that could be sent or answered."""
        request = pb.Request()
        fill(request)
        request.group_id = group_id
        request.deadline_ms = max(deadline_ms, 0)
        return self._ask(kind, group_id, request.SerializeToString(), _read_response)

    def form(self, report: bytes) -> asyncio.Future[bytes]:
        """Tell the node where this one stands with the formation; the answer is its own report."""
        return self._ask(Kind.CALL, 0, report, bytes, Verb.FORM)

    def chunk(self, chunk: bytes) -> asyncio.Future[bytes]:
        """Send the node a chunk of a snapshot; the answer says whether it was taken."""
        return self._ask(Kind.TRANSFER, 0, chunk, bytes, Verb.SNAPSHOT)

    def _ask(
        self,
        kind: Kind,
        flow: int,
        data: bytes,
        read: Callable[[bytes], T],
        verb: Verb = Verb.REQUEST,
    ) -> asyncio.Future[T]:
        most = REQUEST_BYTES_MAX[kind]
        if len(data) > most:
            raise RequestTooLongError(f"{len(data)} bytes; a request has at most {most}")
        try:
            if not self._up:
                raise LinkLostError(sent=False)
            return self._calls.call(kind, flow, data, read, verb)
        except LinkLostError as lost:
            future: asyncio.Future[T] = self._loop.create_future()
            future.set_exception(lost)
            return future

    # -- what the link tells

    def link_up(self, speaker: Speaker) -> None:
        self.peer = speaker
        self._up = True

    def link_down(self) -> None:
        self._up = False
        self._calls.lost()

    def room(self, kind: Kind, size: int) -> None:
        """Nothing waits here: what has no credit is refused at once."""

    def message(self, kind: Kind, payload: bytes) -> None:
        """An answer arrived. One that nobody waits for is dropped; so is one that cannot be read,
        and whoever waits for it goes by its deadline. Raises CallError for anything else."""
        verb, number, body = decode(payload)
        if verb is not Verb.ANSWER:
            raise CallError(f"{verb.name} from the side that answers")
        try:
            self._calls.answered(number, body)
        except UnreadableAnswerError:
            self._note_unread()
        if self._link is not None:
            self._link.dealt_with(kind, len(payload))

    def _note_unread(self) -> None:
        count = self._unread.note(self._loop.time())
        if count is not None:
            log.warning("answers_unreadable", count=count)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
        self.link_down()


def _read_response(data: bytes) -> pb.Response:
    try:
        return pb.Response.FromString(data)
    except DecodeError as cause:
        raise UnreadableAnswerError from cause
