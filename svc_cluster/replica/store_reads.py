"""This carries out lookups in the state store on behalf of a client. It looks up from memory at
once, and what the disk must tell while the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, TypeVar

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import Generation
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.storage.state_store import (
    FETCHED_KEYS_MAX,
    ON_DISK,
    OnDisk,
    StateStore,
    StoreBusyError,
)
from svc_cluster.stream.batch_finder import Lookups

_T = TypeVar("_T")

FETCH_SECONDS_MAX: Final = 10.0
"""A fetch that the disk has not answered by then is given up, with its place."""

TURN_KEYS_MAX: Final = 1024
"""Looked up in memory before others have a turn of the event loop."""


class StoreReads:
    """These are the reads of one replica: keys are relative to its generation."""

    def __init__(self, store: StateStore, generation: Generation) -> None:
        self._store = store
        self._prefix = generation_prefix(generation)

    async def run(self, lookups: Lookups[_T]) -> _T:
        """Carry the lookups out and return what they come to. Raises what they raise;
        UnavailableError when too many reads wait for the disk, or it does not answer in time."""
        looked_up = 0
        try:
            keys = [self._prefix + key for key in next(lookups)]
            while True:
                values = self._peek(keys)
                if values is None:
                    values, looked_up = await self._fetch(keys), 0
                looked_up += len(values)
                if looked_up >= TURN_KEYS_MAX:
                    looked_up = 0
                    await asyncio.sleep(0)
                keys = [self._prefix + key for key in lookups.send(values)]
        except StopIteration as end:
            result: _T = end.value
            return result

    def at_once(self, lookups: Lookups[_T]) -> _T | Literal[OnDisk.ON_DISK]:
        """What the lookups come to, if memory knows it. Raises what they raise."""
        try:
            wanted = next(lookups)
            while True:
                values = self._peek([self._prefix + key for key in wanted])
                if values is None:
                    lookups.close()
                    return ON_DISK
                wanted = lookups.send(values)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _peek(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """Values of the first keys, or None when the disk has to be asked first."""
        values: list[bytes | None] = []
        is_found = False
        for key in keys:
            value = self._store.peek(key)
            if value is ON_DISK:
                return values if is_found else None
            values.append(value)
            is_found = is_found or value is not None
            if is_found and len(values) >= FETCHED_KEYS_MAX:
                break
        return values

    async def _fetch(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                return await self._store.fetch(keys)
        except StoreBusyError as busy:
            raise UnavailableError("too many reads wait for the disk") from busy
        except TimeoutError as late:
            raise UnavailableError("the disk has not answered in time") from late
