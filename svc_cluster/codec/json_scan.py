"""How much structure a JSON text has, found without making an object of any of it.

A few KiB that were compressed can say millions of objects, and decoding makes every one of them
before anybody counts. Here the text is taken in slices, between which others may work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple

SLICE_BYTES: Final = 64 * 1024
"""What is looked at in one go; of nothing but quotes about 3 ms."""
_REST_BYTES: Final = 512 * 1024
"""How much plain text, which costs little, is looked at before others may work."""
_REST_PARTS: Final = 4096


class Structure(NamedTuple):
    """What stands outside strings."""

    objects: int = 0
    arrays: int = 0
    commas: int = 0
    colons: int = 0
    open: int = 0
    """Objects and arrays that have begun and not ended."""
    escapes: int = 0
    """Within strings."""


def structure_steps(
    body: bytes, look: Callable[[Structure], None]
) -> Generator[None, None, Structure]:
    """Count the structure of `body`, in steps of a bounded time. `look` is shown the counts after
    each slice, and may raise when they are too high already.

    Of what is no JSON the counts are right up to where that shows: what a decoder can have made of
    it before it stops is counted too.
    """
    objects = arrays = commas = colons = closed = escapes = 0
    is_inside = False
    start = idle_bytes = idle_parts = 0
    while start < len(body):
        piece = body[start : start + SLICE_BYTES]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes & 1:  # what the last one escapes belongs to it
            piece = body[start : start + SLICE_BYTES + 1]
        start += len(piece)
        single = piece.replace(b"\\\\", b"")
        escapes += (len(piece) - len(single)) // 2 + single.count(b"\\")
        parts = single.replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[int(is_inside) :: 2])
        is_inside ^= not len(parts) & 1
        objects += outside.count(b"{")
        arrays += outside.count(b"[")
        commas += outside.count(b",")
        colons += outside.count(b":")
        closed += outside.count(b"}") + outside.count(b"]")
        look(Structure(objects, arrays, commas, colons, objects + arrays - closed, escapes))
        idle_bytes += len(piece)
        idle_parts += len(parts) + len(outside) // 16
        if idle_bytes >= _REST_BYTES or idle_parts >= _REST_PARTS:
            idle_bytes = idle_parts = 0
            yield
    return Structure(objects, arrays, commas, colons, objects + arrays - closed, escapes)
