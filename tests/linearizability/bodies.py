"""Record bodies that are unique in a run and prove that they are whole."""

from __future__ import annotations

import zlib


def make_body(run: int, client: int, op: int, attempt: int, place: int, padding: int = 0) -> str:
    """ASCII; `place` is the record's place in its batch, from 0; `padding` adds bytes."""
    text = f"{run}.{client}.{op}.{attempt}.{place}.{'x' * padding}"
    return f"{text}.{zlib.crc32(text.encode()):08x}"


def is_whole(body: str) -> bool:
    """Whether a body is one of `make_body`, undamaged."""
    text, _, crc = body.rpartition(".")
    return text.count(".") == 5 and crc == f"{zlib.crc32(text.encode()):08x}"
