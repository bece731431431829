"""Requests and answers on a link, each a message of its own: encoded apart, then numbered, queued.

No socket and no clock is here. What nobody waits for any more is cancelled: the other side stops
working on it and sends no answer.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from svc_cluster.link.frame import FrameError, FrameKind
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.link.outbox import NoCreditError

T = TypeVar("T")

HEAD: Final = struct.Struct("<BQ")
"""Verb and number; what follows belongs to the verb."""


class Verb(IntEnum):
    """What a message of a conversation is. An unknown verb ends the conversation."""

    REQUEST = 1
    """Sent by the caller, for the node's service: the number is new, behind it is what is asked."""

    ANSWER = 2
    """Sent by the acceptor: the number is the request's, of whichever verb that was."""

    CANCEL = 3
    """Sent by the caller: nobody waits for this answer any more; nothing follows."""

    PEER = 4
    """Sent by a node: messages of Raft; the number is 0."""

    SNAPSHOT = 5
    """Sent by a node: a chunk of a snapshot, to be answered."""

    FORM = 6
    """Sent by a node: where it stands with the formation of the cluster, to be answered."""


_VERBS: Final = {int(verb): verb for verb in Verb}


class CallError(FrameError):
    """The other side sent a message that is none; the conversation is over."""


class CallMessage(NamedTuple):
    """One message of a conversation. `body` belongs to the verb."""

    verb: Verb
    number: int
    body: bytes


def encode(verb: Verb, number: int, body: bytes = b"") -> bytes:
    return HEAD.pack(verb, number) + body


def decode(payload: bytes) -> CallMessage:
    """Raises CallError for an unknown verb or a message that is too short."""
    if len(payload) < HEAD.size:
        raise CallError(f"a message of {len(payload)} bytes")
    value, number = HEAD.unpack_from(payload)
    verb = _VERBS.get(value)
    if verb is None:
        raise CallError(f"a message with the unknown verb {value}")
    return CallMessage(verb, number, payload[HEAD.size :])


class Sender(Protocol):
    """The part of a connector that calls need."""

    @property
    def is_up(self) -> bool: ...

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Raises LinkLostError(sent=False) or NoCreditError, without effect."""
        ...

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        """Whether a message of so many bytes may be queued now."""
        ...

    def dealt_with(self, kind: FrameKind, size: int) -> None: ...


class UnreadableAnswerError(Exception):
    """What was answered cannot be read; whoever waits for it goes by its own deadline."""


class Calls:
    """The calling side: what was asked and not answered yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sender: Sender | None = None
        self._next = 1
        self._pending: dict[int, tuple[asyncio.Future[Any], Callable[[bytes], Any]]] = {}

    def attach(self, sender: Sender) -> None:
        self._sender = sender

    @property
    def pending(self) -> int:
        return len(self._pending)

    def check_credit(self, kind: FrameKind, size: int) -> None:
        """Before a request of about `size` bytes is made. Raises LinkBusyError."""
        if self._sender is not None and not self._sender.has_credit(kind, size):
            raise LinkBusyError

    def call(
        self,
        kind: FrameKind,
        flow: int,
        request: bytes,
        read: Callable[[bytes], T],
        verb: Verb = Verb.REQUEST,
    ) -> asyncio.Future[T]:
        """Ask; calls of one flow arrive in the order in which they were made. The future has what
        `read` makes of the answer, which may raise UnreadableAnswerError; it fails with
        LinkLostError. When it is cancelled or fails otherwise first, the other side is told.
        Raises LinkLostError(sent=False) or LinkBusyError, without effect and without a number."""
        if self._sender is None:
            raise LinkLostError(sent=False)
        number = self._next
        try:
            self._sender.send(kind, flow, encode(verb, number, request))
        except NoCreditError:
            raise LinkBusyError from None
        self._next += 1
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending[number] = future, read
        future.add_done_callback(lambda _: self._given_up(number))
        return future

    def answered(self, number: int, body: bytes) -> None:
        """An answer arrived. One that nobody waits for is dropped. Raises UnreadableAnswerError."""
        waiting = self._pending.get(number)
        if waiting is None:
            return
        future, read = waiting
        answer = read(body)
        del self._pending[number]
        if not future.done():
            future.set_result(answer)

    def lost(self) -> None:
        """The connection is gone: nobody knows what became of the requests under way."""
        pending, self._pending = self._pending, {}
        for future, _ in pending.values():
            if not future.done():
                future.set_exception(LinkLostError(sent=True))

    def _given_up(self, number: int) -> None:
        if self._pending.pop(number, None) is None or self._sender is None:
            return
        try:
            self._sender.send(FrameKind.URGENT, 0, encode(Verb.CANCEL, number))
        except (LinkLostError, NoCreditError):
            return  # without a cancellation the other side only works in vain
