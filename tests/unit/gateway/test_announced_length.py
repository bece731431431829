"""What a request announces and never appends costs nobody else the rate of appends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from svc_cluster.gateway.limits.rate_limit import Rates
from svc_cluster.http.message import BytesBody, ClientGoneError, Connection, Request
from tests.unit.gateway.framing import RECORDS
from tests.unit.gateway.scripted import BASIN
from tests.unit.gateway.test_rate_limiter import RAW, Gate, append, now, simulate, wait_of

RATE = 1024 * 1024
"""A batch of the largest size takes a second of it."""


class Breaks(BytesBody):
    """A body of which one byte comes, and a moment later its client is gone."""

    async def chunks(self, idle_seconds: float | None = None) -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(0.01)
        raise ClientGoneError

    def complete(self) -> None:  # type: ignore[override]
        """It is not there yet."""


def request_of(length: int, body: BytesBody) -> Request:
    headers = [BASIN, ("content-type", "application/json"), ("content-length", str(length)), RAW]
    return Request("POST", RECORDS, "", headers, body)


def announced(length: int) -> Request:
    return request_of(length, Breaks())


@pytest.mark.parametrize("length", [8 * RATE, 10**15, 10**18])
def test_a_length_that_is_only_announced_is_given_back(length: int) -> None:
    """Its client goes, or it is refused unread: the next append is served at once, whoever sends
    it, and the stream has that one alone."""

    async def main(gate: Gate) -> None:
        for _ in range(20):
            if length > 8 * RATE:
                assert (await gate.send(announced(length), Connection("10.0.0.1"))).status == 413
            else:
                with pytest.raises(ClientGoneError):
                    await gate.send(announced(length), Connection("10.0.0.1"))
        assert (await gate.send(append(10), Connection("10.0.0.2"))).status == 200
        assert (await gate.backend.check_tail(BASIN[1], "s")).seq_num == 1

    simulate(Rates(append_bytes=RATE), main)


def test_a_length_that_is_announced_counts_for_no_more_than_a_batch() -> None:
    """While its body is on the way, others wait as for the largest batch that there may be."""

    async def main(gate: Gate) -> None:
        first = asyncio.ensure_future(gate.send(announced(8 * RATE), Connection("10.0.0.1")))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(gate.send(announced(8 * RATE), Connection("10.0.0.1")))
        await asyncio.sleep(0.001)
        assert wait_of(await gate.send(append(10), Connection("10.0.0.2"))) < 2.5
        await asyncio.gather(first, second, return_exceptions=True)

    simulate(Rates(append_bytes=RATE), main)


@pytest.mark.parametrize("body", [b"{", b'{"records": []}', b'{"records": [{"body": 7}]}'])
def test_a_body_that_means_nothing_is_given_back(body: bytes) -> None:
    """It is refused, and the next append need not wait for what it had announced."""

    async def main(gate: Gate) -> None:
        begun = now()
        for _ in range(20):
            request = request_of(RATE, BytesBody(body.ljust(RATE)))
            assert (await gate.send(request, Connection("10.0.0.1"))).status in (400, 422)
        assert (await gate.send(append(10), Connection("10.0.0.2"))).status == 200
        assert now() == begun

    simulate(Rates(append_bytes=RATE), main)
