"""What is there before anything is measured: basins, streams, and the records in them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse
from svc_cluster.lab.api_client import ApiClient, ApiError, records_path
from svc_cluster.lab.load.requests import LoadAccess, protobuf_append, random_records
from svc_cluster.lab.load.scenarios import Scenario

_SET_UP_S: Final = 30.0
_AT_ONCE: Final = 8
"""Connections that make streams and fill them."""
_VARIANTS: Final = 16
_JSON: Final = {"content-type": "application/json"}
_THERE: Final = frozenset({"resource_already_exists"})


class Filling:
    """Makes what is not there over a few connections. Raises ApiError, as each call does."""

    def __init__(self, access: LoadAccess, clock: Clock, rng: random.Random) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._clients: list[HttpClient] = []

    async def __aenter__(self) -> Filling:
        self._clients = [HttpClient(self._access.url) for _ in range(_AT_ONCE)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    async def _insist(
        self, client: HttpClient, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> HttpResponse:
        """Ask until it is there. Only for what may be repeated."""

        def call() -> object:
            return client.request(method, path, headers, body)

        return await ApiClient(self._access.url).insist(
            self._clock,
            call,
            accept=frozenset({200, 201, 202}),
            codes=_THERE,
            deadline_s=_SET_UP_S,
        )

    async def make(self, basin: str, streams: Sequence[str]) -> None:
        """Create the basin and those streams, where they are not there."""
        headers = _JSON | self._access.headers()
        body = b'{"basin":"%b"}' % basin.encode()
        await self._insist(self._clients[0], "POST", "/v1/basins", headers, body)
        headers = _JSON | self._access.headers(basin)
        left = list(streams)

        async def work(client: HttpClient) -> None:
            while left:
                body = b'{"stream":"%b"}' % left.pop().encode()
                await self._insist(client, "POST", "/v1/streams", headers, body)

        await asyncio.gather(*(work(client) for client in self._clients))

    async def fill(self, basin: str, stream: str, scenario: Scenario | None) -> int:
        """Append what the scenario wants a stream to hold, in protobuf; returns its tail."""
        if scenario is None or scenario.fill_mib == 0:
            return 0
        count, size = scenario.fill_batch, scenario.fill_size
        left = max(1, round(scenario.fill_mib * 2**20 / (count * (size + 8))))
        headers = self._access.headers(basin) | {"content-type": "application/protobuf"}
        pool = [
            protobuf_append(random_records(self._rng, count, size))
            for _ in range(min(left, _VARIANTS))
        ]

        async def work(client: HttpClient) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                body = pool[left % len(pool)]
                try:
                    answer = await client.request("POST", records_path(stream), headers, body)
                except ConnectionLostError as cause:
                    raise ApiError(f"cannot fill {stream}: {cause}") from cause
                if answer.status == 429 or answer.status >= 500:
                    left += 1  # what an error has appended nevertheless is in the tail too
                    await asyncio.sleep(0.05)
                elif answer.status != 200:
                    raise ApiError(f"cannot fill {stream}: {answer.status} {answer.body!r}")

        async with asyncio.timeout(_SET_UP_S + scenario.fill_mib):
            await asyncio.gather(*(work(client) for client in self._clients))
        return await self.tail(basin, stream)

    async def tail(self, basin: str, stream: str) -> int:
        """The number of records in a stream."""
        path = records_path(stream) + "/tail"
        headers = self._access.headers(basin)
        answer = await self._insist(self._clients[0], "GET", path, headers, b"")
        return int(answer.json()["tail"]["seq_num"])
