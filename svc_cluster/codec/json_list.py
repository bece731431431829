"""Long JSON arrays, made in steps of a bounded time, between which others may work."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from svc_cluster.codec.json_body import encode_object

ROWS_AT_ONCE: Final = 128
"""How many objects with some members each are made at one step: about 2 ms, with what makes
them."""
NUMBERS_AT_ONCE: Final = 2048
"""The same of pairs of numbers, and of names."""


def list_pieces(items: Iterable[Any], at_once: int) -> Iterator[bytes]:
    """The array of all items, which are asked for as they are wanted, so many for a piece."""
    remaining = iter(items)
    before = b"["
    while some := list(islice(remaining, at_once)):
        yield before + encode_object(some)[1:-1]
        before = b","
    yield b"[]" if before == b"[" else b"]"


def page_steps(name: str, rows: Iterable[Any], *, has_more: bool) -> Generator[None, None, bytes]:
    """An object with the rows under this name, and whether there are more."""
    parts = [b"{%b:" % encode_object(name)]
    for piece in list_pieces(rows, ROWS_AT_ONCE):
        parts.append(piece)
        yield
    return b"".join([*parts, b",", encode_object({"has_more": has_more})[1:]])
