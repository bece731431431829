"""The state store as its users see it: values whole, wherever their bytes stand.

What is written with the place of its entry keeps only a pointer below; everything else goes through
as it is. A read checks what it finds at a place. When that is something else, the row is looked at
once more: it may have gone meanwhile, and its file may be used again. A row that stands is damage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn, Protocol

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.log import get_logger
from svc_cluster.base.write_set import Origin, WriteSet
from svc_cluster.storage.harm import DamagedBytesError, generation_of
from svc_cluster.storage.payload import references
from svc_cluster.storage.payload.open_views import Views
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import PayloadPlace
from svc_cluster.storage.payload.payload_holes import PayloadHoles
from svc_cluster.storage.payload.payload_release import PayloadRelease, PlacesOfLog
from svc_cluster.storage.payload.pointer import Pointer, decode_pointer, encode_pointer
from svc_cluster.storage.payload.references import References
from svc_cluster.storage.state_store import (
    ON_DISK,
    Finish,
    Harm,
    Peeked,
    StateStore,
    StoreReader,
    StoreSnapshot,
    unchanged,
)

_PROBE_BYTES: Final = 64
_PROBES_MAX: Final = 64
"""Places in an entry that are looked at for the bytes of one value."""


class Rows(Protocol):
    """Where a row is looked at once more."""

    def get(self, key: bytes) -> bytes | None: ...


class PayloadStore:
    """Implements StateStore above another one."""

    def __init__(
        self,
        inner: StateStore,
        files: PayloadFiles,
        log: PlacesOfLog,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Blocking. The files are started, with what the log and the store name."""
        self._inner = inner
        self._files = files
        self._views = Views()
        self._references = References(inner.scan(references.FIRST_KEY, references.END_KEY))
        named = self._references.numbers()
        self.lost = files.start([*named, *log.placed_numbers()])
        """Files that something needs and that are gone."""
        self.harm = _Harm(inner.harm, self._references, self.lost)
        if self.lost:
            harmed = sorted(self.harm.generations)
            get_logger("storage.payload").error(
                "payload_files_lost", files=self.lost, generations=harmed
            )
        self._release = PayloadRelease(inner, files, log, self._references, self._views, loop.time)
        self.holes = PayloadHoles(
            inner, files, log, self._release, self._references, self._views, loop
        )

    # -- reading

    def get(self, key: bytes) -> bytes | None:
        return self.value_of(self._inner, key, self._inner.get(key))

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.values_of(self._inner, start, end, reverse=reverse)

    def peek(self, key: bytes) -> Peeked:
        row = self._inner.peek(key)
        if row is None or row is ON_DISK:
            return row
        pointer = decode_pointer(key, row)
        if pointer is None:
            return row
        data = self._files.read_cached(pointer.place)
        return ON_DISK if data is None else pointer.head + data

    def fetch(
        self, keys: Sequence[bytes], finish: Finish = unchanged
    ) -> asyncio.Future[list[bytes | None]]:
        def resolved(rows: list[bytes | None]) -> list[bytes | None]:
            return finish(
                [self.value_of(self._inner, key, row) for key, row in zip(keys, rows, strict=False)]
            )

        view = self._views.begin()
        try:
            future = self._inner.fetch(keys, resolved)
        except BaseException:
            self._views.end(view)
            raise
        future.add_done_callback(lambda _: self._views.end(view))
        return future

    def snapshot(self, *, fills_cache: bool = True) -> StoreSnapshot:
        return _Snapshot(self._inner.snapshot(fills_cache=fills_cache), self, self._views)

    def values_of(
        self, source: StoreReader, start: bytes, end: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """The pairs that the rows of `source` stand for."""
        for key, row in source.scan(start, min(end, references.FIRST_KEY), reverse=reverse):
            value = self.value_of(source, key, row)
            if value is not None:
                yield key, value

    def value_of(self, source: Rows, key: bytes, row: bytes | None) -> bytes | None:
        """The value that the row stands for. In any thread."""
        while row is not None and (pointer := decode_pointer(key, row)) is not None:
            try:
                data = self._files.read(pointer.place)
            except OSError as failure:
                self._inner.fail(failure)
            if data is not None:
                return pointer.head + data
            again = source.get(key)
            if again == row:
                place = pointer.place
                where = f"payload file {place.number}, {place.length} bytes at {place.offset}"
                self._inner.fail(DamagedBytesError(where, key))
            row = again
        return row

    @property
    def fail(self) -> Callable[[BaseException], NoReturn]:
        return self._inner.fail

    # -- writing

    def write(self, write_set: WriteSet) -> None:
        if write_set.origin is None or not write_set.heads:
            self._inner.write(write_set)
        else:
            self._inner.write(self._with_pointers(write_set, write_set.origin))
        self.holes.note(write_set.freed)

    def _with_pointers(self, write_set: WriteSet, at: Origin) -> WriteSet:
        """The rows to be written: what is long stays where the entry is."""
        out = WriteSet()
        out.freed = write_set.freed
        # before the write, which may be refused and then comes again: to name a file too early
        # keeps it a little longer
        told: dict[bytes, bytes] = {}
        behind = 0
        for key, value, end in write_set.ops:
            head = write_set.heads.get(key)
            tail = b"" if value is None or head is None else value[head:]
            if value is not None and len(tail) >= self._files.settings.bulk_bytes_min:
                found = _find(at.payload, tail, behind)
                if found is not None:
                    behind = found + len(tail)
                    place = PayloadPlace(at.number, at.offset + found, len(tail), crc32c(tail))
                    value = encode_pointer(key, Pointer(place, value[:head]))
                    reference, keys = self._references.with_key(at.number, key)
                    told[reference] = keys
            out.ops.append((key, value, end))
        for reference, keys in told.items():
            out.put(reference, keys)
        return out

    def flush(self, done: Callable[[], None]) -> None:
        settled = self._release.flush_begins()
        dug = self.holes.flush_begins()

        def finished() -> None:
            done()
            settled()
            dug()

        self._inner.flush(finished)

    @property
    def unflushed_bytes(self) -> int:
        return self._inner.unflushed_bytes

    def reclaim(self) -> None:
        self._files.shrink()
        self._inner.reclaim()

    def close(self) -> None:
        """Close the store below, and then the files that it points into."""
        self._release.stop()
        self.holes.stop()
        self._inner.close()
        self._files.close()


class _Harm:
    """What the store below knows of, and those who have values in files that are gone."""

    def __init__(self, inner: Harm, known: References, lost: Iterable[int]) -> None:
        self._inner = inner
        self._bereft = frozenset(
            generation_of(owner) for number in lost for owner in known.owners(number)
        )

    @property
    def generations(self) -> frozenset[int]:
        return self._inner.generations | self._bereft

    def forget(self, generation: int) -> None:
        self._inner.forget(generation)


class _Snapshot:
    """A view of one moment. The files that it points into stay until it is closed."""

    def __init__(self, inner: StoreSnapshot, store: PayloadStore, views: Views) -> None:
        self._inner = inner
        self._store = store
        self._views = views
        self._view = views.begin()

    def get(self, key: bytes) -> bytes | None:
        return self._store.value_of(self._inner, key, self._inner.get(key))

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._store.values_of(self._inner, start, end, reverse=reverse)

    def close(self) -> None:
        self._inner.close()
        self._views.end(self._view)


def _find(payload: bytes, tail: bytes, behind: int) -> int | None:
    """Where in the entry these bytes stand, from `behind` on: appends come in their order."""
    probe = tail[:_PROBE_BYTES]
    at = payload.find(probe, behind)
    for _ in range(_PROBES_MAX):
        if at < 0:
            return None
        if payload.startswith(tail, at):
            return at
        at = payload.find(probe, at + 1)
    return None
