"""Requests to one node's service: each leaves by itself, answers are matched by number.

Knows no socket: a `Sender` carries the messages, and tells when it came up or went down. Used by
gateways, and by nodes that ask the catalog's leader or take part in a formation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.codec.entry_since import check_since
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
from svc_cluster.link.features import TRACES
from svc_cluster.link.frame import CLASSES, FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.model import versions

T = TypeVar("T")

log = get_logger("link")

REQUEST_BYTES_MAX: Final = {kind: MESSAGE_BYTES_MAX[kind] - HEAD.size for kind in CLASSES}
"""The largest size of one request, encoded, by its class."""


FRAME_BYTES: Final = 4096
"""What a request has at most beside the bytes that its maker tells: names and numbers."""


class RequestTooLongError(ValueError):
    """No node would take a request of so many bytes."""


class NodeLink(Sender, Protocol):
    """A sender that is made for one session and closed with it."""

    @property
    def held_bytes(self) -> int:
        """What the connection keeps of both sides' messages."""
        ...

    def knock(self) -> None:
        """Does what `Connector.knock` does."""
        ...

    async def close(self) -> None: ...


class NodeSession:
    """The conversation with one node. Requests made while the link is down fail at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, traces: bool = False) -> None:
        """`traces`: requests may carry a trace context, for nodes that take one."""
        self._loop = loop
        self._traces = traces
        self._drops_traces = False
        self._calls = Calls(loop)
        self._link: NodeLink | None = None
        self._up = False
        self._unread = Seldom()
        self.peer: Speaker | None = None
        self._peer_newest = versions.NEWEST
        """The node as it described itself when the link last came up."""

    def attach(self, link: NodeLink) -> None:
        self._link = link
        self._calls.attach(link)

    @property
    def is_up(self) -> bool:
        return self._up

    @property
    def held_bytes(self) -> int:
        """What is on its way to the node and has not left, and what has half arrived."""
        return 0 if self._link is None else self._link.held_bytes

    @property
    def pending(self) -> int:
        return self._calls.pending

    def knock(self) -> None:
        """The node is needed: where it cannot be reached, it is tried again soon."""
        if self._link is not None and not self._up:
            self._link.knock()

    def call(
        self,
        group_id: GroupId,
        deadline_ms: int,
        fill: Callable[[pb.Request], None],
        kind: FrameKind = FrameKind.CALL,
        size: int = 0,
    ) -> asyncio.Future[pb.Response]:
        """Send a request whose operation `fill` writes; requests of one group arrive in the order
        in which they were made. `size`: bytes of what it carries, as of records. The future fails
        with LinkLostError, or LinkBusyError where the node has too much to deal with; then `fill`
        was not asked. A future that is given up cancels its request.

        The request is encoded before it has a number: what `fill` raises, NotActiveYetError for
        what the node does not know and would pass over, and RequestTooLongError leave nothing
        behind that could be sent or answered."""
        try:
            self._check_up()
            self._calls.check_credit(kind, size + FRAME_BYTES)
        except LinkLostError as lost:
            return self._failed(lost)
        request = pb.Request()
        fill(request)
        if self._drops_traces:
            request.ClearField("trace")
        if self._peer_newest < versions.NEWEST:
            check_since(request, self._peer_newest)
        request.group_id = group_id
        request.deadline_ms = max(deadline_ms, 0)
        return self._ask(kind, group_id, request.SerializeToString(), _read_response)

    def form(self, report: bytes) -> asyncio.Future[bytes]:
        """Tell the node where this one stands with the formation; the answer is its own report."""
        return self._ask(FrameKind.CALL, 0, report, bytes, Verb.FORM)

    def chunk(self, chunk: bytes) -> asyncio.Future[bytes]:
        """Send the node a chunk of a snapshot; the answer says whether it was taken."""
        return self._ask(FrameKind.TRANSFER, 0, chunk, bytes, Verb.SNAPSHOT)

    def _ask(
        self,
        kind: FrameKind,
        flow: int,
        data: bytes,
        read: Callable[[bytes], T],
        verb: Verb = Verb.REQUEST,
    ) -> asyncio.Future[T]:
        most = REQUEST_BYTES_MAX[kind]
        if len(data) > most:
            raise RequestTooLongError(f"{len(data)} bytes; a request has at most {most}")
        try:
            self._check_up()
            return self._calls.call(kind, flow, data, read, verb)
        except LinkLostError as lost:
            return self._failed(lost)

    def _check_up(self) -> None:
        if not self._up:
            raise LinkLostError(sent=False)

    def _failed(self, lost: LinkLostError) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        future.set_exception(lost)
        return future

    # -- what the link tells

    def link_up(self, speaker: Speaker) -> None:
        self.peer = speaker
        self._peer_newest = speaker.versions.newest
        self._drops_traces = self._traces and TRACES not in speaker.features
        self._up = True

    def link_down(self) -> None:
        self._up = False
        self._calls.lost()

    def room(self, kind: FrameKind, size: int) -> None:
        """Nothing waits here: what has no credit is refused at once."""

    def message(self, kind: FrameKind, payload: bytes) -> None:
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
