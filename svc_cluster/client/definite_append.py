"""Appends end with a definite outcome: each batch is asked for until it is known whether it has
happened. It has a request token, by which the server carries it out once however often it is
asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from svc_cluster.base.clock import Clock
from svc_cluster.client.client_errors import (
    AnswerRefusedError,
    AwayError,
    ClientError,
    OutcomeUnknownError,
    UntrustedError,
)
from svc_cluster.client.service_client import ServiceClient, StreamTail, shaped
from svc_cluster.client.wire_records import AppendRecord, append_body, records_path

PAUSE_SECONDS: Final = (0.1, 2.0)
"""Between attempts, the first and the longest pause, half as much again at random."""
PATIENCE_SECONDS: Final = 60.0
"""Without an answer, before it is given up."""

TOKEN_HEADER: Final = "svc-request-token"
_PRODUCT: Final = "svc-cluster"


class BatchAck(msgspec.Struct):
    """Where a batch stands: from `start` to before `end`; and the stream's tail then."""

    start: StreamTail
    end: StreamTail
    tail: StreamTail


class _ServerVersion(msgspec.Struct):
    name: str = ""


class RetryPatience:
    """How often and how long something that fails is tried again."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        seconds: float = PATIENCE_SECONDS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._seconds = seconds
        self._sleep = sleep
        self._until: float | None = None
        self._pause = PAUSE_SECONDS[0]

    def renew(self) -> None:
        """It went well: the next failure is the first one."""
        self._until, self._pause = None, PAUSE_SECONDS[0]

    async def wait(self) -> bool:
        """Wait before the next attempt; False where the time is over."""
        now = self._clock.monotonic()
        if self._until is None:
            self._until = now + self._seconds
        if now >= self._until:
            return False
        await self._sleep(self._pause * (1 + self._rng.random() / 2))
        self._pause = min(self._pause * 2, PAUSE_SECONDS[1])
        return True


class DefiniteAppender:
    """Appends to one stream, one batch at a time, so that their order is theirs."""

    def __init__(
        self,
        client: ServiceClient,
        basin: str,
        stream: str,
        patience: RetryPatience,
        new_token: Callable[[], str],
    ) -> None:
        """`new_token` makes a request token that nobody else has, of 1 to 36 characters."""
        self._client = client
        self._basin = basin
        self._stream = stream
        self._patience = patience
        self._new_token = new_token
        self._is_ours: bool | None = None
        """Whether the server knows request tokens; None: it has not been asked."""

    async def append(
        self,
        records: Sequence[AppendRecord],
        *,
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
    ) -> BatchAck:
        """Return where the records stand. Raises AnswerRefusedError where they are refused for
        good, AwayError where they were not appended, and OutcomeUnknownError where nobody could be
        asked until the patience was over."""
        body = append_body(records, match_seq_num, fencing_token)
        headers = self._client.record_headers | {TOKEN_HEADER: self._new_token()}
        is_uncertain = False
        self._patience.renew()
        while True:
            try:
                answer = await self._client.call(
                    "POST", records_path(self._stream), basin=self._basin, body=body,
                    headers=headers,
                )  # fmt: skip
                return shaped(answer.body, BatchAck)
            except AnswerRefusedError as refused:
                may_have = happened_perhaps(refused)
                if not refused.is_passing and (not is_uncertain or refused.status == 412):
                    raise  # 412 is an outcome, which the request token has kept
                if not refused.is_passing:
                    raise _given_up(refused, is_uncertain=True) from refused
                last: ClientError = refused
            except AwayError as away:
                may_have = away.sent
                last = away
            except UntrustedError as cause:
                raise _given_up(cause, is_uncertain=is_uncertain) from cause
            is_uncertain = is_uncertain or may_have
            if is_uncertain and not await self._knows_tokens():
                raise OutcomeUnknownError(
                    f"{last}; whether these records were appended is not known, and this server "
                    "does not know request tokens, by which it could be asked: read the end of the "
                    "stream"
                ) from last
            if not await self._patience.wait():
                raise _given_up(last, is_uncertain=is_uncertain) from last

    async def _knows_tokens(self) -> bool:
        """Ask once it matters, until somebody answers. A server that stays away counts as one that
        does: the patience is over, and nothing is sent twice."""
        while self._is_ours is None:
            try:
                answer = await self._client.call("GET", "/version", basin=self._basin)
                self._is_ours = shaped(answer.body, _ServerVersion).name == _PRODUCT
            except AwayError:
                if not await self._patience.wait():
                    return True
            except ClientError as refused:
                if isinstance(refused, AnswerRefusedError) and refused.is_passing:
                    if not await self._patience.wait():
                        return True
                else:
                    self._is_ours = False
        return self._is_ours


class _Effect(msgspec.Struct):
    may_have_taken_effect: bool | None = None


def happened_perhaps(refused: AnswerRefusedError) -> bool:
    """Whether a refused write may have happened, as the server says it. Where it does not, it may
    for statuses of 500 and above and a timeout."""
    try:
        told = msgspec.json.decode(refused.body, type=_Effect).may_have_taken_effect
    except msgspec.DecodeError:
        told = None
    return told if told is not None else refused.status >= 500 or refused.status == 408


def _given_up(last: ClientError, *, is_uncertain: bool) -> ClientError:
    if is_uncertain:
        return OutcomeUnknownError(
            f"{last}; whether these records were appended is not known: read the end of the stream"
        )
    if not isinstance(last, AwayError):
        return last
    return AwayError(f"{last}; these records were not appended", sent=False)
