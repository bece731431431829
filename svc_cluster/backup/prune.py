"""Deleting old backups, and then what none of those that are left names."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from svc_cluster.backup.backup_manifest import Manifest, Progress, decode
from svc_cluster.backup.objects import ObjectInfo
from svc_cluster.backup.publish import PRUNE_SECONDS_MAX, written_at_ms
from svc_cluster.backup.vault import (
    CHUNKS,
    CLOCKS,
    PARTS,
    PROGRESS,
    PRUNING,
    Vault,
    manifest_name,
)
from svc_cluster.base.clock import Clock

CLAIM_SECONDS_MAX: Final = 3600
"""An older claim is that of a process which is gone."""

_WORK_SECONDS_MAX: Final = PRUNE_SECONDS_MAX / 2


@dataclass(frozen=True, slots=True)
class BackupRetention:
    """A backup goes once it is neither among the newest `keep` nor younger than `older_than_ms`.
    None: that rule keeps none. The last one always stays."""

    keep: int | None
    older_than_ms: int | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted. `is_whole`: nothing was left for want of time."""

    backups: tuple[int, ...]
    objects: int
    freed_bytes: int
    is_whole: bool


def doomed(
    backups: Sequence[tuple[int, int]], retention: BackupRetention, now_ms: int
) -> tuple[int, ...]:
    """Which of these backups are to go: numbers and when each was finished, in order. Pure."""
    assert retention.keep is not None or retention.older_than_ms is not None, "one rule is needed"
    count = max(retention.keep or 0, 1)
    newest = {number for number, _ in backups[-count:]}
    least_ms = now_ms if retention.older_than_ms is None else now_ms - retention.older_than_ms
    return tuple(
        number
        for number, finished_at_ms in backups
        if number not in newest and finished_at_ms < least_ms
    )


def unnamed(objects: Iterable[ObjectInfo], named: set[str], before_ms: int) -> list[ObjectInfo]:
    """Those of the objects that nothing names and that were there before that time. Pure."""
    return [each for each in objects if each.name not in named and each.modified_at_ms < before_ms]


async def prune(
    vault: Vault, clock: Clock, retention: BackupRetention, grace_seconds: float
) -> Pruned:
    """Delete backups first, then contents; what ends in between leaves contents that nobody names,
    which the next time finds. What is refused is refused before anything is deleted, and no number
    of objects is: this is what brings it down. Raises BackupError."""
    began = clock.monotonic()
    mark = f"{PRUNING}{secrets.token_hex(8)}"
    await vault.write(mark, b"")
    try:
        now_ms = await written_at_ms(vault, mark)
        backups = [
            (number, (await vault.manifest(number)).finished_at_ms)
            for number in await vault.numbers()
        ]
        going = doomed(backups, retention, clock.wall_ms())
        named = await _named(vault, going, now_ms, grace_seconds)
        for number in going:
            await vault.store.delete(manifest_name(number))
        contents = _Contents(vault, named, now_ms - round(grace_seconds * 1000) + 1)
        is_whole = await contents.clear(clock, began + _WORK_SECONDS_MAX)
        await _clear_marks(vault, now_ms)
    finally:
        await vault.store.delete(mark)
    return Pruned(going, contents.count, contents.freed, is_whole)


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


async def _named(vault: Vault, going: Sequence[int], now_ms: int, grace_seconds: float) -> set[str]:
    """What backups other than those that go, those that are about to be, and unfinished ones
    cannot do without. Raises ObjectStoreError where that is more than is held in memory."""
    named: set[str] = set()
    manifests: list[Manifest] = [
        await vault.manifest(each) for each in await vault.numbers() if each not in going
    ]
    for info, claimed in await vault.claims():
        if info.modified_at_ms < now_ms - CLAIM_SECONDS_MAX * 1000:
            await vault.store.delete(info.name)
        else:
            manifests.append(claimed)
    for manifest in manifests:
        await vault.add_names(manifest, named)
    async for page in vault.store.pages(PROGRESS):
        for info in page:
            if info.modified_at_ms >= now_ms - grace_seconds * 1000:
                named.add(info.name)
                named.add(decode(info.name, await vault.read(info.name), Progress).chunk.name)
        vault.store.bounds.check_named(len(named), vault.store.place)
    return named


async def _clear_marks(vault: Vault, now_ms: int) -> None:
    """Marks of processes that were killed stand in nobody's way for ever."""
    for folder in (PRUNING, CLOCKS):
        async for page in vault.store.pages(folder):
            for each in page:
                if each.modified_at_ms < now_ms - PRUNE_SECONDS_MAX * 1000:
                    await vault.store.delete(each.name)
