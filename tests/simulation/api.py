"""What a client of the service can ask for and be told, whatever it speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.linearizability.history import SeenRecord


@dataclass(frozen=True, slots=True)
class Acked:
    start: int
    end: int
    tail: int


@dataclass(frozen=True, slots=True)
class Records:
    """`limited`: more may follow before `tail`."""

    records: tuple[SeenRecord, ...]
    tail: int
    limited: bool


class UnknownOutcomeError(Exception):
    """The write may or may not have happened, or may still happen."""


class NoEffectError(Exception):
    """The request certainly did nothing. The text says why."""


class GoneError(NoEffectError):
    """The stream or basin does not exist, or is being deleted."""


class TailMismatchError(Exception):
    def __init__(self, tail: int) -> None:
        super().__init__(tail)
        self.tail = tail


class TokenMismatchError(Exception):
    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


class PastTailSeenError(Exception):
    def __init__(self, tail: int) -> None:
        super().__init__(tail)
        self.tail = tail


@dataclass(frozen=True, slots=True)
class Item:
    """One record of an append; a `fence` record's body is the new token, a trim's the point."""

    body: str
    fence: bool = False
    trim: int | None = None

    @staticmethod
    def trimming(point: int) -> Item:
        return Item(point.to_bytes(8, "big").decode("latin-1"), trim=point)

    @property
    def data(self) -> bytes:
        return self.body.encode("latin-1")

    @property
    def command(self) -> bytes | None:
        """The value of the header that makes it a command."""
        if self.trim is not None:
            return b"trim"
        return b"fence" if self.fence else None


@dataclass(frozen=True, slots=True)
class SessionBatch:
    """One input of an append session. `pause_s`: how long the client waits before it."""

    items: Sequence[Item]
    match_seq_num: int | None = None
    fencing_token: str | None = None
    pause_s: float = 0.0


class SessionEvents(Protocol):
    """What an append session has to tell, batch by batch in their order."""

    def sent(self) -> None:
        """The next batch is on its way from now on."""
        ...

    def acked(self, ack: Acked) -> None: ...


Config = dict[str, int]
"""The age of a retention policy (`retention`) and that of deletion for being empty (`min_age`), in
seconds, as far as they are set."""

OnBatch = Callable[[tuple[SeenRecord, ...]], None]


class SimClient(Protocol):
    """One stream service as a client library sees it. Everything raises NoEffectError; writes also
    UnknownOutcomeError."""

    async def create_basin(self, basin: str) -> None: ...

    async def create_stream(self, basin: str, stream: str) -> None:
        """Idempotent: an existing stream is fine."""
        ...

    async def append(
        self,
        basin: str,
        stream: str,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        request_token: str | None = None,
    ) -> Acked:
        """With a `request_token` it may be repeated, through any client of the same service. Raises
        TailMismatchError, TokenMismatchError as well."""
        ...

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        """Send all batches in one session, without waiting for each. Raises what `append` raises
        for the first batch that has no acknowledgement; with anything but UnknownOutcomeError that
        one had no effect, nor has any behind it."""
        ...

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        """Raises PastTailSeenError for a start beyond the tail."""
        ...

    async def check_tail(self, basin: str, stream: str) -> int: ...

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        """Give what comes from `start` on to `on_batch`, for a while at most. Raises as `read`."""
        ...

    async def delete_stream(self, basin: str, stream: str) -> None: ...

    async def delete_basin(self, basin: str) -> None: ...


class ConfiguringClient(SimClient, Protocol):
    """One that changes configurations as well."""

    async def reconfigure(self, basin: str, stream: str | None, change: Config) -> Config:
        """Of the stream, or of the basin's default of one; the configuration after the change."""
        ...

    async def config(self, basin: str, stream: str | None) -> Config: ...
