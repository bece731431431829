"""Which replicas of a node have damaged bytes, where everything else of the store is whole.

A process that meets such bytes notes whose they are, beside the store, and ends; the next start has
these replicas repaired by their peers, and forgets the note once their log says so. The note has a
line for each: its format and the replica's generation. A torn line says nothing, and the next one
does not stand behind it: the damage is met again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

GENERATION_BYTES: Final = 8
"""Keys begin with the replica's generation, which is so long."""
_FORMAT: Final = "1"
HARMED_MAX: Final = 100_000
"""So many lines are read of a note; a store with more is of no use as it is."""
_BYTES_MAX: Final = 32 * HARMED_MAX
_CHANGING: Final = threading.Lock()
"""Held by who changes a note: threads may meet damage at one time."""


class HarmFormatError(Exception):
    """The note was written by another release. The text says what to do."""


class DamagedBytesError(Exception):
    """What stands at the place of a value is not what was written there."""

    def __init__(self, text: str, key: bytes) -> None:
        super().__init__(f"checksum mismatch in {text}")
        self.generation = generation_of(key)
        self.relative_key = key[GENERATION_BYTES:]


class NotedHarm:
    """The note beside one store. All calls are for the event loop."""

    def __init__(self, store: Path, put: Callable[[Callable[[], None]], None]) -> None:
        """`put` has a job run in another thread, which ends the process when it fails. Blocking.
        Raises HarmFormatError."""
        self._path = _note(store)
        self._put = put
        self._generations = _read(self._path)
        self._telling = threading.Lock()
        """Held for a moment, never over a wait for the disk."""
        self._repaired: set[int] = set()
        """What the next job leaves out of the note."""

    @property
    def generations(self) -> frozenset[int]:
        """These replicas have damaged bytes."""
        return frozenset(self._generations)

    def forget(self, generation: int) -> None:
        """Somebody has it repaired, and knows that durably. The note says so a moment later."""
        if generation in self._generations:
            self._generations.discard(generation)
            with self._telling:
                is_asked_for = bool(self._repaired)
                self._repaired.add(generation)
            if not is_asked_for:
                self._put(self._renew)

    def _renew(self) -> None:
        """Leave out all that was repaired so far, with one sync. What was noted meanwhile stays."""
        with self._telling:
            repaired, self._repaired = self._repaired, set()
        with _CHANGING:
            left = _read(self._path) - repaired
            if left:
                fresh = self._path.with_name(f"{self._path.name}.new")
                fresh.unlink(missing_ok=True)
                _add(fresh, left)
                fresh.rename(self._path)
            else:
                self._path.unlink(missing_ok=True)


def note_harm(store: Path, generation: int) -> None:
    """Note that this replica has damaged bytes. Any thread may call this. Raises OSError."""
    with _CHANGING:
        _add(_note(store), [generation])


def _add(path: Path, generations: Iterable[int]) -> None:
    """Add a line for each. A torn one before them, which says nothing, goes."""
    lines = "".join(f"{_FORMAT} {one}\n" for one in sorted(generations))
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        known = os.pread(handle, _BYTES_MAX, 0)
        os.ftruncate(handle, known.rfind(b"\n") + 1)
        os.write(handle, lines.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def generation_of(key: bytes) -> int:
    """The replica whose key this is has this generation."""
    return int.from_bytes(key[:GENERATION_BYTES], "big")


def _read(path: Path) -> set[int]:
    if not path.exists():
        return set()
    *lines, _ = path.read_bytes().split(b"\n", HARMED_MAX)
    found = set()
    for line in lines:
        if not line.isascii() or not line.decode().isprintable():
            continue  # no release writes that: a power cut left a part of it as zeros
        version, _, generation = line.decode().partition(" ")
        if version != _FORMAT or not generation.isdigit():
            raise HarmFormatError(
                f"{path} has a line that this release does not understand: start the release that "
                "wrote it"
            )
        found.add(int(generation))
    return found


def _note(store: Path) -> Path:
    return store.with_name(f"{store.name}.harmed")
