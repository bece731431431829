"""Backups in a bucket of S3, or of a store that speaks its language."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import S3Store

from svc_cluster.backup.backup_errors import BackupError, ObjectStoreError
from svc_cluster.backup.objects import PAGE, ObjectInfo, Page, StoreBounds
from svc_cluster.backup.vault import CLOCKS

if TYPE_CHECKING:
    # a name of its stubs alone
    from obstore import ObjectMeta

SCHEME: Final = "s3://"
REQUEST_SECONDS_MAX: Final = 60
"""One attempt of one request, an object's body included."""
CONNECT_SECONDS_MAX: Final = 10
RETRY_SECONDS_MAX: Final = 120.0
"""A request that fails is repeated for so long, with pauses that double from PAUSE_SECONDS_MIN up
to PAUSE_SECONDS_MAX; no attempt begins later."""
PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 5.0
_RETRIES_MAX: Final = 10_000
"""More than there can be in that time: the time is what ends it."""

_DETAILS: Final = re.compile(r"\s*Debug source:.*", re.DOTALL)
_PLACE: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9._/-]*))?")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class BucketPatience:
    """How long a request is repeated, and the pauses in between: seconds."""

    retry_s: float = RETRY_SECONDS_MAX
    pause_min_s: float = PAUSE_SECONDS_MIN
    pause_max_s: float = PAUSE_SECONDS_MAX

    @property
    def request_s_max(self) -> float:
        """What one request takes at most with all its attempts, whatever the store does. A
        listing counts as one, and so does a page of one without a bound."""
        return self.retry_s + self.pause_max_s + REQUEST_SECONDS_MAX


class BucketStore:
    """Implements ObjectStore. `place` is s3://BUCKET or s3://BUCKET/FOLDER; where the store is and
    who asks are told by the usual variables: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or those of a machine's or a container's role. Raises
    BackupError."""

    def __init__(
        self,
        place: str,
        patience: BucketPatience | None = None,
        bounds: StoreBounds = StoreBounds(),
    ) -> None:
        self.bounds = bounds
        self.place = place
        self._patience = patience = patience or BucketPatience()
        self._takes_new_only = False
        """The store has been seen to keep what is there when it is put again."""
        found = _PLACE.fullmatch(place)
        if found is None or ".." in place or "//" in place.removeprefix(SCHEME):
            raise BackupError(f"{place}: use s3://BUCKET or s3://BUCKET/FOLDER")
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        try:
            self._store = S3Store(
                found[1],
                prefix=(found[2] or "").strip("/") or None,
                client_options={
                    "timeout": timedelta(seconds=REQUEST_SECONDS_MAX),
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
                    "allow_http": endpoint.startswith("http://"),
                },
                retry_config={
                    "max_retries": _RETRIES_MAX,
                    "retry_timeout": timedelta(seconds=patience.retry_s),
                    "backoff": {
                        "init_backoff": timedelta(seconds=patience.pause_min_s),
                        "max_backoff": timedelta(seconds=patience.pause_max_s),
                        "base": 2,
                    },
                },
            )
        except BaseError as cause:
            raise self._failed("the place", cause) from cause

    async def put_new(self, name: str, data: bytes) -> bool:
        self.bounds.check_kept(name, len(data))
        if not self._takes_new_only:
            await self._see_that_new_is_new()
        return await self._put(name, data)

    async def get(self, name: str) -> bytes | None:
        try:
            return await self._asked(name, self._content(name))
        except FileNotFoundError:
            return None

    async def list(self, prefix: str) -> Page:
        return await self._asked(prefix, self._listed(prefix))

    async def pages(self, prefix: str) -> AsyncGenerator[Page, None]:
        listing = self._listing(prefix)
        while (page := await self._asked(prefix, _next_page(listing, prefix))) is not None:
            yield page

    async def delete(self, name: str) -> None:
        try:
            await self._asked(name, obstore.delete_async(self._store, name))
        except FileNotFoundError:
            return

    async def sweep(self, before_ms: int) -> tuple[int, int]:
        """A put is one request: it leaves an object or nothing."""
        return 0, 0

    async def close(self) -> None:
        """Its connections end with the process."""

    async def _listed(self, prefix: str) -> Page:
        found: Page = []
        listing = self._listing(prefix)
        while (page := await _next_page(listing, prefix)) is not None:
            found += page
            self.bounds.check_names(len(found), self.place)
        return sorted(found, key=lambda each: each.name)

    def _listing(self, prefix: str) -> AsyncIterator[Sequence[ObjectMeta]]:
        # the library lists folders: what of a name is behind the last / is compared here
        folder = prefix.rpartition("/")[0]
        return obstore.list(self._store, prefix=folder or None, chunk_size=PAGE)

    async def _content(self, name: str) -> bytes:
        answer = await obstore.get_async(self._store, name)
        self.bounds.check_found(name, answer.meta["size"], self.place)
        data = bytearray()
        async for piece in answer.stream():
            data += piece
            # whatever its size was said to be
            self.bounds.check_found(name, len(data), self.place)
        return bytes(data)

    async def _put(self, name: str, data: bytes) -> bool:
        # an attempt whose answer was lost may be answered by "it is there" when it is repeated:
        # then this says False of what it has put itself, which the port allows
        put = obstore.put_async(self._store, name, data, mode="create", use_multipart=False)
        try:
            await self._asked(name, put)
        except FileExistsError:
            return False
        return True

    async def _see_that_new_is_new(self) -> None:
        """Stores that do not know `if-none-match` put over what is there, and two backups could
        mix: those are refused."""
        probe = f"{CLOCKS}{secrets.token_hex(8)}"
        await self._put(probe, b"")
        try:
            if await self._put(probe, b"again"):
                raise ObjectStoreError(
                    f"the store of {self.place} puts over objects that are there although it is "
                    "told not to (if-none-match: *): use a store or a release of it that refuses"
                )
        finally:
            await self.delete(probe)
        self._takes_new_only = True

    async def _asked(self, name: str, answer: Awaitable[_Answer]) -> _Answer:
        """Raises ObjectStoreError, FileNotFoundError and FileExistsError."""
        try:
            async with asyncio.timeout(self._patience.request_s_max):
                return await answer
        except (NotFoundError, FileNotFoundError) as cause:
            if "NoSuchBucket" in str(cause):
                raise self._failed(name, cause) from cause
            raise FileNotFoundError(name) from cause
        except AlreadyExistsError as cause:
            raise FileExistsError(name) from cause
        except (BaseError, TimeoutError) as cause:
            raise self._failed(name, cause) from cause

    def _failed(self, name: str, cause: Exception) -> ObjectStoreError:
        text = " ".join(_DETAILS.sub("", str(cause)).split())[:300] or "no answer in time"
        return ObjectStoreError(
            f"{name or 'a listing'} in {self.place}: {text}: see that AWS_ENDPOINT_URL, AWS_REGION "
            "and the credentials are those of this bucket, that they may list, read, put and "
            "delete there, and repeat"
        )


async def _next_page(listing: AsyncIterator[Sequence[ObjectMeta]], prefix: str) -> Page | None:
    """None: that was all."""
    try:
        page = await anext(listing)
    except StopAsyncIteration:
        return None
    return [
        ObjectInfo(each["path"], each["size"], round(each["last_modified"].timestamp() * 1000))
        for each in page
        if each["path"].startswith(prefix)
    ]
