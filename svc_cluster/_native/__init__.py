"""The native core: what the codec and the log do most often, once more in C, where it could be
compiled.

Each function of the codec answers exactly what Python would, or None for whatever is not of the
plain shape; Python then decides, and refuses. The thread that syncs the log does what Python's
does, without the interpreter's lock. Without a compiler everything is done in Python, with the same
bytes. `_core.pyi` has what the functions take and give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from svc_cluster._native._core import _Syncs

try:
    from svc_cluster._native import _core
except ImportError:  # there was no compiler
    _built = None
else:
    _built = _core

Stored = tuple[bytes, int, int, int, int, bool, bool]
"""A stored batch is given as its records, first sequence number and number of records. Then come
the timestamp before it, its arrival, whether records have that timestamp whatever was given, and
whether they may be beyond it."""
AppendParts = tuple[bytes, int, int, int | None, int, int | None, int | None, str | None]
"""An append has these parts: its records as they are stored, their number, their metered bytes.
Then the largest of the timestamps given, how many were given, that of the first record; the number
to match; the fencing token."""
EncodeAppend = Callable[[bytes, bool], AppendParts | None]
"""Makes a stored batch of a JSON body, of which the strings are base64 or text."""

RunParts = tuple[bytes, int, int, int, int, int]
"""Records that are given out together have these parts: what they are encoded to, their number.
Then their metered bytes, the sequence numbers of the first and behind the last, and one of the
three below."""
AT_END: Final = 0
"""There are no more records."""
AT_LIMIT: Final = 1
"""The next record may not be returned."""
IS_FULL: Final = 2
"""There are more for the next run."""
EncodeRead = Callable[
    [tuple[Stored, ...], int, int, int | None, int | None, int | None, int], RunParts | None
]
"""It encodes the records of stored batches in a form, from a sequence number on. They are at most
so many, and so many metered bytes, of timestamps below one and not below another."""


PartOfStored = tuple[int, int, int, int, int, int, int]
"""A part of a stored batch is where its bytes begin and end, its first sequence number, number of
records and metered bytes. Then come the timestamps before it, and of its last record."""
CutStored = Callable[[Stored, int, int | None, int | None, int | None, int], PartOfStored | None]
"""It finds the part that a read has to look at, by the rules of `EncodeRead`."""


class SyncThread:
    """A thread of the core that writes and syncs. It is to be used by one thread alone."""

    def __init__(self, eventfd: int, failed: Callable[[int], None]) -> None:
        """`eventfd` becomes readable when something is done. `failed` is told the errno of a write
        or sync that failed, on the thread itself, and must not return."""
        assert _built is not None, "whoever makes one has looked"
        self._core = _built
        self._syncs: _Syncs = _built.sync_open(eventfd, failed)

    def submit(self, writes: list[tuple[int, int, bytes]]) -> None:
        """Write each (file descriptor, offset, data), behind all that was submitted before, then
        sync every file touched. The data is kept until `take` has told of it."""
        self._core.sync_submit(self._syncs, writes)

    def take(self) -> list[tuple[float, float, int]]:
        """What was done since the last call, in order: seconds of the writes, seconds of the syncs,
        and bytes."""
        done: list[tuple[float, float, int]] = self._core.sync_take(self._syncs)
        return done

    def wait(self) -> None:
        """Block until all that was submitted is done."""
        self._core.sync_wait(self._syncs)

    def close(self) -> None:
        """Block until all that was submitted is done, and end the thread."""
        self._core.sync_close(self._syncs)


class _Core:
    """The functions of the core stand here; where they do not, Python does their work."""

    __slots__ = ("cut_stored", "encode_append", "encode_read", "sync_thread")

    def __init__(self) -> None:
        self.cut_stored: CutStored | None = None
        self.encode_append: EncodeAppend | None = None
        self.encode_read: EncodeRead | None = None
        self.sync_thread: type[SyncThread] | None = None


core: Final = _Core()


def is_in_use() -> bool:
    """Tell whether the core was built and is used."""
    return core.encode_append is not None


def source_digest() -> str | None:
    """The SHA-256 of the sources that the core was built of; None: it was not built."""
    return None if _built is None else _built.SOURCE_DIGEST


def use(*, wanted: bool) -> bool:
    """Use the core from now on, or Python alone. Returns whether it is used: it has to be built."""
    built = _built if wanted else None
    core.cut_stored = None if built is None else built.cut_stored
    core.encode_append = None if built is None else built.encode_append
    core.encode_read = None if built is None else built.encode_read
    core.sync_thread = None if built is None else SyncThread
    return is_in_use()


use(wanted=True)
