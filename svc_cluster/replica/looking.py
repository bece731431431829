"""A look that is taken again and again, and that goes on after one of them has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom

log = get_logger("looking")


async def look_on(look: Callable[[], Awaitable[None]], seconds: float, name: str) -> None:
    """Never returns: a look each so many seconds. One that fails is told of, seldom, and another
    one follows it."""
    failures = Seldom()
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(seconds)
        try:
            await look()
        except Exception as fault:
            count = failures.note(clock())
            if count is not None:
                log.error("look_failed", look=name, count=count, exc_info=fault)
