"""One connection to a server of the public interface, ours or another of S2's dialect.

Requests name their basin as S2's clients do, so that each server takes them. Every call raises
ClientError where it does not go well; what is asked only is asked once, and at once.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from svc_cluster.client.client_errors import ClientError, lost, refusal
from svc_cluster.client.stream_key import StreamKey
from svc_cluster.client.wire_records import ReadRecord, decode_batch, records_path
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse

SECONDS_MAX: Final = 20.0
"""The time that a call may take."""
IDLE_SECONDS_MAX: Final = 30.0
"""Without anything on a followed stream: the server sends something every 15 s at least."""
PAGES_MAX: Final = 100_000
"""Pages of one list, whatever the server says of more."""
KEY_OPTION: Final = "--key-file or in SVC_CLUSTER_ENCRYPTION_KEY_FILE"
BASIN_PLACE: Final = "{basin}"
"""In the address that basins are asked at: their name."""

_JSON: Final = {"content-type": "application/json"}
_Shape = TypeVar("_Shape")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server is, how it is trusted, and who asks. `basin_url`: where basins are asked,
    which may have their name in it; None: at `url` as well. `tls`: None for the authorities of
    this machine."""

    url: str
    basin_url: str | None = None
    token: str | None = None
    tls: ssl.SSLContext | None = None


class StreamTail(msgspec.Struct):
    """Where the next record of a stream goes. `timestamp`: of the last one, Unix milliseconds."""

    seq_num: int
    timestamp: int


class _TailBody(msgspec.Struct):
    tail: StreamTail


class _Page(msgspec.Struct):
    has_more: bool
    basins: list[msgspec.Raw] = []
    streams: list[msgspec.Raw] = []
    access_tokens: list[msgspec.Raw] = []


class _Named(msgspec.Struct):
    name: str = ""
    id: str = ""


def shaped(body: bytes | msgspec.Raw, shape: type[_Shape]) -> _Shape:
    """Return an answer's content. Raises ClientError for one of another shape."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.DecodeError as cause:
        raise ClientError(f"the server's answer cannot be understood: {cause}") from cause


class ServiceClient:
    """Calls of the interface; not for use by two tasks at once."""

    def __init__(
        self,
        address: ServerAddress,
        key: StreamKey | None = None,
        key_option: str = KEY_OPTION,
    ) -> None:
        """`key`: what opens and seals the records of encrypted streams. `key_option`: what names
        its file, for who is asked for it."""
        self.address = address
        self.key = key
        self.key_option = key_option
        self._account: HttpClient | None = None
        self._basins: dict[str, HttpClient] = {}

    async def __aenter__(self) -> ServiceClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for http in (self._account, *self._basins.values()):
            if http is not None:
                http.close()

    @property
    def record_headers(self) -> dict[str, str]:
        """What a request for records has beside its own: in base64, and the key where there is
        one."""
        return {"s2-format": "base64"} | ({} if self.key is None else self.key.headers)

    async def call(
        self,
        method: str,
        path: str,
        *,
        basin: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = SECONDS_MAX,
    ) -> HttpResponse:
        """Ask once and return the answer, a success. Raises ClientError: AnswerRefusedError with
        what the server says, AwayError and UntrustedError where it says nothing."""
        http, given = self._way(basin)
        if body is not None:
            given |= _JSON
        if headers is not None:
            given |= headers
        try:
            answer = await http.request(method, path, given, body or b"", timeout_s=timeout_s)
        except ConnectionLostError as cause:
            raise lost(self._url(basin), cause) from cause
        if answer.status >= 400:
            raise refusal(answer, self.key_option)
        return answer

    async def pages(
        self, noun: str, *, basin: str | None = None, prefix: str = "", limit: int | None = None
    ) -> AsyncIterator[msgspec.Raw]:
        """Yield what a list has, page by page, at most `limit`. `noun`: basins, streams or
        access-tokens."""
        behind, left = "", limit
        for _ in range(PAGES_MAX):
            query = {"prefix": prefix, "start_after": behind, "limit": min(left or 1000, 1000)}
            path = f"/v1/{noun}?{urlencode({k: v for k, v in query.items() if v})}"
            page = shaped((await self.call("GET", path, basin=basin)).body, _Page)
            items = page.basins or page.streams or page.access_tokens
            for item in items:
                yield item
            if left is not None:
                left -= len(items)
            if not page.has_more or not items or left == 0:
                return
            last = shaped(items[-1], _Named)
            behind = last.name or last.id
        raise ClientError(f"the list of {noun} has no end")

    async def tail(self, basin: str, stream: str) -> StreamTail:
        """Return where the stream's next record goes."""
        answer = await self.call("GET", f"{records_path(stream)}/tail", basin=basin)
        return shaped(answer.body, _TailBody).tail

    async def read(
        self, basin: str, stream: str, query: str, *, timeout_s: float = SECONDS_MAX
    ) -> list[ReadRecord]:
        """Return one answer's records. `query`: such as `seq_num=0&count=1000`."""
        path = f"{records_path(stream)}?{query}"
        answer = await self.call(
            "GET", path, basin=basin, headers=self.record_headers, timeout_s=timeout_s
        )
        try:
            return decode_batch(answer.body)
        except msgspec.DecodeError as cause:
            raise ClientError(f"the server's answer cannot be understood: {cause}") from cause

    async def events(self, basin: str, stream: str, query: str) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a read as server-sent events, until it ends in whichever way. The
        connection is its own."""
        _, given = self._way(basin)
        http = HttpClient(self._basin_url(basin), self.address.tls)
        headers = given | self.record_headers | {"accept": "text/event-stream"}
        try:
            path = f"{records_path(stream)}?{query}"
            async with aclosing(http.stream(path, headers, idle_s=IDLE_SECONDS_MAX)) as pieces:
                async for piece in pieces:
                    yield piece
        except ConnectionLostError as cause:
            if cause.response is not None:
                raise refusal(cause.response, self.key_option) from cause
            raise lost(self._url(basin), cause) from cause
        finally:
            http.close()

    def _way(self, basin: str | None) -> tuple[HttpClient, dict[str, str]]:
        """Return the connection to ask on, and the headers that say who asks and which basin."""
        headers = {}
        if self.address.token is not None:
            headers["authorization"] = f"Bearer {self.address.token}"
        if basin is None:
            if self._account is None:
                self._account = self._connection(self.address.url)
            return self._account, headers
        if BASIN_PLACE not in (self.address.basin_url or self.address.url):
            headers["s2-basin"] = quote(basin, safe="")  # what is no name is refused, not sent
        key = self._basin_url(basin)
        if key not in self._basins:
            self._basins[key] = self._connection(key)
        return self._basins[key], headers

    def _connection(self, url: str) -> HttpClient:
        return HttpClient(url, self.address.tls)

    def _url(self, basin: str | None) -> str:
        return self.address.url if basin is None else self._basin_url(basin)

    def _basin_url(self, basin: str) -> str:
        return (self.address.basin_url or self.address.url).replace(BASIN_PLACE, quote(basin))


def checked_url(text: str, what: str) -> str:
    """Return an address with its scheme: without one it is http:// for this machine, https:// for
    another. Raises ClientError, which names `what` was given, and repeats no password."""
    if "@" in text:
        raise ClientError(
            f"{what} has a user's name in it: take out what stands up to the @, nothing of it is "
            "ever sent; an access token stands in a file, which --token-file names"
        )
    url = text.strip().removesuffix("/")
    if "//" not in text:
        host = urlsplit(f"//{url}").hostname or ""
        is_here = host in {"localhost", "::1"} or host.startswith("127.")
        url = f"{'http' if is_here else 'https'}://{url}"
    try:
        parts = urlsplit(url.replace(BASIN_PLACE, "basin"))
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        is_address = is_address and parts.path in {"", "/v1"} and not parts.query
        _ = parts.port
    except ValueError:
        is_address = False
    if not is_address or not url.isascii() or any(c.isspace() for c in url):
        raise ClientError(
            f"{what} is {text!r}: use an address such as http://127.0.0.1:8080, without a path"
        )
    return url.removesuffix("/v1")
