"""Deleting old backups, and then what none of those that are left names."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from svc_cluster.backup.backup_errors import BackupError, DamagedError
from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.backup.objects import ObjectInfo
from svc_cluster.backup.publish import PRUNE_SECONDS_MAX, written_at_ms
from svc_cluster.backup.vault import (
    CHUNKS,
    CLAIMS,
    CLOCKS,
    PARTS,
    PROGRESS,
    PRUNING,
    Vault,
    manifest_name,
    noted_chunk,
)
from svc_cluster.base.clock import Clock

CLAIM_SECONDS_MAX: Final = 3600
"""An older claim, or an older file of a put that has not ended, is that of a process which is
gone."""

_WORK_SECONDS_MAX: Final = PRUNE_SECONDS_MAX / 2


@dataclass(frozen=True, slots=True)
class BackupRetention:
    """A backup goes once it is neither among the newest `keep` nor younger than `older_than_ms`.
    None: that rule keeps none, and with neither rule none goes. The last one always stays."""

    keep: int | None
    older_than_ms: int | None
    damaged: tuple[int, ...] = ()
    """Backups whose manifests are damaged, and which go whatever the rules say."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted. `is_whole`: nothing was left for want of time."""

    backups: tuple[int, ...]
    objects: int
    freed_bytes: int
    is_whole: bool
    damaged: tuple[str, ...] = ()
    """What is wrong with backups that were deleted."""
    unclear: tuple[str, ...] = ()
    """What is wrong with backups that were not: what they need is not known, so no content was
    deleted."""


def doomed(
    backups: Sequence[tuple[int, int]],
    retention: BackupRetention,
    now_ms: int,
    damaged: Collection[int] = (),
) -> tuple[int, ...]:
    """Which of these backups are to go: numbers and when each was put there, in order. `damaged`
    ones keep no place of a whole one, and go by the same rules. Pure."""
    if retention.keep is None and retention.older_than_ms is None:
        return ()
    count = max(retention.keep or 0, 1)
    whole = [number for number, _ in backups if number not in damaged]
    if len(whole) < count:
        return ()
    least_ms = None if retention.older_than_ms is None else now_ms - retention.older_than_ms
    return tuple(
        number
        for number, put_at_ms in backups
        if number < whole[-count] and (least_ms is None or put_at_ms < least_ms)
    )


def unnamed(objects: Iterable[ObjectInfo], named: set[str], before_ms: int) -> list[ObjectInfo]:
    """Those of the objects that nothing names and that were there before that time. Pure."""
    return [each for each in objects if each.name not in named and each.modified_at_ms < before_ms]


async def prune(
    vault: Vault, clock: Clock, retention: BackupRetention, grace_seconds: float
) -> Pruned:
    """Delete backups first, then contents; what ends in between leaves contents that nobody names,
    which the next time finds. What is refused is refused before anything is deleted, and no number
    of objects is: this is what brings it down. All ages are told by the store's clock. Raises
    BackupError."""
    marks: list[str] = []
    try:
        began = clock.monotonic()
        now_ms = await _put_mark(vault, marks)
        needed = _Needed(vault, retention, now_ms, round(grace_seconds * 1000))
        # reading what all backups name may outlast a mark, and then backups are published: a new
        # mark, and another look, until one has found nothing new. What is deleted is deleted while
        # the last mark stands, so its time alone counts
        while await needed.look():
            began = clock.monotonic()
            await _put_mark(vault, marks)
        for mark in marks[:-1]:
            await vault.store.delete(mark)
        for number in needed.going:
            await vault.store.delete(manifest_name(number))
        contents = _Contents(vault, needed.names, now_ms - round(grace_seconds * 1000) + 1)
        is_whole = bool(needed.unclear) or await contents.clear(clock, began + _WORK_SECONDS_MAX)
        least_ms = now_ms - round(max(grace_seconds, CLAIM_SECONDS_MAX) * 1000)
        count, freed = await vault.store.sweep(least_ms)
        await _clear_marks(vault, now_ms)
    finally:
        for mark in marks:
            await vault.store.delete(mark)
    return Pruned(
        needed.going,
        contents.count + count,
        contents.freed + freed,
        is_whole,
        tuple(needed.damaged),
        tuple(needed.unclear),
    )


async def _put_mark(vault: Vault, marks: list[str]) -> int:
    """Returns when it was put, by the store's clock."""
    mark = f"{PRUNING}{secrets.token_hex(8)}"
    marks.append(mark)
    await vault.write(mark, b"")
    return await written_at_ms(vault, mark)


class _Contents:
    """Deletes contents that nothing names, page by page: a place may have any number of them."""

    def __init__(self, vault: Vault, named: set[str], before_ms: int) -> None:
        self._vault = vault
        self._named = named
        self._before_ms = before_ms
        self.count = 0
        self.freed = 0

    async def clear(self, clock: Clock, end: float) -> bool:
        """False: the time was over before everything was looked at."""
        for folder in (PARTS, CHUNKS, PROGRESS):
            async with aclosing(self._vault.store.pages(folder)) as pages:
                async for page in pages:
                    for each in unnamed(page, self._named, self._before_ms):
                        if clock.monotonic() > end:
                            return False
                        await self._vault.store.delete(each.name)
                        self.count, self.freed = self.count + 1, self.freed + each.size
        return True


class _Needed:
    """Which backups go, and what the others, those that are about to be, and unfinished ones cannot
    do without."""

    def __init__(
        self, vault: Vault, retention: BackupRetention, now_ms: int, grace_ms: int
    ) -> None:
        self._vault = vault
        self._retention = retention
        self._now_ms = now_ms
        self._grace_ms = grace_ms
        self._seen: set[str] = set()
        self.names: set[str] = set()
        self.going: tuple[int, ...] = ()
        self.damaged: list[str] = []
        self.unclear: list[str] = []

    async def look(self) -> bool:
        """Whether there was anything that was not seen before. Raises ObjectStoreError where the
        names are more than are held in memory."""
        is_first = not self._seen
        # claims come ahead of manifests: who publishes puts the manifest before the claim goes, so
        # what has no claim any more by the first listing is in the second one. The other way round
        # a backup that is published between the two is in neither
        claims = await self._claims()
        backups = await self._backups()
        if is_first:
            self._decide(backups)
        going = {manifest_name(number) for number in self.going}
        found = {**claims, **{info.name: what for _, info, what in backups}}
        for name in sorted(found.keys() - going):
            await self._add(found[name])
        self._seen |= found.keys()
        await self._notes()
        return bool(found)

    async def _claims(self) -> dict[str, Manifest | DamagedError]:
        found: dict[str, Manifest | DamagedError] = {}
        for info in await self._vault.store.list(CLAIMS):
            if info.modified_at_ms < self._now_ms - CLAIM_SECONDS_MAX * 1000:
                await self._vault.store.delete(info.name)
            elif info.name not in self._seen and (what := await self._vault.opened(info.name)):
                found[info.name] = what
        return found

    async def _backups(self) -> list[tuple[int, ObjectInfo, Manifest | DamagedError]]:
        found = []
        for number, info in await self._vault.manifests():
            if info.name not in self._seen and (what := await self._vault.opened(info.name)):
                found.append((number, info, what))
        return found

    def _decide(self, backups: Sequence[tuple[int, ObjectInfo, Manifest | DamagedError]]) -> None:
        damaged = {
            number: str(what) for number, _, what in backups if isinstance(what, DamagedError)
        }
        asked = set(self._retention.damaged)
        if asked - damaged.keys():
            raise BackupError(
                f"backup {min(asked - damaged.keys())} in {self._vault.store.place} has no damaged "
                "manifest: --keep and --older-than say which whole ones go"
            )
        ages = [(number, info.modified_at_ms) for number, info, _ in backups]
        going = doomed(ages, self._retention, self._now_ms, damaged)
        self.going = tuple(sorted({*going, *asked}))
        self.damaged = [text for number, text in damaged.items() if number in self.going]

    async def _add(self, what: Manifest | DamagedError) -> None:
        """What a backup needs of which the manifest or a part cannot be read is not guessed."""
        try:
            if isinstance(what, DamagedError):
                raise what
            await self._vault.add_names(what, self.names)
        except DamagedError as cause:
            self.unclear.append(str(cause))

    async def _notes(self) -> None:
        """The chunk of a note is told by the note's name: one that is damaged holds nothing up."""
        store = self._vault.store
        async for page in store.pages(PROGRESS):
            for info in page:
                if info.modified_at_ms >= self._now_ms - self._grace_ms:
                    self.names |= {info.name, noted_chunk(info.name)}
            store.bounds.check_named(len(self.names), store.place)


async def _clear_marks(vault: Vault, now_ms: int) -> None:
    """Marks of processes that were killed stand in nobody's way for ever."""
    for folder in (PRUNING, CLOCKS):
        async for page in vault.store.pages(folder):
            for each in page:
                if each.modified_at_ms < now_ms - PRUNE_SECONDS_MAX * 1000:
                    await vault.store.delete(each.name)
