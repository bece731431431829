"""The changes one command makes to the state store: applied all together or not at all."""

from __future__ import annotations

from typing import NamedTuple


class Origin(NamedTuple):
    """The entry that a write set comes from, and where its bytes stand on the disk already."""

    number: int
    """The payload file's."""
    offset: int
    payload: bytes


class WriteSet:
    """An ordered list of puts, deletes and range deletes; a later one wins over an earlier one.

    Keys are relative to a replica's generation until `prefixed` puts that in front.
    """

    __slots__ = ("freed", "heads", "ops", "origin")

    def __init__(self) -> None:
        self.ops: list[tuple[bytes, bytes | None, bytes | None]] = []
        """(key, value, None) is a put, (key, None, None) a delete, (start, None, end) a delete of
        the half-open range."""
        self.freed: list[tuple[bytes, bytes, int | None]] = []
        """One row for each range delete: (start, end, about how many bytes it frees or None if that
        is not known). Only for giving the space back; it changes nothing of what is stored."""
        self.heads: dict[bytes, int] = {}
        """For keys whose values end with bytes that stand in the entry as they are: the length of
        what is ahead of those. It says where the bytes may be kept, not what is stored."""
        self.origin: Origin | None = None
        """Where those bytes stand; None: nowhere that they could stay."""

    def put(self, key: bytes, value: bytes, *, head_bytes: int | None = None) -> None:
        """`head_bytes`: what follows so many bytes of the value is bytes of the entry. Such a key
        ends with 8 bytes that rise with each value under the bytes before them."""
        self.ops.append((key, value, None))
        if head_bytes is not None:
            self.heads[key] = head_bytes

    def delete(self, key: bytes) -> None:
        self.ops.append((key, None, None))

    def delete_range(self, start: bytes, end: bytes, *, frees: int | None = None) -> None:
        """Delete every key in `[start, end)`, which `frees` about so many bytes."""
        self.ops.append((start, None, end))
        self.freed.append((start, end, frees))

    def extend(self, other: WriteSet) -> None:
        self.ops.extend(other.ops)
        self.freed.extend(other.freed)
        self.heads.update(other.heads)

    def prefixed(self, prefix: bytes) -> WriteSet:
        out = WriteSet()
        out.ops = [
            (prefix + key, value, None if end is None else prefix + end)
            for key, value, end in self.ops
        ]
        out.freed = [(prefix + start, prefix + end, size) for start, end, size in self.freed]
        out.heads = {prefix + key: size for key, size in self.heads.items()}
        return out

    def __len__(self) -> int:
        return len(self.ops)
