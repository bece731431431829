"""A stream is copied from one server to another here, in pages, and compared at the end.

The destination itself says how far a copy came: what it holds is compared with what the source
holds, and the copy goes on behind it. Every append names the position that its first record gets,
so that nothing is copied twice, whatever becomes of an answer.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.tasks import start_task
from svc_cluster.client.client_errors import (
    AnswerRefusedError,
    ClientError,
    OutcomeUnknownError,
)
from svc_cluster.client.copy_end import CopyEnd, CopyError
from svc_cluster.client.copy_overlap import Overlap, moved
from svc_cluster.client.definite_append import DefiniteAppender, happened_perhaps
from svc_cluster.client.wire_records import AppendRecord, ReadRecord

_ATTEMPTS_MAX: Final = 20
"""Attempts to append one page, whatever the destination says."""

KEEPS_TIMESTAMPS: Final = {"mode": "client-require", "uncapped": True}
"""The timestamping of a destination while records are copied: they keep the source's."""
_INTERRUPTED_SECONDS_MAX: Final = 5.0
"""For the configuration to be put back, where somebody waits for the end."""
_MARK_SECONDS_MIN: Final = 1_000_000_000
"""A stream that is marked is not deleted for so long, which is some thirty years at least."""


@dataclass(frozen=True, slots=True)
class CopiedStream:
    """What was copied. `shift`: the source's number of the destination's record 0."""

    copied: int
    resumed_at: int
    shift: int
    tail: int
    """The source's when the copy began: what came later is not in it."""
    compared: int


class StreamCopy:
    """One stream on its way."""

    def __init__(
        self,
        source: CopyEnd,
        target: CopyEnd,
        new_token: Callable[[], str],
        told: Callable[[str, int, int], None],
        left: Callable[[str], None],
    ) -> None:
        """`told` is called with what is being done, how far it has come and how far it goes. `left`
        is called with what is left to do behind a copy that ends otherwise than by ClientError."""
        self._source = source
        self._target = target
        self._overlap = Overlap(source, target)
        self._told = told
        self._left = left
        self._new_token = new_token
        self._may_be_changed = False
        """Whether the destination's configuration may be another than it was."""

    async def run(self) -> CopiedStream:
        """Copy what the source holds now and compare it. Raises ClientError; to be run again then,
        it goes on where it was. The destination's configuration is then what it was, or it is
        said that it is not."""
        end = await self._source.tail()
        await self._source.first_from(0)  # what cannot be read leaves nothing at the destination
        before = await self._target_config()
        standing = None
        if before is None:
            await self._target.check_key()
        else:
            await self._refuse_itself(before)
            standing = await self._overlap.standing(end)  # what is not a copy is left as it is
        config = await self._source.config()
        try:
            kept = {"timestamping": KEEPS_TIMESTAMPS, "delete_on_empty": {"min_age_secs": 0}}
            await self._change(self._target.ensure(config | kept))
            standing = standing or await self._overlap.standing(end)
            copied = await self._copy(standing.begin, end, standing.shift)
            compared = await self._overlap.compare(end, standing.shift, self._told)
        except BaseException as cause:
            await self._put_back(config if before is None else before, cause)
            raise
        # only now: until here the timestamps are the source's whatever its mode is
        try:
            await self._target.configure(config)
        except BaseException as cause:
            await self._put_back(config, cause)
            raise
        return CopiedStream(copied, standing.begin - standing.shift, standing.shift, end, compared)

    async def _change(self, change: Awaitable[None]) -> None:
        """Change the destination's configuration: only what is refused for certain leaves it."""
        was_changed, self._may_be_changed = self._may_be_changed, True
        try:
            await change
        except AnswerRefusedError as refused:
            self._may_be_changed = was_changed or happened_perhaps(refused)
            raise

    async def _put_back(self, config: dict[str, object], cause: BaseException) -> None:
        """Give the destination this configuration, whatever has ended the copy. Where that cannot
        be done either it is said, by CopyError behind a ClientError."""
        if not self._may_be_changed:
            return
        is_told = isinstance(cause, ClientError)
        try:
            async with asyncio.timeout(None if is_told else _INTERRUPTED_SECONDS_MAX):
                await self._target.configure(config)
        except BaseException as failed:
            if isinstance(failed, AnswerRefusedError) and failed.status == 404:
                return  # of what is gone nothing is left
            left = (
                f"the configuration of {self._target.name}, which is that of a copy under way, "
                f"could not be put back ({_why(failed)}): ask for the same copy again, or "
                "reconfigure the stream"
            )
            if is_told and isinstance(failed, ClientError):
                raise CopyError(f"{cause}; and {left}") from cause
            self._left(left)
            if not isinstance(failed, ClientError | TimeoutError):
                raise

    async def _target_config(self) -> dict[str, object] | None:
        """The configuration of the destination's stream; None where there is none yet."""
        try:
            return await self._target.config()
        except AnswerRefusedError as refused:
            if refused.status != 404:
                raise
            return None

    async def _refuse_itself(self, before: dict[str, object]) -> None:
        """Raise CopyError where source and destination are one stream, by whatever addresses.

        Streams that were made at different times are two. Others may be the original and what was
        restored from its backup: only a change of the one that shows at the other says that they
        are one. It is one that harms no stream in use: a while without deletion.
        """
        made = [await end.created_at() for end in (self._source, self._target)]
        if None not in made and made[0] != made[1]:
            return
        own = {"delete_on_empty": before["delete_on_empty"]}
        mark = {"min_age_secs": _MARK_SECONDS_MIN + zlib.crc32(self._new_token().encode()) // 8}
        try:
            await self._change(self._target.configure({"delete_on_empty": mark}))
            seen = (await self._source.config())["delete_on_empty"]
            await self._target.configure(own)
            self._may_be_changed = False
        except BaseException as cause:
            await self._put_back(own, cause)
            raise
        if seen == mark:
            raise CopyError(
                f"{self._source.name} and {self._target.name} are the same stream: name another "
                "server, or a --basin at the destination"
            )

    async def _copy(self, begin: int, end: int, shift: int) -> int:
        """Append from `begin` to before `end`; the next page is read while one is appended."""
        place = begin
        async with aclosing(self._source.pages(begin, end)) as pages:
            reading = start_task(_next(pages), "read the next page")
            try:
                while (page := await reading) is not None:
                    reading = start_task(_next(pages), "read the next page")
                    if page[0].seq_num != place:
                        raise CopyError(
                            f"the source has removed its records {place} to "
                            f"{page[0].seq_num - 1} meanwhile: positions cannot be kept, copy to "
                            "an empty stream"
                        )
                    await self._append([moved(record, shift) for record in page], place - shift)
                    place = page[-1].seq_num + 1
                    self._told("copied", place, end)
            finally:
                # it reads from `pages`, which cannot be closed before it has ended
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        return place - begin

    async def _append(self, records: list[AppendRecord], at: int) -> None:
        """Append records that get the numbers from `at` on, once."""
        appender = DefiniteAppender(
            self._target.client,
            self._target.basin,
            self._target.stream,
            self._target.patience,
            self._new_token,
        )
        for _ in range(_ATTEMPTS_MAX):
            try:
                await appender.append(records, match_seq_num=at)
            except OutcomeUnknownError:
                # a server that knows no request tokens: its tail knows
                there = await self._target.tail()
            except AnswerRefusedError as refused:
                if refused.status != 412:
                    raise
                there = await self._target.tail()
            else:
                return
            if there == at + len(records):
                return  # an attempt whose answer was lost; what it holds is compared at the end
            if there != at:
                break
        raise CopyError(f"somebody else appends to {self._target.name}: its tail is not {at}")


def _why(failed: BaseException) -> str:
    if isinstance(failed, ClientError):
        return str(failed)
    return "no answer in time" if isinstance(failed, TimeoutError) else "interrupted"


async def _next(pages: AsyncGenerator[list[ReadRecord], None]) -> list[ReadRecord] | None:
    return await anext(pages, None)
