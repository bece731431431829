"""The changes one command makes to the state store: applied all together or not at all."""

from __future__ import annotations


class WriteSet:
    """An ordered list of puts, deletes and range deletes; a later one wins over an earlier one.

    Keys are relative to a replica's generation until `prefixed` puts that in front.
    """

    __slots__ = ("freed", "ops")

    def __init__(self) -> None:
        self.ops: list[tuple[bytes, bytes | None, bytes | None]] = []
        """(key, value, None) is a put, (key, None, None) a delete, (start, None, end) a delete of
        the half-open range."""
        self.freed: list[tuple[bytes, bytes, int | None]] = []
        """One row for each range delete: (start, end, about how many bytes it frees or None if that
        is not known). Only for giving the space back; it changes nothing of what is stored."""

    def put(self, key: bytes, value: bytes) -> None:
        self.ops.append((key, value, None))

    def delete(self, key: bytes) -> None:
        self.ops.append((key, None, None))

    def delete_range(self, start: bytes, end: bytes, *, frees: int | None = None) -> None:
        """Delete every key in `[start, end)`, which `frees` about so many bytes."""
        self.ops.append((start, None, end))
        self.freed.append((start, end, frees))

    def extend(self, other: WriteSet) -> None:
        self.ops.extend(other.ops)
        self.freed.extend(other.freed)

    def prefixed(self, prefix: bytes) -> WriteSet:
        out = WriteSet()
        out.ops = [
            (prefix + key, value, None if end is None else prefix + end)
            for key, value, end in self.ops
        ]
        out.freed = [(prefix + start, prefix + end, size) for start, end, size in self.freed]
        return out

    def __len__(self) -> int:
        return len(self.ops)
