"""What anybody may have compressed costs nobody else memory or time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from svc_cluster.codec.compression import COMPRESS_STEP_BYTES, decompress
from svc_cluster.gateway.api import shared_page
from svc_cluster.gateway.api.compressions import COMPRESSOR_BYTES, UNDER_WAY_MAX, Compressions
from svc_cluster.gateway.api.shared_page import SharedPage
from svc_cluster.gateway.api.turns import Turns
from svc_cluster.http.message import Response
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, body_of, get, make_app

PAGES: Final = ("/docs", "/openapi.json", "/proto/s2/v1/s2.proto", "/console/main.js")
MANY: Final = 200

FEW = 20.0
"""Pages that are made at once in these tests; behind them one a second."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_page, "ANEW_BURST", FEW)
    monkeypatch.setattr(shared_page, "ANEW_PER_SECOND", 1.0)


def simulate(main: Coroutine[Any, Any, Any]) -> Any:
    return run(lambda loop: main)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_compressed_once_for_all_who_ask(path: str, coding: str) -> None:
    """However many ask at once, they are given the same bytes, and none stands in the line in
    which others wait for their dear work."""

    async def main() -> None:
        app, _ = make_app(ScriptedBackend())
        app.start()
        accepts = ("accept-encoding", coding)
        tasks = [asyncio.ensure_future(app.handle(get(path, "", accepts))) for _ in range(MANY)]
        await asyncio.sleep(0)
        assert app._services.turns.waiting == 0
        answers = await asyncio.gather(*tasks)
        assert len({id(answer.body) for answer in answers}) == 1
        assert dict(answers[0].headers)["content-encoding"] == coding
        plain = await app.handle(get(path))
        assert decompress(coding, body_of(answers[0]), 1 << 20) == plain.body
        await app.close()

    simulate(main())


def test_few_answers_are_compressed_at_a_time() -> None:
    """Of those that take several steps so many have a compressor, which is told as held; all come
    to their turn, and one that is given up leaves its place to others."""

    async def main() -> None:
        turns = Turns()
        compressions = Compressions(turns)
        body = random.Random(1).randbytes(4 * COMPRESS_STEP_BYTES)
        answers = [Response(200, [], body) for _ in range(4 * UNDER_WAY_MAX)]
        tasks = [
            asyncio.ensure_future(compressions.compress(answer, "gzip", is_page=False))
            for answer in answers
        ]
        most = 0
        tasks.pop().cancel()
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            most = max(most, compressions.held_bytes)
            if most and not tasks[0].done():
                tasks[0].cancel()
        assert most == UNDER_WAY_MAX * COMPRESSOR_BYTES
        assert compressions.held_bytes == 0
        done = [dict(answer.headers).get("content-encoding") for answer in answers]
        assert done[1:-1] == ["gzip"] * (len(answers) - 2)

    simulate(main())


def test_one_page_is_made_for_all_who_ask_before_it_begins() -> None:
    """Those who come while one is being made share the next, since theirs must not be older than
    their question; in a coding it is made once as well."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = 0

        async def make() -> bytes:
            nonlocal made
            made += 1
            number = made
            await asyncio.sleep(0.1)
            return b"%d" % number * 5000

        page = SharedPage(SimClock(loop), Turns())
        first = asyncio.ensure_future(page.get(make, None))
        await asyncio.sleep(0.05)
        coded = [asyncio.ensure_future(page.get(make, "gzip")) for _ in range(MANY)]
        plain = [asyncio.ensure_future(page.get(make, None)) for _ in range(MANY)]
        assert await first == b"1" * 5000
        given = await asyncio.gather(*coded)
        assert len({id(one) for one in given}) == 1
        assert decompress("gzip", given[0], 1 << 20) == b"2" * 5000
        assert set(await asyncio.gather(*plain)) == {b"2" * 5000}
        assert made == 2

    simulate(main())


def test_a_page_that_is_asked_for_all_the_time_is_made_once_a_second() -> None:
    """Beyond the first few; and an asker who gives up in the middle leaves the making to others."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = 0

        async def make() -> bytes:
            nonlocal made
            made += 1
            await asyncio.sleep(0.001)
            return b"%d" % made

        page = SharedPage(SimClock(loop), Turns())
        gives_up = asyncio.ensure_future(page.get(make, None))
        waits = asyncio.ensure_future(page.get(make, None))
        await asyncio.sleep(0)
        gives_up.cancel()
        assert await waits == b"2"
        for _ in range(1000):
            await page.get(make, None)
            await asyncio.sleep(0.01)
        assert FEW < made <= FEW + 13

    simulate(main())


def test_askers_who_leave_do_not_freeze_the_page() -> None:
    """Whoever asks and leaves at once takes the allowance of a making, and the making goes on: who
    waits is told what is a second old at most."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made_at: list[float] = []

        async def make() -> bytes:
            await asyncio.sleep(0.05)
            made_at.append(loop.time())
            return b"%d" % len(made_at)

        async def leave() -> None:
            while True:
                asker = asyncio.ensure_future(page.get(make, None))
                await asyncio.sleep(0.01)
                asker.cancel()

        page = SharedPage(SimClock(loop), Turns())
        leaving = asyncio.ensure_future(leave())
        await asyncio.sleep(2 * FEW)
        for _ in range(10):
            given = int(await page.get(make, None))
            assert loop.time() - made_at[given - 1] < 1.5
            await asyncio.sleep(0.7)
        leaving.cancel()
        await page.close()

    simulate(main())


@pytest.mark.parametrize("is_made_before", [True, False])
def test_a_page_that_cannot_be_made_is_not_given_as_it_was(is_made_before: bool) -> None:
    """Who asks while none may be made is told of the failure, and a later making mends it. However
    often one fails, it is tried as often as others are made."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tried = 0
        is_broken = not is_made_before

        async def make() -> bytes:
            nonlocal tried
            tried += 1
            await asyncio.sleep(0.001)
            if is_broken:
                raise ValueError("cannot be made")
            return b"made"

        page = SharedPage(SimClock(loop), Turns())
        if is_made_before:
            assert await page.get(make, None) == b"made"
        is_broken, tried = True, 0
        for _ in range(200):
            with pytest.raises(ValueError, match="cannot be made"):
                await page.get(make, None)
            await asyncio.sleep(0.01)
        assert FEW - 1 <= tried <= FEW + 4
        is_broken = False
        await asyncio.sleep(1)
        assert await page.get(make, "gzip") == await page.get(make, "gzip")
        assert await page.get(make, None) == b"made"

    simulate(main())


def test_a_making_ends_with_its_page() -> None:
    """Nothing of it is left behind a gateway that is closed, also where nobody waits for it."""

    async def main() -> None:
        how: list[str] = []

        async def make() -> bytes:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                how.append("cancelled")
                raise
            return b""

        page = SharedPage(SimClock(asyncio.get_running_loop()), Turns())
        asker = asyncio.ensure_future(page.get(make, None))
        await asyncio.sleep(1)
        asker.cancel()
        await asyncio.sleep(1)
        assert how == []
        await page.close()
        assert how == ["cancelled"]

    simulate(main())
