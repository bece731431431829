"""One connection between two processes of a cluster, without its socket.

Bytes go in and come out; between them are the proofs that begin a conversation, frames, credit and
the order in which messages leave. The same class runs over TCP, over TLS and in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from svc_cluster.link.credit import decode_window, encode_window
from svc_cluster.link.frame import CLASSES, Frame, FrameError, FrameKind, FrameReader, encode_frame
from svc_cluster.link.greeting import (
    GREETING_BYTES_MAX,
    REASON_CHARS_MAX,
    Speaker,
    check_claim,
    check_welcome,
    make_challenge,
    make_claim,
    make_refusal,
    make_welcome,
)
from svc_cluster.link.handshake import HandshakeError
from svc_cluster.link.inbox import Inbox
from svc_cluster.link.outbox import Outbox

WRITE_BYTES: Final = 512 * 1024
"""Bytes that are handed to the socket at a time: what is urgent overtakes all that is not."""


_PING: Final = b"?"
_PONG: Final = b"!"


class ConversationEvents(Protocol):
    """What a conversation tells its owner. None of these may raise because of content."""

    def opened(self, speaker: Speaker) -> None:
        """Both sides have proved themselves; messages may be sent from now on."""
        ...

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """A whole message arrived. The owner calls `dealt_with` once it costs no memory any more,
        at once or later."""
        ...

    def room(self, kind: FrameKind, size: int) -> None:
        """The other side is done with `size` more bytes of this class: so much more may be sent."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What a side brings into a conversation."""

    secret: bytes
    speaker: Speaker
    check: Callable[[Speaker], None]
    """Raises HandshakeError for a proven other side that is not wanted."""


class _State(Enum):
    GREETING = 1
    OPEN = 2
    OVER = 3


class Conversation:
    """One side. `acceptor` challenges, the other claims. Everything raises nothing but what is
    documented; a fault of the other side ends the conversation with a reason."""

    def __init__(
        self, terms: Terms, events: ConversationEvents, nonce: bytes, *, acceptor: bool
    ) -> None:
        """`nonce` has 32 bytes that were never used before."""
        self._terms = terms
        self._events = events
        self._nonce = nonce
        self._acceptor = acceptor
        self._state = _State.GREETING
        self._challenge = b""
        self._version = 0
        self._reader = FrameReader(GREETING_BYTES_MAX)
        self._inbox = Inbox()
        self.outbox = Outbox()
        self.peer: Speaker | None = None
        self.end: str | None = None
        """Why the conversation is over; None while it is not."""

        self.refused = False
        """Whether it ended because a side is not wanted or not proved, not because of a fault."""

        if acceptor:
            self._greet(make_challenge(nonce))

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    @property
    def is_over(self) -> bool:
        return self._state is _State.OVER

    @property
    def held_bytes(self) -> int:
        """Bytes kept here on behalf of the other side."""
        return self.outbox.queued_bytes + self.arriving_bytes

    @property
    def arriving_bytes(self) -> int:
        """Bytes of messages that have arrived in part."""
        return self._reader.held_bytes + self._inbox.held_bytes

    @property
    def incomplete(self) -> list[tuple[str, int]]:
        """Return what has arrived in part, each called as nothing else in this conversation is.
        That is the frame that is arriving, and the series that began first of those that are."""
        found = []
        if self._reader.held_bytes:
            found.append(("frame", self._reader.completed))
        oldest = self._inbox.oldest
        if oldest is not None:
            found.append(("series", oldest))
        return found

    # -- what goes in

    def receive(self, data: bytes) -> None:
        """Take bytes from the socket, and deal with all that they complete. When `end` is set
        afterwards, the rest of the answers is to be written and the socket closed."""
        self.feed(data)
        while self.deal_with_next() is not None:
            pass

    def feed(self, data: bytes) -> None:
        """Take bytes from the socket; `deal_with_next` deals with them."""
        if self._state is not _State.OVER:
            self._reader.add(data)

    @property
    def may_have_next(self) -> bool:
        """Whether `deal_with_next` has to be asked again before more bytes come."""
        return self._reader.may_have_more and self._state is not _State.OVER

    def deal_with_next(self) -> int | None:
        """Deal with one frame that is complete, and return its bytes. Returns None where there is
        none, and behind the end."""
        if self._state is _State.OVER:
            return None
        try:
            frame = self._reader.cut()
            if frame is None:
                return None
            kind, _, series, payload = frame
            if series or kind not in CLASSES or self._state is _State.GREETING:
                self._take(frame)
            else:
                self._events.message(kind, self._inbox.take_whole(kind, payload))
            return len(payload)
        except HandshakeError as refusal:
            if self._acceptor:
                self.refuse(str(refusal))
            else:
                self.refused = True
                self._over(str(refusal))
        except FrameError as fault:
            self.close(str(fault))
        return None

    def _take(self, frame: Frame) -> None:
        if self._state is _State.GREETING:
            self._take_greeting(frame)
        elif frame.kind in CLASSES:
            message = self._inbox.take(frame)
            if message is not None:
                self._events.message(frame.kind, message)
        elif frame.kind is FrameKind.WINDOW:
            kind, dealt_with = decode_window(frame.payload)
            credit = self.outbox.credits[kind]
            before = credit.dealt_with
            credit.told(dealt_with)
            self._events.room(kind, dealt_with - before)
        elif frame.kind is FrameKind.PING:
            self._take_ping(frame.payload)
        elif frame.kind is FrameKind.FAREWELL:
            reason = frame.payload[: 4 * REASON_CHARS_MAX].decode(errors="replace")
            self._over(f"the other side ended it: {reason}")
        else:
            raise FrameError("a greeting in an open conversation")

    def _take_ping(self, payload: bytes) -> None:
        if payload == _PING:
            self.outbox.notice(encode_frame(FrameKind.PING, _PONG))
        elif payload != _PONG:
            raise FrameError("a ping that is none")

    def _take_greeting(self, frame: Frame) -> None:
        if frame.kind is not FrameKind.GREETING:
            raise FrameError(f"{frame.kind.name} before the greetings were complete")
        terms = self._terms
        cluster_id = terms.speaker.identity.cluster_id
        if self._acceptor:
            caller, nonce, version = check_claim(
                terms.secret, cluster_id, self._nonce, frame.payload
            )
            terms.check(caller)
            self._greet(make_welcome(terms.secret, self._nonce, nonce, version, terms.speaker))
            self._open(caller)
        elif not self._challenge:
            claim, self._version = make_claim(
                terms.secret, frame.payload, terms.speaker, self._nonce
            )
            self._challenge = frame.payload
            self._greet(claim)
        else:
            acceptor = check_welcome(
                terms.secret, cluster_id, self._challenge, self._nonce, self._version, frame.payload
            )
            terms.check(acceptor)
            self._open(acceptor)

    def _greet(self, greeting: bytes) -> None:
        self.outbox.notice(encode_frame(FrameKind.GREETING, greeting))

    def _open(self, peer: Speaker) -> None:
        self.peer = peer
        self._state = _State.OPEN
        self._reader.lift_bound()
        self._events.opened(peer)

    # -- what comes out

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Queue a message. Raises NoCreditError when the other side has too much to deal with;
        then nothing of it was queued."""
        assert self._state is _State.OPEN, "the owner was told that it is over"
        self.outbox.push(kind, flow, payload)

    def is_waiting(self, kind: FrameKind, flow: int) -> bool:
        """Whether something of this flow has not been cut into frames yet."""
        return self.outbox.is_waiting(kind, flow)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        """A message of `size` bytes costs no memory here any more."""
        credit = self._inbox.credits[kind]
        if credit.deal_with(size) and self._state is _State.OPEN:
            self.outbox.notice(encode_frame(FrameKind.WINDOW, encode_window(kind, credit.report())))

    def ping(self) -> None:
        """Ask for a sign of life; any bytes that come are one."""
        if self._state is _State.OPEN:
            self.outbox.notice(encode_frame(FrameKind.PING, _PING))

    def take(self) -> list[bytes]:
        """Cut the next frames for the socket: about WRITE_BYTES of them, or none."""
        return self.outbox.take(WRITE_BYTES)

    def close(self, reason: str) -> None:
        """End the conversation and tell the other side why."""
        if self._state is not _State.OVER:
            self.outbox.notice(encode_frame(FrameKind.FAREWELL, reason[:REASON_CHARS_MAX].encode()))
            self._over(reason)

    def refuse(self, reason: str) -> None:
        """End a conversation that has not begun, before anything of it is read."""
        self.refused = True
        self._greet(make_refusal(reason))
        self._over(reason)

    def let_go(self) -> None:
        """Free what waits in a conversation that is over."""
        assert self.is_over
        self.outbox = Outbox()
        self._inbox = Inbox()
        self._reader = FrameReader(GREETING_BYTES_MAX)

    def _over(self, reason: str) -> None:
        self._state = _State.OVER
        self.end = reason
