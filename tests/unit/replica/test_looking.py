"""A look that fails is one look."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from svc_cluster.replica.looking import look_on


def test_looks_go_on_behind_one_that_fails() -> None:
    """Each of them is taken, in turn, until it is ended from outside."""
    seen: list[int] = []
    enough = asyncio.Event()

    async def look() -> None:
        seen.append(len(seen))
        if len(seen) == 4:
            enough.set()
        if len(seen) % 2:
            raise ZeroDivisionError

    async def main() -> None:
        looking = asyncio.ensure_future(look_on(look, 0.0, "test"))
        async with asyncio.timeout(10.0):
            await enough.wait()
        assert not looking.done()
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking

    asyncio.run(main())
    assert seen[:4] == [0, 1, 2, 3]
