"""This is the public API as the command line's own clients use it, with JSON bodies in base64 and
one connection.

Answers are returned, not raised: what an error means for a write is the caller's decision.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from svc_cluster.base.clock import Clock
from svc_cluster.client.wire_records import (
    AppendRecord,
    ReadRecord,
    append_body,
    decode_batch,
    records_path,
)
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse

_JSON: Final = {"content-type": "application/json"}
_RETRY_S: Final = 0.1

__all__ = [
    "ApiClient",
    "ApiError",
    "AppendRecord",
    "ReadRecord",
    "append_body",
    "decode_batch",
    "records_path",
]


class ApiError(Exception):
    """A call that the caller cannot do without was refused, or not answered in time."""


class ApiClient:
    """One connection to a gateway. Calls raise ConnectionLostError, nothing else."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.tls = tls
        self.http = self.connection()

    def connection(self) -> HttpClient:
        """One more connection to the same place."""
        return HttpClient(self.url, self.tls)

    def close(self) -> None:
        self.http.close()

    async def create_basin(self, basin: str) -> HttpResponse:
        body = msgspec.json.encode({"basin": basin})
        return await self.http.request("POST", "/v1/basins", _JSON, body)

    async def create_stream(self, basin: str, stream: str) -> HttpResponse:
        body = msgspec.json.encode({"stream": stream})
        return await self.http.request("POST", "/v1/streams", _JSON | {"svc-basin": basin}, body)

    async def append(
        self,
        basin: str,
        stream: str,
        records: Sequence[AppendRecord],
        *,
        match_seq_num: int | None = None,
        request_token: str | None = None,
        timeout_s: float = 10.0,
    ) -> HttpResponse:
        headers = _JSON | {"svc-basin": basin, "svc-format": "base64"}
        if request_token is not None:
            headers["svc-request-token"] = request_token
        body = append_body(records, match_seq_num)
        path = records_path(stream)
        return await self.http.request("POST", path, headers, body, timeout_s=timeout_s)

    async def read(
        self, basin: str, stream: str, query: str, *, timeout_s: float = 10.0
    ) -> HttpResponse:
        """`query`: such as `seq_num=0&count=1000`. Decode a 200's body with `decode_batch`."""
        headers = {"svc-basin": basin, "svc-format": "base64"}
        path = f"{records_path(stream)}?{query}"
        return await self.http.request("GET", path, headers, timeout_s=timeout_s)

    async def check_tail(self, basin: str, stream: str, *, timeout_s: float = 10.0) -> HttpResponse:
        headers = {"svc-basin": basin}
        path = records_path(stream) + "/tail"
        return await self.http.request("GET", path, headers, timeout_s=timeout_s)

    async def make(self, clock: Clock, basin: str, stream: str | None, deadline_s: float) -> None:
        """Create a basin (or a stream in it) if it is not there, trying again while the cluster
        does not answer. Raises ApiError when `deadline_s` is over or the call is refused."""
        await self.insist(
            clock,
            (lambda: self.create_basin(basin))
            if stream is None
            else (lambda: self.create_stream(basin, stream)),
            accept=frozenset({200, 201}),
            codes=frozenset({"resource_already_exists"}),
            deadline_s=deadline_s,
        )

    async def insist(
        self,
        clock: Clock,
        call: Any,
        *,
        accept: frozenset[int],
        codes: frozenset[str] = frozenset(),
        deadline_s: float,
    ) -> HttpResponse:
        """Repeat `call` until its status is in `accept`, or its error code in `codes`. One status
        stands for several, of which some want another try. Only for calls that may be repeated.
        Raises ApiError for another 4xx and when `deadline_s` is over."""
        end = clock.monotonic() + deadline_s
        last = "no answer"
        while clock.monotonic() < end:
            try:
                response: HttpResponse = await call()
            except ConnectionLostError as error:
                last = str(error)
            else:
                if response.status in accept or (
                    response.status >= 400 and codes and response.json().get("code") in codes
                ):
                    return response
                last = f"{response.status}: {response.body.decode(errors='replace')}"
                if 400 <= response.status < 500 and response.status not in {408, 409, 429}:
                    raise ApiError(last)
            await asyncio.sleep(_RETRY_S)
        raise ApiError(f"gave up after {deadline_s} s: {last}")
