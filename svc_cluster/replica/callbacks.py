"""From callbacks to what is awaited: the one bridge between the groups, which call back, and the
requests, which wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from svc_cluster.base.errors import ServiceError

Result = TypeVar("Result")
Value = TypeVar("Value")

Told = Callable[[Result | None, ServiceError | None], None]
"""Called once: with a result, or with why there is none."""


async def result_of(
    loop: asyncio.AbstractEventLoop, begin: Callable[[Told[Result]], None]
) -> Result | None:
    """Begin something and return what its callback is told. Raises the error that it is told
    instead. Whoever gives up waiting gives up nothing else: what was begun goes on."""
    future: asyncio.Future[Result | None] = loop.create_future()

    def told(result: Result | None, error: ServiceError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    begin(told)
    return await future


def settle(future: asyncio.Future[Value], value: Value) -> None:
    """Resolve a future that its waiter may have left already."""
    if not future.done():
        future.set_result(value)
