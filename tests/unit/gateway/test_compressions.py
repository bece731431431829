"""What anybody may have compressed costs nobody else memory or time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from svc_cluster.codec.compression import COMPRESS_STEP_BYTES, decompress
from svc_cluster.gateway.api.compressions import COMPRESSOR_BYTES, UNDER_WAY_MAX, Compressions
from svc_cluster.gateway.api.shared_page import ANEW_BURST, SharedPage
from svc_cluster.gateway.api.turns import Turns
from svc_cluster.http.message import Response
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, body_of, get, make_app

PAGES: Final = ("/docs", "/openapi.json", "/proto/s2/v1/s2.proto", "/console/main.js")
MANY: Final = 200


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
        assert ANEW_BURST < made <= ANEW_BURST + 13

    simulate(main())
