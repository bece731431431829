"""JSON bodies against the shapes that they are to have, and what is said where they differ.

The typed decoder is fast and lenient: of a member that is given twice it takes one, and what it
does not know it passes over. A second reading finds both, for bodies that may have such a thing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.base.telling import listed, quoted

_T = TypeVar("_T")

_UNKNOWN_WORD: Final = re.compile(r"Invalid enum value '(.*)' - at `\$(.*)`", re.DOTALL)
_SHAPES_MAX: Final = 64
"""The members of so many are remembered; there are fewer."""
_BLANKS: Final = b" \t\r\n"


def decode_typed(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """The value that the body stands for. Raises MalformedError (bad_json): it says so where there
    is no body, and of a word that is none of those it may be, which there are."""
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as cause:
        if not body.strip(_BLANKS):
            raise _bad("the body is empty, and has to be JSON") from cause
        told = _unknown_word(str(cause), decoder.type) or f"the body is not as expected: {cause}"
        raise _bad(told) from cause
    except UnicodeDecodeError as cause:
        raise _bad("the body is not UTF-8") from cause
    except RecursionError as cause:
        raise _bad("the body is nested too deeply") from cause


def read_again(body: bytes, only: Only | None = None) -> None:
    """A slower, second reading, for bodies that have, or may have, more than the typed decoder saw.

    Raises MalformedError (bad_json) for a member that stands twice in one object, and for one that
    is not among those of `only`. It names the member.
    """
    try:
        hook = _unique if only is None else _unique_dict
        value = json.loads(body.decode(), object_pairs_hook=hook)
    except RecursionError as cause:
        raise _bad("the body is nested too deeply") from cause
    except ValueError as cause:
        # UnicodeDecodeError and JSONDecodeError are ValueErrors; so is a number of many digits.
        raise _bad("the body is not valid JSON") from cause
    if only is not None:
        _refuse_unknown(value, _type_info(only.shape), "", only.without)


class Only(NamedTuple):
    """These are the members that a strict request may have: those of `shape`, but for some."""

    shape: Any
    without: frozenset[str] = frozenset()
    """Paths of members, as in `config.storage_class`, that the shape has for another dialect."""


def unknown_member(path: str, known: Iterable[str]) -> MalformedError:
    """The refusal of a member that nothing would read, where those of `known` would be."""
    words = sorted(known)
    there = f"there are {listed(words)}" if words else "there are none"
    return _bad(f"there is no member {quoted(path)}; {there}")


def _refuse_unknown(
    value: Any, kind: inspect.Type | None, path: str, without: frozenset[str]
) -> None:
    """Goes as deep as the shape goes: what that leaves open may be anything."""
    alternatives = _alternatives(kind)
    if isinstance(value, list):
        items = [each.item_type for each in alternatives if isinstance(each, inspect.ListType)]
        for place, item in enumerate(value if items else ()):
            _refuse_unknown(item, items[0], f"{path}[{place}]", without)
        return
    structs = [each for each in alternatives if isinstance(each, inspect.StructType)]
    if not structs or not isinstance(value, dict):
        return
    before = f"{path}." if path else ""
    known = {
        field.encode_name: field.type
        for struct in structs
        for field in struct.fields
        if before + field.encode_name not in without
    }
    for name, inner in value.items():
        if name not in known:
            raise unknown_member(before + name, known)
        _refuse_unknown(inner, known[name], before + name, without)


def _unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _unique(pairs)
    return dict(pairs)


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) == len(pairs):
        return
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _bad(f"the member {quoted(name)} stands twice in one object")
        seen.add(name)


def _unknown_word(told: str, shape: Any) -> str | None:
    """What is to be told where `told`, the decoder's sentence, is of a word that is unknown."""
    found = _UNKNOWN_WORD.fullmatch(told)
    if found is None:
        return None
    word, path = found.groups()
    kind: inspect.Type | None = _type_info(shape)
    for member in path.split(".")[1:]:
        kind = _member(kind, member)
    known = [
        str(value)
        for each in _alternatives(kind)
        if isinstance(each, inspect.LiteralType)
        for value in each.values
    ]
    if not known:
        return None
    return f"{path[1:]} is one of {listed(sorted(known))}, not {quoted(word)}"


@lru_cache(_SHAPES_MAX)
def _type_info(shape: Any) -> inspect.Type:
    return inspect.type_info(shape)


def _member(kind: inspect.Type | None, name: str) -> inspect.Type | None:
    """What the member of that name is in an object of such a kind; None: there is none."""
    for each in _alternatives(kind):
        if isinstance(each, inspect.StructType):
            for field in each.fields:
                if field.encode_name == name:
                    return field.type
    return None


def _alternatives(kind: inspect.Type | None) -> tuple[inspect.Type, ...]:
    if kind is None:
        return ()
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _bad(message: str) -> MalformedError:
    return MalformedError(ErrorCode.BAD_JSON, message)
