"""A conversation on a socket: bytes to and from the event loop's transport, and its clockwork.

Thin on purpose: it writes what the conversation cuts, no faster than the other side reads, asks for
signs of life, and reports the end. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from svc_cluster.link.arriving import ARRIVING_SECONDS_MAX, Arriving
from svc_cluster.link.conversation import WRITE_BYTES, Conversation, ConversationEvents, Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.frame_turns import FrameTurns
from svc_cluster.link.link_errors import LinkLostError

GREETING_SECONDS: Final = 5.0
"""Time from the connection to complete proofs."""

PING_SECONDS: Final = 2.5
"""Silence after which the other side is asked for a sign of life."""

SILENCE_SECONDS_MAX: Final = 8.0
"""Silence after which the other side is taken for gone."""


FAREWELL_SECONDS: Final = 2.0
"""What a side has that is told of the end, where the end is to come in any case."""


class Wire(asyncio.Protocol):
    """One connection. It belongs to whoever made it, who is told of its end exactly once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        terms: Terms,
        events: ConversationEvents,
        nonce: bytes,
        on_end: Callable[[Wire, str], None],
        *,
        acceptor: bool,
        on_transport: Callable[[asyncio.Transport], str | None] = lambda _: None,
        on_received: Callable[[], None] = lambda: None,
        turns: FrameTurns | None = None,
    ) -> None:
        """`on_transport` sees the connection before a byte is read and may name a reason to refuse
        it. `on_received` is told behind each piece that came. `turns` are shared by the connections
        that may bring much at one time."""
        self.talk = Conversation(terms, events, nonce, acceptor=acceptor)
        self._loop = loop
        self._on_end = on_end
        self._on_transport = on_transport
        self._on_received = on_received
        self._arriving = Arriving()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._turns = FrameTurns(loop) if turns is None else turns
        self._is_waiting = False
        """Whether frames that have arrived wait for another turn."""
        self._reads_nothing = False
        """Whether reading was paused for them."""
        self._pump_scheduled = False
        self._heard_at = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    # -- what the owner does

    @property
    def is_open(self) -> bool:
        return not self._ended and self.talk.is_open

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Queue a message for this turn of the loop. Raises NoCreditError, or
        LinkLostError(sent=False) behind the end of the connection; neither has an effect."""
        if not self.is_open:
            raise LinkLostError(sent=False)
        self.talk.send(kind, flow, payload)
        self._schedule_pump()

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        """A message that was delivered costs no memory any more."""
        if not self.is_open:
            return
        self.talk.dealt_with(kind, size)
        if not self.talk.outbox.is_empty:
            self._schedule_pump()

    def is_waiting(self, kind: FrameKind, flow: int) -> bool:
        """Whether something of this flow has not been handed to the socket yet."""
        return self.talk.is_waiting(kind, flow)

    def waiting_bytes(self, kind: FrameKind) -> int:
        """Bytes of this class that have not been handed to the socket yet."""
        credit = self.talk.outbox.credits[kind]
        return credit.queued - credit.left

    def close(self, reason: str) -> None:
        """End the connection and tell the other side why."""
        self.talk.close(reason)
        self._pump()

    def part(self, reason: str) -> None:
        """End the connection and tell the other side why. Whether it listens or not, the connection
        is gone within FAREWELL_SECONDS."""
        self.close(reason)
        if not self._ended:
            self._loop.call_later(FAREWELL_SECONDS, self.give_up, reason)

    def give_up(self, reason: str) -> None:
        """End the connection at once, whether the other side listens or not: what waits for it is
        let go."""
        self.talk.close(reason)
        self._finish(reason)
        if self._transport is not None:
            self._transport.abort()

    @property
    def host(self) -> str:
        """The other side's address, without its port; empty where there is none."""
        name = self.info("peername")
        return str(name[0]) if isinstance(name, tuple) else ""

    def info(self, name: str) -> Any:
        """What the transport knows, such as the other side's address or certificate."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    # -- what the event loop does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self._transport = transport  # type: ignore[assignment]  # uvloop's derive from nothing
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=WRITE_BYTES)
        self._timer = self._loop.call_later(GREETING_SECONDS, self._greeting_is_over)
        reason = self._on_transport(self._transport)
        if reason is not None:
            self.talk.refuse(reason)
        self._pump()

    def data_received(self, data: bytes) -> None:
        self.talk.feed(data)
        if not self._is_waiting:
            self._hear(self._turns.is_awaited)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self._finish(self.talk.end or "the other side closed the connection")
        else:
            self._finish(self.talk.end or f"{type(exc).__name__}: {exc}")

    # -- inside

    def _hear(self, must_wait: bool) -> None:
        """Deal with what has arrived, as far as this turn of the loop goes. Others that wait for
        theirs have it first."""
        self._heard_at = self._loop.time()
        talk, turns = self.talk, self._turns
        left = 0 if must_wait else turns.share
        has_next = talk.may_have_next
        while has_next and left > 0 and turns.has_room:
            size = talk.deal_with_next()
            if size is not None:
                left -= turns.take(size)
            has_next = talk.may_have_next
        self._on_received()
        if has_next:
            self._wait()
        elif self._reads_nothing:
            self._reads_nothing = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        if not talk.outbox.is_empty or talk.is_over:
            self._schedule_pump()

    def _wait(self) -> None:
        self._is_waiting = True
        self._turns.wait(self._go_on)
        if not self._reads_nothing and self._transport is not None:
            self._reads_nothing = True
            if not self._transport.is_closing():
                self._transport.pause_reading()

    def _go_on(self) -> None:
        self._is_waiting = False
        if self._ended:
            return
        try:
            self._hear(False)
        except Exception as fault:
            # as the event loop does with what `data_received` raises
            self.give_up(repr(fault))
            raise

    def _schedule_pump(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Write as much as the socket takes; the rest when it has taken that."""
        self._pump_scheduled = False
        transport, talk = self._transport, self.talk
        if transport is None or self._ended:
            return
        try:
            while not (self._paused or talk.outbox.is_empty):
                transport.writelines(talk.take())
        except Exception as fault:
            # what was being cut is in no order any more: nothing behind it could leave
            self.give_up(repr(fault))
            raise
        if talk.is_over:
            if self._paused:
                transport.abort()
            else:
                transport.close()

    def _greeting_is_over(self) -> None:
        if self.talk.is_open:
            self._watch()
        else:
            self.give_up(f"no proof within {GREETING_SECONDS:.0f} s")

    def _watch(self) -> None:
        now = self._loop.time()
        silent = now - self._heard_at
        if silent >= SILENCE_SECONDS_MAX:
            self.give_up(f"no sign of life for {silent:.0f} s")
            return
        arriving = self._arriving.look(now, self.talk.incomplete)
        if arriving >= ARRIVING_SECONDS_MAX:
            self.give_up(f"a message that has been arriving for {arriving:.0f} s")
            return
        if silent >= PING_SECONDS:
            self.talk.ping()
            self._schedule_pump()
        self._timer = self._loop.call_later(PING_SECONDS, self._watch)

    def _finish(self, reason: str) -> None:
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self.talk.close(reason)
        self.talk.let_go()
        self._on_end(self, reason)
