"""From what is typed to where backups are, and with which key."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.key_file import make_key, read_key
from svc_cluster.backup.object_sealing import Plain, Sealed, Wrapping
from svc_cluster.backup.objects import NAMES_MAX, OBJECT_BYTES_MAX, ObjectStore, StoreBounds
from svc_cluster.backup.vault import Vault, check_key, found_vault, vault_file

REVEALS: Final = (
    "these backups are not sealed: whoever can read them reads all records that clients did not "
    "encrypt themselves, the names of basins and streams, their configurations and fencing tokens, "
    "and hashes of the access tokens with what these may do"
)

OBJECT_MIB_MAX: Final = "SVC_CLUSTER_BACKUP_OBJECT_MIB_MAX"
"""The variable that says how large objects of backups may be, in MiB."""
_MIB: Final = 1024**2
_OBJECT_MIB: Final = (128, 4096)
"""A chunk ends behind a row, and a row has 64 MiB at most."""
OBJECTS_MAX: Final = "SVC_CLUSTER_BACKUP_OBJECTS_MAX"
"""The variable that says how many objects a place of backups may have."""
_OBJECTS: Final = (1000, 20_000_000)
_DURATION: Final = re.compile(r"(\d+)([mhd])")
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB)")
_BYTES: Final = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def store_at(place: str) -> ObjectStore:
    """The store in a directory or a bucket. Raises BackupError."""
    bounds = StoreBounds(
        object_bytes_max=_number(OBJECT_MIB_MAX, _OBJECT_MIB, OBJECT_BYTES_MAX // _MIB) * _MIB,
        names_max=_number(OBJECTS_MAX, _OBJECTS, NAMES_MAX),
    )
    if place.startswith("s3://"):
        # what speaks to buckets takes 0.1 s to be imported
        from svc_cluster.backup.bucket_store import BucketStore

        return BucketStore(place, bounds=bounds)
    if "://" in place:
        raise BackupError(f"{place}: use a directory or s3://BUCKET/FOLDER")
    return DirectoryStore(Path(place), bounds)


def _number(variable: str, bounds: tuple[int, int], default: int) -> int:
    text = os.environ.get(variable, "")
    if not text:
        return default
    low, high = bounds
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise BackupError(f"{variable} is {text!r}: give a whole number from {low} to {high}")
    return int(text)


async def open_vault(place: str, key_file: Path, *, plain: bool = False) -> Vault:
    """The backups that there are. That they are not sealed is what they say themselves, which who
    writes there could make them say: with a key at hand it is not believed, but where it is asked
    for (`plain`). Raises BackupError."""
    store = store_at(place)
    file = await vault_file(store)
    if file is None:
        raise BackupError(f"there are no backups in {place}: see --at, or make one with create")
    if not file.key_id:
        if _is_there(key_file) and not plain:
            raise BackupError(
                f"the backups in {place} say that they are not sealed, but there is a key in "
                f"{key_file}: they may have been exchanged; if they are meant to be so, name a "
                "--key-file that does not exist, and for create --plain"
            )
        return Vault(store, file, Plain())
    key = read_key(key_file)
    check_key(file, key.key_id, place)
    return Vault(store, file, key)


async def vault_to_write(
    place: str, key_file: Path, cluster_id: str, *, plain: bool
) -> tuple[Vault, list[str]]:
    """The same for a new backup, which may be the first; and what is to be said of the key. Raises
    BackupError."""
    store = store_at(place)
    file = await vault_file(store)
    if file is not None:
        if plain and file.key_id:
            raise BackupError(f"the backups in {place} are sealed: leave --plain out")
        if not plain and not file.key_id:
            raise BackupError(f"the backups in {place} are not sealed: repeat with --plain if so")
        vault = await open_vault(place, key_file, plain=plain)
        return vault, [] if file.key_id else [REVEALS]
    wrapping: Wrapping = Plain()
    told = [REVEALS]
    key_id = ""
    if not plain:
        sealed, told = _first_key(key_file)
        wrapping, key_id = sealed, sealed.key_id
    file = await found_vault(store, cluster_id, key_id)
    check_key(file, key_id, place)
    return Vault(store, file, wrapping), told


def _is_there(key_file: Path) -> bool:
    return key_file.exists()


def _first_key(key_file: Path) -> tuple[Sealed, list[str]]:
    if key_file.exists():
        return read_key(key_file), [f"sealed with the key in {key_file}"]
    return make_key(key_file), [
        f"{key_file} was made: it is the key of these backups, and nobody can restore them without "
        "it; keep copies of it apart from the backups and from the cluster, and not in this place "
        "alone"
    ]


def seconds(text: str) -> int:
    """A length of time such as 30m, 12h or 7d, in seconds. Raises BackupError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise BackupError(f"{text!r} is no length of time: use 30m, 12h or 7d")
    return int(found[1]) * _SECONDS[found[2]]


def bytes_per_second(text: str) -> float:
    """A rate such as 16MiB, in bytes a second. Raises BackupError."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise BackupError(f"{text!r} is no rate: use 512KiB or 16MiB, of a second")
    return float(found[1]) * _BYTES[found[2]]


def named(wishes: list[str]) -> dict[str, str]:
    """Basins, each NAME or NAME=NEWNAME. Raises BackupError."""
    out: dict[str, str] = {}
    for wish in wishes:
        name, _, new_name = wish.partition("=")
        if name in out:
            raise BackupError(f"basin {name} is named twice")
        out[name] = new_name or name
    return out


def until(wishes: list[str]) -> tuple[int | None, dict[tuple[str, str], int]]:
    """Moments, each a time (RFC 3339) or BASIN/STREAM=POSITION, as Unix milliseconds for all and
    positions for some. Raises BackupError."""
    at_ms: int | None = None
    positions: dict[tuple[str, str], int] = {}
    for wish in wishes:
        place, is_position, position = wish.rpartition("=")
        if is_position:
            basin, _, stream = place.partition("/")
            if not stream or not position.isascii() or not position.isdigit():
                raise BackupError(f"{wish!r}: use BASIN/STREAM=POSITION, or a time")
            if (basin, stream) in positions:
                raise BackupError(f"--until names {basin}/{stream} twice: use one position")
            positions[(basin, stream)] = int(position)
            continue
        try:
            moment = datetime.fromisoformat(wish)
        except ValueError as cause:
            raise BackupError(
                f"{wish!r} is no time: use 2030-01-31T12:00:00Z, or BASIN/STREAM=POSITION"
            ) from cause
        if moment.tzinfo is None:
            raise BackupError(f"{wish!r} names no zone: add Z for UTC")
        if at_ms is not None:
            raise BackupError("--until names two times: use one")
        at_ms = round(moment.astimezone(UTC).timestamp() * 1000)
    return at_ms, positions
