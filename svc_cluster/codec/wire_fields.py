"""Fields of a protobuf message, looked at in its bytes before anything is made of them.

A parser makes an object of every two bytes of an empty message in a list, and keeps what it does
not know: three MiB of either are dear, however soon their number is refused afterwards.
"""

from __future__ import annotations

from typing import Final

from svc_cluster.codec.varint import short_varint

_SHORT_TAGS: Final = frozenset(number << 3 | 2 for number in range(1, 16))
"""The tags of one byte, of fields with a length."""


def find_field(
    data: bytes, position: int, end: int, wanted: int, most: int
) -> tuple[int, int] | None:
    """Return where the content of the first field of the number `wanted` is, if it has a length.
    It is looked for among the first `most` fields between `position` and `end`. Raises ValueError
    for what is no message."""
    for _ in range(most):
        if position >= end:
            return None
        number, start, position = _next(data, position, end)
        if number == wanted and start is not None:
            return start, position
    return None


def has_more_fields(data: bytes, position: int, end: int, most: int) -> bool:
    """Whether there are more than `most` fields between `position` and `end`, of any number. Raises
    ValueError for what is no message."""
    for _ in range(most):
        if position == end:
            return False
        if position > end:
            raise ValueError("a field beyond the end")
        # a short field with a length, as most are: many may have to be passed
        if data[position] in _SHORT_TAGS and position + 1 < end and data[position + 1] < 0x80:
            position += 2 + data[position + 1]
        else:
            _, _, position = _next(data, position, end)
    if position > end:
        raise ValueError("a field beyond the end")
    return position < end


def _next(data: bytes, position: int, end: int) -> tuple[int, int | None, int]:
    """The number of the field at `position`, where its content begins if it has a length, and the
    position behind it."""
    tag, position = _number(data, position)
    start = None
    match tag & 7:
        case 0:
            _, position = _number(data, position)
        case 1:
            position += 8
        case 2:
            size, start = _number(data, position)
            position = start + size
        case 5:
            position += 4
        case kind:
            raise ValueError(f"a field of kind {kind}")
    if position > end:
        raise ValueError("a field beyond the end")
    return tag >> 3, start, position


def _number(data: bytes, position: int) -> tuple[int, int]:
    try:
        return short_varint(data, position)
    except IndexError:
        raise ValueError("a number without an end") from None
