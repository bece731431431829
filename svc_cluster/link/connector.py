"""A connection to one process that is kept up: made again for ever, with back-off, until closed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.base.tls_trust import trusted_by
from svc_cluster.link.conversation import ConversationEvents, Terms
from svc_cluster.link.frame import FrameError, FrameKind
from svc_cluster.link.frame_turns import FrameTurns
from svc_cluster.link.greeting import NONCE_BYTES, RefusedError, Speaker
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.tls import CertificateError
from svc_cluster.link.tls_context import DISTRUSTED, CallerTls
from svc_cluster.link.wire import GREETING_SECONDS, Wire

log = get_logger("link")

RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 1.0
KNOCK_SECONDS: Final = 0.1
"""A knock cuts a pause to no less than this, behind the end of the last attempt."""
TRUST_SECONDS: Final = 1.0
"""How often a connection under TLS looks whether the CAs of its making are still trusted."""
SAY_AGAIN_SECONDS: Final = 60.0
"""How often one and the same reason is logged while a connection cannot be made."""


class LinkEvents(Protocol):
    """What a connection tells its owner."""

    def link_up(self, speaker: Speaker) -> None: ...

    def link_down(self) -> None: ...

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """The owner calls the connector's `dealt_with` once the message costs no memory. Raises
        FrameError for what ends the conversation."""
        ...

    def room(self, kind: FrameKind, size: int) -> None:
        """The other side is done with `size` more bytes of this class."""
        ...


async def _open_wire(
    loop: asyncio.AbstractEventLoop,
    address: str,
    terms: Terms,
    events: ConversationEvents,
    on_end: Callable[[Wire, str], None],
    context: ssl.SSLContext | None,
    server_name: str,
    turns: FrameTurns | None = None,
) -> Wire:
    """A connection whose greetings have begun. Raises OSError."""
    host, _, port = address.rpartition(":")
    nonce = secrets.token_bytes(NONCE_BYTES)
    _, wire = await loop.create_connection(
        lambda: Wire(loop, terms, events, nonce, on_end, acceptor=False, turns=turns),
        host.strip("[]"),
        int(port),
        ssl=context,
        server_hostname=server_name if context is not None else None,
    )
    return wire


async def introduce(
    address: str, terms: Terms, context: ssl.SSLContext | None, server_name: str
) -> Speaker:
    """Who answers at `address` and takes this caller. Raises RefusedError with the reason of one
    that does not, OSError where there is no conversation to be had."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Speaker] = loop.create_future()

    def ended(wire: Wire, reason: str) -> None:
        if not found.done():
            refused = RefusedError(reason) if wire.talk.refused else ConnectionError(reason)
            found.set_exception(refused)

    wire = await _open_wire(loop, address, terms, _Introduction(found), ended, context, server_name)
    try:
        return await found
    finally:
        wire.give_up("that was all")


class _Introduction:
    """Waits for the end of the greetings, and for nothing behind them."""

    def __init__(self, found: asyncio.Future[Speaker]) -> None:
        self._found = found

    def opened(self, speaker: Speaker) -> None:
        if not self._found.done():
            self._found.set_result(speaker)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        raise FrameError("nothing was asked")

    def room(self, kind: FrameKind, size: int) -> None:
        """Nothing is sent."""


class Connector:
    """The calling side of a link."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        address: str,
        terms: Callable[[], Terms],
        events: LinkEvents,
        rng: random.Random,
        tls: CallerTls | None,
        server_name: str,
        turns: FrameTurns | None = None,
    ) -> None:
        """`address` is HOST:PORT. `tls` makes a context for each connection, so that renewed files
        count from the next one on, and ends one that stands on a CA which is trusted no more;
        `server_name` is what the other side's certificate carries. `turns` are those of all links
        of the process."""
        self._loop = loop
        self._places: tuple[str, ...] = (address,)
        self._turn = 0
        self._has_opened = self._was_refused = False
        self._terms = terms
        self._events = events
        self._rng = rng
        self._tls = tls
        self._server_name = server_name
        self._turns = turns
        self._wire: Wire | None = None
        self._ended: asyncio.Future[str] | None = None
        self._tasks = Tasks()
        self._knocked = asyncio.Event()
        self._said: dict[str, tuple[str, float]] = {}
        self._last_reason = ""

    def start(self) -> None:
        self._tasks.spawn(self._run(), f"link to {self._address}")

    @property
    def _address(self) -> str:
        """Where the connection is, or is tried next."""
        return self._places[self._turn]

    @property
    def is_up(self) -> bool:
        return self._wire is not None and self._wire.is_open

    @property
    def held_bytes(self) -> int:
        return 0 if self._wire is None else self._wire.talk.held_bytes

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Queue a message. Raises LinkLostError(sent=False) while there is no connection,
        NoCreditError while the other side has too much to deal with; neither has an effect."""
        if self._wire is None or not self._wire.is_open:
            raise LinkLostError(sent=False)
        self._wire.send(kind, flow, payload)

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        """Whether a message of so many bytes would be queued; without a connection: not for want
        of credit."""
        return self._wire is None or self._wire.talk.outbox.credits[kind].allows(size)

    def under_way(self, kind: FrameKind) -> int:
        """Bytes of this class that the other side is not known to have dealt with."""
        return 0 if self._wire is None else self._wire.talk.outbox.credits[kind].under_way

    def is_waiting(self, kind: FrameKind, flow: int) -> bool:
        """Whether something of this flow has not been handed to the socket yet."""
        return self._wire is not None and self._wire.is_waiting(kind, flow)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        if self._wire is not None and self._wire.is_open:
            self._wire.dealt_with(kind, size)

    def redirect(self, address: str, other: str = "") -> None:
        """The other side is at HOST:PORT from now on: a conversation with where it was ends. Where
        it does not answer as itself there, `other` is tried in turn."""
        places = (address,) if other in ("", address) else (address, other)
        if places == self._places:
            return
        at, is_first = self._address, address != self._places[0]
        self._places = places
        self._turn = 0 if is_first or at not in places else places.index(at)
        self._said = {place: said for place, said in self._said.items() if place in places}
        if self._address != at:
            self.reset("the other side has another address")

    def reset(self, reason: str) -> None:
        """End the conversation that there is; another one follows."""
        if self._wire is not None:
            self._wire.close(reason)

    def knock(self) -> None:
        """A pause before the next attempt is cut to KNOCK_SECONDS.

        Somebody needs the other side, or has heard from it: it may be there again. Who refused the
        last attempt, or was refused for its certificate, is asked no more often.
        """
        if not self.is_up:
            self._knocked.set()

    async def close(self) -> None:
        await self._tasks.cancel_all()

    # -- inside

    async def _run(self) -> None:
        delay = RECONNECT_SECONDS_MIN
        while True:
            started = self._loop.time()
            reason, is_news = "cancelled", True
            tried, self._has_opened, self._was_refused = self._address, False, False
            self._knocked.clear()
            try:
                reason = await self._converse()
            except (ssl.SSLError, CertificateError) as cause:
                self._was_refused = True
                reason = f"{type(cause).__name__}: {cause}"
            except (OSError, TimeoutError) as cause:
                reason, is_news = f"{type(cause).__name__}: {cause}", False
            except Exception as fault:
                self._failed(fault)
                reason = repr(fault)
            finally:
                self._drop(reason)
            self._say(tried, reason, is_news)
            if not self._has_opened and tried == self._address:
                self._turn = (self._turn + 1) % len(self._places)
            if self._loop.time() - started > RECONNECT_SECONDS_MAX:
                delay = RECONNECT_SECONDS_MIN
            await self._pause(delay * (0.5 + self._rng.random()), can_cut=not self._was_refused)
            delay = min(delay * 2, RECONNECT_SECONDS_MAX)

    async def _pause(self, seconds: float, *, can_cut: bool) -> None:
        least = min(seconds, KNOCK_SECONDS) if can_cut else seconds
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await self._knocked.wait()

    async def _converse(self) -> str:
        """One connection from its beginning to the reason of its end."""
        self._ended = self._loop.create_future()
        terms = self._terms()
        context = None if self._tls is None else self._tls.context()
        async with asyncio.timeout(GREETING_SECONDS):
            self._wire = await _open_wire(
                self._loop,
                self._address,
                terms,
                self,
                self._on_end,
                context,
                self._server_name,
                self._turns,
            )
        if context is not None:
            await self._end_with_trust(trusted_by(context), self._ended)
        return await self._ended

    async def _end_with_trust(
        self, authorities: frozenset[bytes], ended: asyncio.Future[str]
    ) -> None:
        """Returns once the connection is over, or has to be."""
        assert self._tls is not None
        while self._tls.trusts(authorities):
            await asyncio.wait((ended,), timeout=TRUST_SECONDS)
            if ended.done():
                return
        if self._wire is not None:
            self._wire.part(DISTRUSTED)

    def _on_end(self, wire: Wire, reason: str) -> None:
        # first of all, so that a fault of the owner does not end the link for ever
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(reason)
        self._was_refused = wire.talk.refused
        if wire is self._wire or self._wire is None:
            was_up = wire is self._wire and wire.talk.peer is not None
            self._wire = None
            if was_up:
                self._tell_down()

    def _drop(self, reason: str) -> None:
        if self._wire is not None:
            self._wire.close(reason)
            wire, self._wire = self._wire, None
            if wire.talk.peer is not None:
                self._tell_down()

    def _tell_down(self) -> None:
        try:
            self._events.link_down()
        except Exception as fault:
            self._failed(fault)

    def _failed(self, fault: Exception) -> None:
        """A bug in whoever takes the messages ends this conversation, never the link."""
        log.error("link_failed", address=self._address, exc_info=fault)

    def _say(self, address: str, reason: str, is_news: bool) -> None:
        """A connection that ended, or that TLS has refused, is told of. A process that cannot be
        reached is not: whoever needs it says what it lacks."""
        if not is_news:
            log.debug("link_not_made", address=address, reason=reason[:200])
            return
        now = self._loop.time()
        last, said_at = self._said.get(address, ("", float("-inf")))
        if reason != last or now - said_at >= SAY_AGAIN_SECONDS:
            self._said[address], self._last_reason = (reason, now), reason
            log.warning("link_ended", address=address, reason=reason[:200])

    # -- what the wire tells

    def opened(self, speaker: Speaker) -> None:
        self._has_opened = True
        self._knocked.clear()  # it has what it asked for
        try:
            self._events.link_up(speaker)
        except Exception as fault:
            self._failed(fault)
            raise FrameError(repr(fault)) from fault

    def message(self, kind: FrameKind, payload: bytes) -> None:
        try:
            self._events.message(kind, payload)
        except FrameError:
            raise
        except Exception as fault:
            self._failed(fault)
            raise FrameError(repr(fault)) from fault

    def room(self, kind: FrameKind, size: int) -> None:
        try:
            self._events.room(kind, size)
        except Exception as fault:
            self._failed(fault)
            raise FrameError(repr(fault)) from fault
