"""The state store on RocksDB. The only importer of the binding.

What it must not do: use a second column family (after a crash the applied index would survive
without its data), leave raw mode (the binding would unpickle values), or let a write wait for a
stall (the binding holds the interpreter lock, so the whole node would wait).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from svc_cluster.base.log import get_logger
from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage import dead_records
from svc_cluster.storage.aside import Aside
from svc_cluster.storage.damage import is_damage, lacks_its_root
from svc_cluster.storage.dead_ranges import DeadRange, TableFile
from svc_cluster.storage.disk_trouble import remedy
from svc_cluster.storage.guard import Guard, OnFailure, end_process
from svc_cluster.storage.harm import NotedHarm
from svc_cluster.storage.manifest import cut_torn_end
from svc_cluster.storage.read_pool import ReadPool
from svc_cluster.storage.reclaim import Reclaimer
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.state_store import (
    FETCHED_KEYS_MAX,
    ON_DISK,
    Finish,
    Peeked,
    StoreStalledError,
    unchanged,
)
from svc_cluster.storage.worker import Worker

log = get_logger("storage.rocks_store")
_STALL_TEXT: Final = "Write stall"
_CUT_SHORT_TEXT: Final = "Shutdown in progress"
_UNFLUSHED: Final = "rocksdb.cur-size-all-mem-tables"


class StoreOpenError(Exception):
    """The store's files cannot be opened. The text says what to do."""


class StoreDamagedError(StoreOpenError):
    """The store's files are damaged: set it aside (storage/damage.py) and begin anew."""


class RocksStore:
    """Implements StateStore.

    A write, read or flush that fails for any reason but a stall ends the process; when it was
    damage, the next start knows. `on_failure` says what is done instead.
    """

    def __init__(
        self,
        directory: Path,
        loop: asyncio.AbstractEventLoop,
        settings: RocksSettings | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        """Open or create the store. Blocking. Raises StoreOpenError, StoreDamagedError."""
        settings = settings or RocksSettings()
        self._loop = loop
        directory.mkdir(parents=True, exist_ok=True)
        if lacks_its_root(directory):
            raise StoreDamagedError(f"the state store in {directory} has lost its file CURRENT")
        try:
            self._db = _open(directory, _options(settings))
        except Exception as cause:  # the binding has no class of its own for this
            if is_damage(cause):
                text = f"the state store in {directory} is damaged ({cause})"
                raise StoreDamagedError(text) from cause
            what_to_do = remedy(cause, directory) or (
                "stop the process that uses it; leave its files as they are, they may be the only "
                "copies of what they hold"
            )
            raise StoreOpenError(
                f"the state store in {directory} cannot be opened ({cause}): {what_to_do}"
            ) from cause
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]
        self._write_options.no_slowdown = True
        self._db.set_write_options(self._write_options)
        self._flusher = Worker("store-flush", directory)
        self.reads = ReadPool(loop, settings.reads)
        self._aside = Aside(directory, loop.time)
        self._aside.start()
        self._guard = Guard(directory, on_failure or end_process)
        self.harm = NotedHarm(directory, self._flusher.put)
        self.fail = self._guard.fail
        # automatic compactions, which bound the files of level 0, go on beside ours
        self._compact_options = CompactOptions()
        self._compact_options.set_exclusive_manual_compaction(False)
        ends = dead_records.FIRST_KEY, dead_records.END_KEY
        known = list(dead_records.decode(_scan(self._guard, self._db, *ends, reverse=False)))
        self._reclaimer = Reclaimer(self, self._to_loop, loop.time, known=known)
        self._is_open = True

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._guard.run(lambda: self._db.get(key))
        return value

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        end = min(end, dead_records.FIRST_KEY)
        return _scan(self._guard, self._db, start, end, reverse=reverse)

    def peek(self, key: bytes) -> Peeked:
        try:
            may_exist, value = self._db.key_may_exist(key, fetch=True)  # type: ignore[misc]
        except Exception as failure:
            self._guard.fail(failure)
        if value is not None:
            found: bytes = value
            return found
        return ON_DISK if may_exist else None

    def fetch(
        self, keys: Sequence[bytes], finish: Finish = unchanged
    ) -> asyncio.Future[list[bytes | None]]:
        return self.reads.submit(lambda: self._guard.run(lambda: finish(self._look_up(keys))))

    def _look_up(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up lists of keys, even of one. Only for those does the binding let go of the
        interpreter while it waits for the disk (a test holds it to that)."""
        values: list[bytes | None] = []
        while len(values) < len(keys):
            first = len(values)
            some: list[Any] = self._db.get(list(keys[first : first + FETCHED_KEYS_MAX])) or []
            values += some
            if any(value is not None for value in some):
                break
        return values

    def write(self, write_set: WriteSet) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value, end in write_set.ops:
            if value is not None:
                batch.put(key, value)
            elif end is not None:
                if key < end:
                    batch.delete_range(key, end)
            else:
                batch.delete(key)
        for start, end, size in write_set.freed:
            if start < end:
                batch.put(*dead_records.encode(DeadRange(start, end, size)))
        self._write(batch)
        self._reclaimer.note(write_set.freed)

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch, self._write_options)
        except Exception as failure:
            if _STALL_TEXT in str(failure):
                raise StoreStalledError("the state store is stalled") from failure
            self._guard.fail(failure)

    def snapshot(self, *, fills_cache: bool = True) -> RocksSnapshot:
        options = ReadOptions()
        options.fill_cache(fills_cache)  # type: ignore[call-arg]
        return RocksSnapshot(self._guard, self._guard.run(lambda: self._db.iter(options)))

    def flush(self, done: Callable[[], None]) -> None:
        flushed = self._reclaimer.flush_begins()

        def finished() -> None:
            flushed()
            done()

        def job() -> None:
            self._guard.run(lambda: self._db.flush(True))
            self._to_loop(lambda: self._guard.run(finished))

        self._flusher.put(job)

    def reclaim(self) -> None:
        self._reclaimer.run()

    @property
    def unflushed_bytes(self) -> int:
        found: int | None = self._guard.run(lambda: self._db.property_int_value(_UNFLUSHED))
        return found or 0

    # -- for the reclaimer

    def table_files(self) -> list[TableFile]:
        rows = self._guard.run(self._db.live_files)
        return [TableFile(r["level"], r["start_key"], r["end_key"], r["size"]) for r in rows]

    def compact(self, start: bytes, end: bytes) -> None:
        self._guard.run(lambda: self._db.compact_range(start, end, self._compact_options))

    def reclaimed(self, start: bytes, end: bytes) -> None:
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(*dead_records.keys_of(start, end))
        with contextlib.suppress(StoreStalledError):  # then a next start compacts them for nothing
            self._write(batch)

    def close(self) -> None:
        """Finish the flushes asked for, flush the rest, close. Blocking. Close snapshots before."""
        if self._is_open:
            self._is_open = False
            self.reads.close()
            self._flusher.stop()
            try:
                self._guard.run(lambda: self._db.flush(True))
            finally:
                self._reclaimer.stop(self._cut_short)
                self._aside.stop()
            try:
                self._db.close()
            except Exception as failure:
                if _CUT_SHORT_TEXT not in str(failure):
                    self._guard.fail(failure)

    def _cut_short(self) -> None:
        """End a compaction, which may have minutes to go. The store takes nothing more then, not
        even the flush with which it is closed; there is nothing left to flush."""
        self._guard.run(lambda: self._db.cancel_all_background(False))

    def _to_loop(self, done: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(done)
        except RuntimeError:
            if not self._loop.is_closed():
                raise  # a closed loop has nobody left to tell


def _open(directory: Path, options: Options) -> Rdict:
    try:
        return Rdict(str(directory), options)
    except Exception as cause:
        if not is_damage(cause) or "MANIFEST" not in str(cause):
            raise
        cut = cut_torn_end(directory)
        if not cut:
            raise
        log.warning("torn_manifest_cut", store=str(directory), bytes=cut)
    return Rdict(str(directory), options)


_Run = Callable[[Callable[[], Any]], Any]


class RocksSnapshot:
    """A view of one moment: an iterator made then, which RocksDB keeps at that moment.

    The binding's own snapshot objects are of no use: their iterators show the present (checked by
    the contract tests, as is what stands below about bounds).
    """

    def __init__(self, guard: Guard, walk: Any) -> None:
        self._run = guard.run
        self._walk = walk
        self._mover: object = None
        """Who moved the iterator last; scans share it."""

    def get(self, key: bytes) -> bytes | None:
        walk = self._open()
        self._mover = None
        self._run(lambda: walk.seek(key))
        if walk.valid() and walk.key() == key:
            value: bytes = walk.value()
            return value
        self._run(walk.status)
        return None

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        end = min(end, dead_records.FIRST_KEY)
        me = object()
        last: bytes | None = None
        while start < end:
            walk = self._open()
            if self._mover is not me:
                self._mover = me
                place = last if last is not None else end if reverse else start
                self._run(lambda: (walk.seek_for_prev if reverse else walk.seek)(place))  # noqa: B023
                if walk.valid() and (walk.key() == last or (reverse and walk.key() == end)):
                    self._run(walk.prev if reverse else walk.next)
            else:
                self._run(walk.prev if reverse else walk.next)
            pair = _current(self._run, walk, start, end)
            if pair is None:
                return
            last = pair[0]
            yield pair

    def close(self) -> None:
        self._walk = None

    def _open(self) -> Any:
        assert self._walk is not None, "a closed snapshot is not read"
        return self._walk


def _scan(
    guard: Guard, source: Any, start: bytes, end: bytes, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Pairs in `[start, end)`.

    The upper bound keeps the engine from walking into deleted ranges. The binding's lower bound
    is not used: it sets the upper one.
    """
    if start >= end:
        return
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(end)
    walk = guard.run(lambda: source.iter(bounds))
    guard.run(lambda: walk.seek_to_last() if reverse else walk.seek(start))
    step = walk.prev if reverse else walk.next
    while (pair := _current(guard.run, walk, start, end)) is not None:
        yield pair
        guard.run(step)


def _current(run: _Run, walk: Any, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
    """The pair under an iterator, None once that has left `[start, end)`."""
    if not walk.valid():
        run(walk.status)
        return None
    key: bytes = walk.key()
    return (key, walk.value()) if start <= key < end else None


def _options(settings: RocksSettings) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(settings.write_buffers)
    options.set_max_background_jobs(settings.background_jobs)
    options.set_max_open_files(settings.open_files_max)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_level_zero_stop_writes_trigger(settings.level_zero_stop_files)
    options.set_disable_auto_compactions(not settings.compacts)
    options.set_compression_type(DBCompressionType.none())
    options.set_bottommost_compression_type(DBCompressionType.lz4())
    options.set_bytes_per_sync(1024 * 1024)
    # what the store takes beside its data stays small and does not grow
    options.set_keep_log_file_num(3)
    options.set_max_log_file_size(1024 * 1024)
    options.set_max_manifest_file_size(4 * 1024 * 1024)
    options.set_manifest_preallocation_size(64 * 1024)
    options.set_paranoid_checks(True)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(settings.block_cache_bytes))
    table.set_block_size(16 * 1024)
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
