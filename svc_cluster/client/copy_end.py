"""One end of a copy: a stream of a server, as it is asked while records are copied."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import msgspec

from svc_cluster.client.client_errors import AnswerRefusedError, AwayError, ClientError
from svc_cluster.client.definite_append import RetryPatience
from svc_cluster.client.service_client import ServiceClient, shaped
from svc_cluster.client.stream_key import key_advice
from svc_cluster.client.stream_reading import StreamBounds, StreamStart, read_pages
from svc_cluster.client.wire_records import ReadRecord, stream_path

_MEMBERS: Final = ("retention_policy", "timestamping", "delete_on_empty")
"""Members of a configuration that a server may leave out, which means the default."""


class CopyError(ClientError):
    """The copy cannot be made, or is not one."""


class _Info(msgspec.Struct):
    name: str
    created_at: str | None = None


class _Streams(msgspec.Struct):
    streams: list[_Info]


class _SealingBasin(msgspec.Struct):
    stream_cipher: str | None = None


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """One end of a copy: a stream of a server, and how what fails is tried again."""

    client: ServiceClient
    basin: str
    stream: str
    patience: RetryPatience

    @property
    def name(self) -> str:
        return f"{self.client.address.url} {self.basin}/{self.stream}"

    async def pages(self, seq_num: int, end: int) -> AsyncGenerator[list[ReadRecord], None]:
        """Yield the records from a number on, to before another."""
        if end <= seq_num:
            return
        start = StreamStart("seq_num", seq_num)
        async with aclosing(self._read(start, StreamBounds(count=end - seq_num))) as pages:
            async for page in pages:
                # a count from `seq_num` on goes beyond the end where the first ones were trimmed
                within = [record for record in page if record.seq_num < end]
                if within:
                    yield within
                if len(within) < len(page):
                    return

    async def at_timestamp(self, timestamp: int) -> AsyncGenerator[list[ReadRecord], None]:
        """Yield the records that have this timestamp, which stand together."""
        start, bounds = StreamStart("timestamp", timestamp), StreamBounds(until=timestamp + 1)
        async with aclosing(self._read(start, bounds)) as pages:
            async for page in pages:
                yield page

    async def _read(
        self, start: StreamStart, bounds: StreamBounds
    ) -> AsyncGenerator[list[ReadRecord], None]:
        """Yield nothing where there is nothing from the start on."""
        pages = read_pages(
            self.client, self.basin, self.stream, start, bounds, self.patience, clamp=True
        )
        try:
            async with aclosing(pages):
                async for page in pages:
                    yield page
        except AnswerRefusedError as refused:
            if refused.status != 416:
                raise

    async def first_from(self, seq_num: int) -> ReadRecord | None:
        """Return the first record that is there from a number on."""
        async with aclosing(self._read(StreamStart("seq_num", seq_num), StreamBounds(count=1))) as (
            pages
        ):
            async for page in pages:
                return page[0]
        return None

    async def tail(self) -> int:
        """Return the number that the next record gets."""
        while True:
            try:
                return (await self.client.tail(self.basin, self.stream)).seq_num
            except (AwayError, AnswerRefusedError) as cause:
                if not await self._passes(cause):
                    raise

    async def _passes(self, cause: AwayError | AnswerRefusedError) -> bool:
        """Return whether the same may go well now; a while has passed then."""
        passes = isinstance(cause, AwayError) or cause.is_passing
        return passes and await self.patience.wait()

    async def config(self) -> dict[str, object]:
        """Return the whole configuration; what is null in it is the default."""
        answer = await self.client.call("GET", stream_path(self.stream), basin=self.basin)
        return dict.fromkeys(_MEMBERS) | shaped(answer.body, dict[str, object])

    async def configure(self, config: dict[str, object]) -> None:
        """Change these members of the configuration. What passes is waited for: once more is the
        same as once."""
        path, body = stream_path(self.stream), msgspec.json.encode(config)
        while True:
            try:
                await self.client.call("PATCH", path, basin=self.basin, body=body)
            except (AwayError, AnswerRefusedError) as cause:
                if not await self._passes(cause):
                    raise
            else:
                self.patience.renew()
                return

    async def ensure(self, config: dict[str, object]) -> None:
        """Give the stream this configuration; make it where it is missing."""
        told = {name: value for name, value in config.items() if value is not None}
        await self.client.call(
            "PUT", stream_path(self.stream), basin=self.basin, body=msgspec.json.encode(told)
        )

    async def created_at(self) -> str | None:
        """Return when the stream was made, as the server writes it; None where it does not say."""
        path = "/v1/streams?" + urlencode({"prefix": self.stream, "limit": 1})
        try:
            answer = await self.client.call("GET", path, basin=self.basin)
        except AnswerRefusedError:
            return None  # the token may see this stream and no list
        found = shaped(answer.body, _Streams).streams
        return found[0].created_at if found and found[0].name == self.stream else None

    async def check_key(self) -> None:
        """Raise CopyError where a stream that is made here would be encrypted, and there is no key.
        As far as the server says it, so that no stream is left that nothing can be appended to."""
        if self.client.key is not None:
            return
        try:
            answer = await self.client.call("GET", f"/v1/basins/{self.basin}")
        except AnswerRefusedError:
            return
        if shaped(answer.body, _SealingBasin).stream_cipher is not None:
            advice = key_advice(self.client.key_option)
            raise CopyError(f"the records of {self.name} are to be encrypted{advice}")
