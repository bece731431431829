"""This keeps a gateway's access tokens fresh. It asks the catalog's leader for what is new, again
and again, and at once when somebody shows a token that is not known here."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError, UnavailableError
from svc_cluster.base.tasks import Tasks
from svc_cluster.gateway.access.token_directory import NO_LEASE, TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenBackend

RENEW_SECONDS: Final = 0.2
RENEW_SECONDS_MIN: Final = 0.02
"""However many unknown tokens are shown."""
LOOK_UP_SECONDS: Final = 2.0


class LeaseKeeper:
    """One for each gateway process. `gateway_id` is random and of this process alone."""

    def __init__(
        self, backend: TokenBackend, directory: TokenDirectory, clock: Clock, gateway_id: str
    ) -> None:
        self._backend = backend
        self._directory = directory
        self._clock = clock
        self._gateway_id = gateway_id
        self._tasks = Tasks()
        self._is_started = False
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self.renewals = 0
        self.gateways = 1
        """With a lease at last count, this one among them."""

    def start(self) -> None:
        """Ask from now on; called again, it does nothing."""
        if self._is_started:
            return
        self._is_started = True
        self._tasks.spawn(self._renew_for_ever(), "renew the freshness lease")
        self._tasks.spawn(self._sweep_for_ever(), "end what has no valid token")

    async def close(self) -> None:
        await self._tasks.cancel_all()
        for future in self._waiting:
            future.cancel()

    async def look_up(self) -> None:
        """Return once all that the catalog had at this moment is known here. Raises
        UnavailableError when that cannot be had now."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._wanted.set()
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                await future
        except TimeoutError as cause:
            raise UnavailableError(NO_LEASE) from cause
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    async def await_first(self, seconds: float) -> bool:
        """Return once tokens are known here for the first time, at the latest after so many
        seconds. False: they are not."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        await self.look_up()
                    except UnavailableError:
                        continue  # it has waited for LOOK_UP_SECONDS
                    return True
        except TimeoutError:
            return False

    async def _renew_for_ever(self) -> None:
        asked_for: list[asyncio.Future[None]] = []
        while True:
            # those that wait since before the question; a question of several steps counts from its
            # last one, which is behind all of them
            asked_for, self._waiting = asked_for + self._waiting, []
            self._wanted.clear()
            asked_at = self._clock.monotonic()
            is_complete = False
            pause = RENEW_SECONDS_MIN
            try:
                news = await self._backend.renew(
                    self._gateway_id,
                    self._directory.version,
                    read_all=self._directory.reading_after is not None,
                    after_serial=self._directory.reading_after or 0,
                )
            except ServiceError:
                pause = RENEW_SECONDS
            else:
                self.renewals += 1
                self.gateways = news.gateways or self.gateways
                is_complete = self._directory.take(news, asked_at)
            if is_complete:
                for future in asked_for:
                    if not future.done():
                        future.set_result(None)
                asked_for = []
                if self._clock.monotonic() < asked_at + RENEW_SECONDS:
                    await self._pause()
                else:
                    # the lease counts from the question: much of it is over already
                    await asyncio.sleep(RENEW_SECONDS_MIN)
            elif pause > RENEW_SECONDS_MIN:
                await asyncio.sleep(pause)
            asked_for = [future for future in asked_for if not future.done()]

    async def _pause(self) -> None:
        await asyncio.sleep(RENEW_SECONDS_MIN)
        try:
            async with asyncio.timeout(RENEW_SECONDS - RENEW_SECONDS_MIN):
                await self._wanted.wait()
        except TimeoutError:
            pass

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            self._directory.sweep()
