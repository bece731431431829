"""Requests and answers on a link, each a message of its own: encoded apart, then numbered, queued.

No socket and no clock is here. What nobody waits for any more is cancelled: the other side stops
working on it and sends no answer.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from svc_cluster.link.frame import Kind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.session import LinkLostError

HEAD: Final = struct.Struct("<BQ")
"""Verb and number; what follows belongs to the verb."""


class Verb(IntEnum):
    """What a message of a conversation is. An unknown verb ends the conversation."""

    REQUEST = 1
    """Of the caller: the number is new, behind it is what is asked."""

    ANSWER = 2
    """Of the acceptor: the number is the request's."""

    CANCEL = 3
    """Of the caller: nobody waits for this answer any more; nothing follows."""

    PEER = 4
    """Of a node: messages of Raft; the number is 0."""


class CallError(Exception):
    """The other side sent a message that is none; the conversation is over."""


def encode(verb: Verb, number: int, body: bytes = b"") -> bytes:
    return HEAD.pack(verb, number) + body


def decode(payload: bytes) -> tuple[Verb, int, bytes]:
    """Raises CallError for an unknown verb or a message that is too short."""
    if len(payload) < HEAD.size:
        raise CallError(f"a message of {len(payload)} bytes")
    verb, number = HEAD.unpack_from(payload)
    try:
        return Verb(verb), number, payload[HEAD.size :]
    except ValueError:
        raise CallError(f"a message with the unknown verb {verb}") from None


class Sender(Protocol):
    """The part of a connector that calls need."""

    @property
    def is_up(self) -> bool: ...

    def send(self, kind: Kind, flow: int, payload: bytes) -> None: ...

    def dealt_with(self, kind: Kind, size: int) -> None: ...


class Calls:
    """The calling side: what was asked and not answered yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sender: Sender | None = None
        self._next = 1
        self._pending: dict[int, asyncio.Future[bytes]] = {}

    def attach(self, sender: Sender) -> None:
        self._sender = sender

    @property
    def pending(self) -> int:
        return len(self._pending)

    def call(self, kind: Kind, flow: int, request: bytes) -> asyncio.Future[bytes]:
        """Ask; calls of one flow arrive in the order in which they were made. The future fails with
        LinkLostError. When it is cancelled or fails otherwise first, the other side is told.
        Raises LinkLostError(sent=False) or NoCreditError, without effect and without a number."""
        if self._sender is None:
            raise LinkLostError(sent=False)
        number = self._next
        self._sender.send(kind, flow, encode(Verb.REQUEST, number, request))
        self._next += 1
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._pending[number] = future
        future.add_done_callback(lambda _: self._given_up(number))
        return future

    def answered(self, number: int, body: bytes) -> None:
        """An answer arrived. One that nobody waits for is dropped."""
        future = self._pending.pop(number, None)
        if future is not None and not future.done():
            future.set_result(body)

    def lost(self) -> None:
        """The connection is gone: nobody knows what became of the requests under way."""
        pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(LinkLostError(sent=True))

    def _given_up(self, number: int) -> None:
        if self._pending.pop(number, None) is None or self._sender is None:
            return
        try:
            self._sender.send(Kind.URGENT, 0, encode(Verb.CANCEL, number))
        except (LinkLostError, NoCreditError):
            return  # without a cancellation the other side only works in vain


class CallEvents:
    """Stands between a connector and the calls made over it."""

    def __init__(
        self, calls: Calls, on_up: Callable[[Speaker], None], on_down: Callable[[], None]
    ) -> None:
        self._calls = calls
        self._on_up = on_up
        self._on_down = on_down
        self._sender: Sender | None = None

    def attach(self, sender: Sender) -> None:
        self._sender = sender
        self._calls.attach(sender)

    def link_up(self, speaker: Speaker) -> None:
        self._on_up(speaker)

    def link_down(self) -> None:
        self._calls.lost()
        self._on_down()

    def message(self, kind: Kind, payload: bytes) -> None:
        """Raises CallError for anything but an answer."""
        verb, number, body = decode(payload)
        if verb is not Verb.ANSWER:
            raise CallError(f"{verb.name} from the side that answers")
        self._calls.answered(number, body)
        if self._sender is not None:
            self._sender.dealt_with(kind, len(payload))
