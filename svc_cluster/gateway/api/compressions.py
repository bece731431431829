"""How answers are compressed without taking more memory or time than others can spare.

A compressor holds much more than most answers that it makes smaller. What is compressed in one step
has one for no longer than that step; of those that take several steps, between which others have
their turn, so many are under way at a time. Pages that are the same for everybody are compressed
once and wait for nobody.
"""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.codec.compression import COMPRESS_STEP_BYTES
from svc_cluster.gateway.api.turns import Turns
from svc_cluster.gateway.request.compress import compressing_steps, give_coded_page
from svc_cluster.http.message import Response

UNDER_WAY_MAX: Final = 8
"""Compressions of several steps; others wait for their turn without a compressor."""
COMPRESSOR_BYTES: Final = 1024 * 1024
"""About what one holds: 256 KiB for gzip, and for zstd up to this."""


class Compressions:
    """These are the compressions of one process."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._places = asyncio.Semaphore(UNDER_WAY_MAX)
        self._under_way = 0

    @property
    def held_bytes(self) -> int:
        """About what the compressors hold."""
        return self._under_way * COMPRESSOR_BYTES

    async def compress(self, response: Response, coding: str, *, is_page: bool) -> None:
        """Give the body that coding."""
        body = response.body
        assert isinstance(body, bytes), "what has no end is not compressed"
        if is_page:
            give_coded_page(response, coding)
        elif len(body) <= COMPRESS_STEP_BYTES:
            await self._turns.run(compressing_steps(response, coding), len(body))
        else:
            async with self._places:
                self._under_way += 1
                try:
                    await self._turns.run(compressing_steps(response, coding), len(body))
                finally:
                    self._under_way -= 1
