"""Files of the machine's disk: opened, made in full, reserved, renewed. Blocking."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_ZEROS_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(_ZEROS_BYTES)
_CREATE_SYNC_BYTES: Final = 8 * 1024 * 1024
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Descriptor:
    """A number that the system knows an open file by. It is given back when nobody uses it: a read
    or write that began in time holds on to it, and never gets at another file of the number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class RealFile:
    """A file of a RealDisk."""

    __slots__ = ("_closed", "_descriptor", "_directory", "_size", "name")

    def __init__(self, path: Path, handle: int) -> None:
        """`handle`: the file's open descriptor, which is its own from now on."""
        self.name = path.name
        self._directory = path.parent
        self._descriptor: Descriptor | None = Descriptor(handle)
        self._closed = False
        self._size = os.fstat(handle).st_size

    @property
    def path(self) -> Path:
        return self._directory / self.name

    def size(self) -> int:
        return self._size

    def held_bytes(self) -> int:
        return os.stat(self.path).st_blocks * 512

    def pread(self, size: int, offset: int) -> bytes:
        descriptor = self.opened()
        pieces = []
        while size > 0:
            piece = os.pread(descriptor.number, size, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        descriptor = self._descriptor
        if descriptor is None:
            return None  # to open it may have to wait for the disk
        data = bytearray(size)
        try:
            count = os.preadv(descriptor.number, [data], offset, os.RWF_NOWAIT)
        except OSError:
            return None  # EAGAIN, or a file system that cannot say
        return bytes(data) if count == size else None

    def release(self) -> None:
        self._descriptor = None

    def close(self) -> None:
        self._closed = True
        self._descriptor = None

    def opened(self) -> Descriptor:
        """Return the file's descriptor, which stays open for as long as it is held. Blocking where
        the file was released, which ends with this.

        Raises:
            OSError: The file was closed, or cannot be opened.
        """
        descriptor = self._descriptor
        if descriptor is None:
            self._check_open()
            descriptor = self._descriptor = Descriptor(open_to_write(self.path))
            try:
                self._check_open()
            except OSError:  # closed meanwhile by another thread: nobody would close this one
                self._descriptor = None
                raise
        return descriptor

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "the file was closed", self.name)


def open_to_write(path: Path) -> int:
    """Return a descriptor of a file that is there."""
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def make_zeros(path: Path, size: int, sync: Callable[[int], None]) -> RealFile:
    """Make a file of zeros that are written, not only promised. It is synced in steps, so that the
    log's own syncs wait for little, and at the end; the directory is the caller's."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    offset = 0
    while offset < size:
        step = min(_ZEROS_BYTES, size - offset)
        write_all(handle, [memoryview(_ZEROS)[:step]], offset)
        offset += step
        if offset % _CREATE_SYNC_BYTES == 0:
            sync(handle)
    os.fsync(handle)
    return RealFile(path, handle)


def reserve(path: Path, size: int, head: bytes) -> RealFile | None:
    """Make a file whose room is set aside, with `head` at its beginning, and sync it. None, and no
    file, where the disk has no room for it; the directory is the caller's to sync."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as failure:
        os.close(handle)
        path.unlink()
        if failure.errno in _NO_ROOM:
            return None
        raise
    write_all(handle, [head], 0)
    os.fsync(handle)
    return RealFile(path, handle)


def renew(file: RealFile, name: str, head: bytes) -> bool:
    """Give a file another name and beginning, and room where it has holes, and sync it; the
    directory is the caller's. False, and the old name, where the disk has no room for that."""
    descriptor = file.opened()
    try:
        os.posix_fallocate(descriptor.number, 0, file.size())
    except OSError as failure:
        if failure.errno in _NO_ROOM:
            return False
        raise
    os.rename(file.path, file.path.with_name(name))
    file.name = name
    write_all(descriptor.number, [head], 0)
    os.fsync(descriptor.number)
    return True


def write_all(handle: int, pieces: Sequence[bytes | memoryview], offset: int) -> None:
    """Write the pieces one behind the other, going on after short writes."""
    left = list(pieces)
    while left:
        count = os.pwritev(handle, left, offset)
        if count <= 0:
            raise OSError(errno.EIO, "a write made no progress")
        offset += count
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if count:
            left[0] = memoryview(left[0])[count:]
