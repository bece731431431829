"""A node's directory of files in the simulator: slow, crashing, lying and full on demand.

What a caller may count on is what `storage.disk.Disk` says: a submission is durable once its
`done` ran, `create` and `unlink` are durable when they return. Everything else may be lost, torn at
sectors or arrive in any order within one window of the disk thread.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from svc_cluster.storage.disk import DiskFile
from tests.simulation.loop import SimLoop, current_incarnation

SECTOR: Final = 512
BLOCK_BYTES: Final = 4096
"""Holes have whole ones."""
TEAR_SHARE: Final = 0.85
"""Share of crashes in which the pending writes are torn rather than kept or lost whole."""
LIE_S: Final = 0.0005


class SimFile:
    """An open file. `durable` is what the platter holds; `pending` are the writes of the window
    under way, which a read returns already. It takes `data` over, it does not copy it."""

    __slots__ = ("closed", "durable", "holes", "name", "pending", "released")

    def __init__(self, name: str, data: bytearray) -> None:
        self.name = name
        self.durable = data
        self.holes: set[int] = set()
        """Blocks that take no room."""
        self.pending: list[tuple[int, bytes]] = []
        self.closed = False
        self.released = False

    def size(self) -> int:
        return len(self.durable)

    def held_bytes(self) -> int:
        return len(self.durable) - BLOCK_BYTES * len(self.holes)

    def pread(self, size: int, offset: int) -> bytes:
        assert size >= 0 and offset >= 0
        self.released = False
        if not self.pending:
            return bytes(self.durable[offset : offset + size])
        seen = bytearray(self.durable)
        for at, data in self.pending:
            seen[at : at + len(data)] = data
        return bytes(seen[offset : offset + size])

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        return None if self.released else self.pread(size, offset)

    def release(self) -> None:
        self.released = True

    def close(self) -> None:
        self.closed = True


@dataclass(slots=True)
class DiskProfile:
    """How slow a disk is, in seconds."""

    latency_min_s: float = 0.001
    latency_max_s: float = 0.020
    stall_share: float = 0.002
    """Share of syncs that take up to `stall_max_s`."""
    stall_max_s: float = 0.8
    bytes_per_s: float = 200e6
    window_share: float = 0.5
    """Share of windows in which the disk thread takes all that is waiting, not only the first."""


@dataclass(slots=True)
class _Submission:
    writes: list[tuple[SimFile, int, bytes]]
    done: Callable[[], None]
    creates: tuple[str, int] | None = None
    head: bytes = b""
    """How the file that is made, or the one that is renewed, begins."""
    renews: tuple[SimFile, str] | None = None


@dataclass(slots=True)
class DiskStats:
    syncs: int = 0
    bytes_written: int = 0
    files_created: int = 0
    torn_writes: int = 0


@dataclass(slots=True)
class _Switches:
    full: bool = False
    fail_next_sync: bool = False
    extra_latency_s: float = 0.0
    lies: bool = False
    """A planted bug: `done` runs before anything is durable."""


@dataclass(slots=True)
class SimDisk:
    """Implements `storage.disk.Disk` for one incarnation of one node.

    `on_fatal` stands for the exit of the process with `EXIT_STORAGE`. After `crash` the object is
    dead: nothing that it was asked to call is called any more.
    """

    loop: SimLoop
    rng: random.Random
    profile: DiskProfile = field(default_factory=DiskProfile)
    on_fatal: Callable[[str], None] | None = None
    on_effect: Callable[[str], None] | None = None
    """Told of each step that lasts or asks for it, right behind it."""
    capacity_bytes: int = 1 << 40
    files: dict[str, SimFile] = field(default_factory=dict)
    stats: DiskStats = field(default_factory=DiskStats)
    switches: _Switches = field(default_factory=_Switches)
    _queue: deque[_Submission] = field(default_factory=deque)
    _window: list[_Submission] = field(default_factory=list)
    _timer: asyncio.TimerHandle | None = None
    _dead: bool = False

    # The port

    def list_names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> SimFile:
        if name not in self.files:
            raise FileNotFoundError(name)
        file = self.files[name]
        file.closed = False
        return file

    def create(self, name: str, size: int) -> SimFile:
        assert name not in self.files, f"{name} exists"
        if size > self.free_bytes():
            self._fatal("no space left on device")
            raise OSError(28, "no space left on device")
        file = SimFile(name, bytearray(size))
        self.files[name] = file
        self.stats.files_created += 1
        self._effect("file created")
        return file

    def submit_create(self, name: str, size: int, done: Callable[[SimFile], None]) -> None:
        assert name not in self.files, f"{name} exists"
        self._enqueue(_Submission([], lambda: done(self.create(name, size)), creates=(name, size)))
        self._effect("file creation begin")

    def submit_reserve(
        self, name: str, size: int, head: bytes, done: Callable[[DiskFile | None], None]
    ) -> None:
        assert name not in self.files, f"{name} exists"

        def made() -> None:
            if size > self.free_bytes():
                done(None)
                return
            file = self.create(name, size)
            _put(file, 0, head)
            done(file)

        self._enqueue(_Submission([], made, creates=(name, size), head=head))
        self._effect("file reservation begin")

    def submit_renew(
        self, file: DiskFile, name: str, head: bytes, done: Callable[[bool], None]
    ) -> None:
        assert name not in self.files, f"{name} exists"
        known, _, _ = self._checked(file, 0, head)

        def renewed() -> None:
            if known.size() - known.held_bytes() > self.free_bytes():
                done(False)
                return
            known.holes.clear()
            self.files[name] = self.files.pop(known.name)
            known.name = name
            _put(known, 0, head)
            self._effect("file renewed")
            done(True)

        self._enqueue(_Submission([], renewed, head=head, renews=(known, name)))
        self._effect("file renewal begin")

    def submit_holes(
        self, file: DiskFile, holes: Sequence[tuple[int, int]], done: Callable[[bool], None]
    ) -> None:
        """As writes of zeros: each sector of a hole under way is there or not."""
        writes = [self._checked(file, offset, bytes(size)) for offset, size in holes]

        def dug() -> None:
            for known, offset, data in writes:
                assert not offset % BLOCK_BYTES and not len(data) % BLOCK_BYTES, "whole blocks"
                end = offset + len(data)
                known.holes |= set(range(offset // BLOCK_BYTES, end // BLOCK_BYTES))
            self._effect("holes made")
            done(True)

        self._enqueue(_Submission(writes, dug))
        self._effect("holes begin")

    def makes_holes(self) -> bool:
        return True

    def submit(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        if self.switches.lies:
            self.loop.call_later(LIE_S, self._call_back, done)
            done = _nothing
        self._enqueue(_Submission([self._checked(*write) for write in writes], done))
        self._effect("log submit")

    def submit_aside(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        self.submit(writes, done)

    def write_sync(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        """Blocking, so no virtual time passes. What was submitted before is carried out first."""
        while self._window and not self._dead:
            self._window_done()
        if self._dead:
            return
        for write in writes:
            _put(*self._checked(*write))
        self._effect("log write")

    def unlink(self, name: str) -> None:
        del self.files[name]
        self._effect("file removed")

    def submit_unlink(self, name: str) -> None:
        self._enqueue(_Submission([], lambda: self.unlink(name)))
        self._effect("file removal begin")

    def free_bytes(self) -> int:
        if self.switches.full:
            return 0
        return self.capacity_bytes - sum(file.held_bytes() for file in self.files.values())

    def close(self) -> None:
        return

    # Faults

    def crash(
        self, rng: random.Random, *, loop: SimLoop | None = None, keeps: bool | None = None
    ) -> SimDisk:
        """The disk that the next incarnation finds: everything durable, and of the window that was
        under way whatever `rng` lets through (`keeps`: all of it, or nothing). This object calls
        nobody back from now on."""
        self._dead = True
        survivor = SimDisk(
            loop or self.loop,
            self.rng,
            self.profile,
            capacity_bytes=self.capacity_bytes,
            stats=self.stats,
        )
        survivor.switches.full = self.switches.full
        survivor.switches.lies = self.switches.lies
        for name, file in self.files.items():
            survivor.files[name] = SimFile(name, file.durable)
            survivor.files[name].holes = file.holes
        torn = rng.random() < TEAR_SHARE
        share = rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        window = self._window if torn else self._window[: rng.randint(0, len(self._window))]
        if keeps is not None:
            torn, window = False, self._window if keeps else []
        for submission in window:
            if submission.creates is not None:
                self._tear_create(survivor, *submission.creates, submission.head, rng)
            if submission.renews is not None:
                self._tear_renewal(survivor, *submission.renews, submission.head, rng)
            for file, offset, data in submission.writes:
                target = survivor.files.get(file.name)
                if target is None:
                    continue
                if torn:
                    self._tear_write(target, offset, data, share, rng)
                else:
                    _put(target, offset, data)
        self._window, self._queue = [], deque()
        return survivor

    def flip(self, name: str, offset: int, bit: int = 0) -> None:
        """One bit at rest is inverted."""
        self.files[name].durable[offset] ^= 1 << bit

    def misdirect(self, name: str, offset: int, size: int, to_offset: int) -> None:
        """What was written at `offset` is found at `to_offset` as well, over what was there."""
        data = self.files[name].durable
        data[to_offset : to_offset + size] = data[offset : offset + size]

    # Inside

    def _checked(self, file: DiskFile, offset: int, data: bytes) -> tuple[SimFile, int, bytes]:
        known = self.files.get(file.name)
        assert known is file, f"{file.name} is not (any more) in the directory"
        assert offset >= 0 and offset + len(data) <= file.size(), "a write beyond the file's end"
        known.released = False
        return known, offset, data

    def _enqueue(self, submission: _Submission) -> None:
        if self._dead:
            return
        self._queue.append(submission)
        if not self._window:
            self._start_window()

    def _start_window(self) -> None:
        queue = self._queue
        rng = self.rng
        take = len(queue) if rng.random() < self.profile.window_share else 1
        self._window = [queue.popleft() for _ in range(take)]
        size = 0
        for submission in self._window:
            for file, offset, data in submission.writes:
                if self.files.get(file.name) is file:
                    file.pending.append((offset, data))
                size += len(data)
            if submission.creates is not None:
                size += submission.creates[1]
        profile = self.profile
        latency = rng.uniform(profile.latency_min_s, profile.latency_max_s)
        if rng.random() < profile.stall_share:
            latency = rng.uniform(profile.latency_max_s, profile.stall_max_s)
        latency += self.switches.extra_latency_s + size / profile.bytes_per_s
        self.stats.syncs += 1
        self.stats.bytes_written += size
        self._timer = self.loop.call_later(latency, self._window_done)

    def _window_done(self) -> None:
        if self._dead:
            return
        assert self._timer is not None
        self._timer.cancel()
        if self.switches.fail_next_sync:
            self.switches.fail_next_sync = False
            self._fatal("input/output error")
            return
        window, self._window = self._window, []
        for submission in window:
            for file, offset, data in submission.writes:
                assert not file.closed, f"{file.name} was closed under a write to it"
                assert not file.released, f"{file.name} was released under a write to it"
                _put(file, offset, data)
                file.pending.clear()
        self._effect("log durable")
        for submission in window:
            self.loop.call_soon(self._call_back, submission.done)
        if self._queue and not self._window:
            self._start_window()

    def _effect(self, kind: str) -> None:
        if self.on_effect is not None and not self._dead:
            self.on_effect(kind)

    def _call_back(self, done: Callable[[], None]) -> None:
        if self._dead:
            return
        try:
            done()
        except Exception as fault:  # as the real one: what goes on behind it cannot be relied on
            self._fatal(repr(fault))

    def _fatal(self, why: str) -> None:
        self._dead = True
        owner = current_incarnation()
        if self.on_fatal is not None:
            self.on_fatal(why)
        elif owner is not None:
            owner.kill()

    def _tear_create(
        self, survivor: SimDisk, name: str, size: int, head: bytes, rng: random.Random
    ) -> None:
        """A file under way: absent, short, or complete."""
        if rng.random() < 0.5:
            length = rng.choice((0, size, rng.randrange(0, size + 1, SECTOR)))
            survivor.files[name] = SimFile(name, bytearray(length))
            if length >= len(head) > 0:
                self._tear_write(survivor.files[name], 0, head, rng.random(), rng)

    def _tear_renewal(
        self, survivor: SimDisk, file: SimFile, name: str, head: bytes, rng: random.Random
    ) -> None:
        """A file that gets another name and beginning: each of them has come, or not."""
        found = survivor.files[file.name]
        if rng.random() < 0.5:
            del survivor.files[file.name]
            survivor.files[name] = found
            found.name = name
        self._tear_write(found, 0, head, rng.choice((0.0, 0.5, 1.0)), rng)

    def _tear_write(
        self, file: SimFile, offset: int, data: bytes, share: float, rng: random.Random
    ) -> None:
        """Each sector that the write touches arrives or does not, independently."""
        self.stats.torn_writes += 1
        end = offset + len(data)
        start = offset
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            if rng.random() < share:
                _put(file, start, data[start - offset : stop - offset])
            start = stop


def _nothing() -> None:
    return


def _put(file: SimFile, offset: int, data: bytes) -> None:
    file.durable[offset : offset + len(data)] = data
    if file.holes:
        file.holes -= set(range(offset // BLOCK_BYTES, -(-(offset + len(data)) // BLOCK_BYTES)))
