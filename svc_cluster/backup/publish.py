"""Making a backup one: its manifest is put where backups are looked for.

That is done once all that it names is certainly there, whoever prunes meanwhile. A claim stands for
the manifest while that is decided. Whoever prunes puts a mark first and then looks for manifests
and claims: either it sees the claim, or the claim's owner sees the mark, or that what was pruned is
gone.
"""

from __future__ import annotations

import secrets
from typing import Final

from svc_cluster.backup.backup_errors import BackupError, DamagedError
from svc_cluster.backup.backup_manifest import Manifest, encode
from svc_cluster.backup.vault import (
    CHUNKS,
    CLAIMS,
    CLOCKS,
    PARTS,
    PRUNING,
    Vault,
    manifest_name,
)

PRUNE_SECONDS_MAX: Final = 600
"""A mark that is older is that of a process which is gone: whoever prunes ends before."""


async def written_at_ms(vault: Vault, name: str) -> int:
    """Return what the store's own clock said when the object of this name was written, in Unix
    milliseconds. Ages of objects are told by that clock, since it may differ from ours by more
    than any patience here. Raises BackupError where somebody has deleted the object."""
    for each in await vault.store.list(name):
        if each.name == name:
            return each.modified_at_ms
    raise BackupError(f"{name} in {vault.store.place} was deleted by somebody else: repeat")


async def live_marks(vault: Vault, now_ms: int) -> list[str]:
    """The marks of those who may be pruning now, which is told by the store's clock."""
    least = now_ms - PRUNE_SECONDS_MAX * 1000
    return [each.name for each in await vault.store.list(PRUNING) if each.modified_at_ms >= least]


class Publisher:
    """It makes one backup public."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def begin(self) -> None:
        """Raises BackupError while somebody prunes: what this backup would build on may go."""
        vault = self._vault
        if not await vault.store.list(PRUNING):
            return
        clock = f"{CLOCKS}{secrets.token_hex(8)}"
        await vault.write(clock, b"")
        try:
            marks = await live_marks(vault, await written_at_ms(vault, clock))
        finally:
            await vault.store.delete(clock)
        if marks:
            raise _pruned_meanwhile(vault)

    async def publish(self, manifest: Manifest) -> None:
        """Raises BackupError where it does not become a backup; then nothing of it is seen."""
        vault = self._vault
        data = encode(manifest)
        claim = f"{CLAIMS}{manifest.number:010d}-{secrets.token_hex(4)}"
        await vault.write(claim, data)
        try:
            if await live_marks(vault, await written_at_ms(vault, claim)):
                raise _pruned_meanwhile(vault)
            await self._check_whole(manifest)
            name = manifest_name(manifest.number)
            # a store may have taken it and lost its answer: then it is there when it is put again
            if not await vault.write(name, data) and await vault.read(name) != data:
                raise BackupError(
                    f"another backup became number {manifest.number} meanwhile: repeat; what was "
                    "kept for this one is used then"
                )
        finally:
            await vault.store.delete(claim)

    async def _check_whole(self, manifest: Manifest) -> None:
        """Raises DamagedError where something is missing that the backup cannot do without."""
        vault = self._vault
        there = {each.name for folder in (PARTS, CHUNKS) for each in await vault.store.list(folder)}
        named: set[str] = set()
        await vault.add_names(manifest, named)
        gone = sorted(named - there)
        if gone:
            raise DamagedError(
                f"{gone[0]} and {len(gone) - 1} others are missing in {vault.store.place}: "
                "repeat with --full, which takes everything anew"
            )


def _pruned_meanwhile(vault: Vault) -> BackupError:
    return BackupError(
        f"somebody prunes the backups in {vault.store.place}, or did until a short time ago: "
        f"repeat in {PRUNE_SECONDS_MAX // 60} minutes at the latest; what was kept is used then"
    )
