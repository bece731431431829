"""Messages of any protobuf type, with every kind of field set to what parsers err at."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.property.codec.inputs import TEXTS, U64_EDGES

_M = TypeVar("_M", bound=Message)

_TEXT = FieldDescriptor.TYPE_STRING
_SMALL = {
    FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_UINT32,
    FieldDescriptor.TYPE_FIXED32,
    FieldDescriptor.TYPE_SINT32,
}


def any_message(rng: random.Random, kind: type[_M], depth: int = 5) -> _M:
    """Every second field is set; of a oneof the last that is wins."""
    message = kind()
    _fill(rng, message, depth)
    return message


def _fill(rng: random.Random, message: Any, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.5:
            continue
        if field.message_type is not None:
            if depth and not field.message_type.GetOptions().map_entry:
                _fill_message(rng, message, field, depth)
        elif field.is_repeated:
            getattr(message, field.name).extend(
                _value(rng, field) for _ in range(rng.choice((0, 1, 3)))
            )
        else:
            setattr(message, field.name, _value(rng, field))


def _fill_message(rng: random.Random, message: Any, field: Any, depth: int) -> None:
    if field.is_repeated:
        for _ in range(rng.choice((0, 1, 2))):
            _fill(rng, getattr(message, field.name).add(), depth - 1)
        return
    inner = getattr(message, field.name)
    inner.SetInParent()
    _fill(rng, inner, depth - 1)


def _value(rng: random.Random, field: Any) -> Any:
    if field.type == _TEXT:
        return rng.choice((*TEXTS, "basin-0001", "name"))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.choice((0, 1, 8, 16, 32)))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return rng.choice((0.0, 1.5, float("inf"), float("nan"), -1.0))
    number = rng.choice(U64_EDGES)
    return number % 2**31 if field.type in _SMALL else number % 2**63
