"""This module has the walk over a JSON text in steps of a bounded time, whatever stands in it.

What is short, a number or a part of a string, is given to the JSON library, which judges it; what
holds it together is read here. It costs several times as much as the library's own reading, and is
for what that reads in one go for too long.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, Final, NoReturn

import msgspec

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.base.telling import quoted
from svc_cluster.codec.json_shape import decode_typed

Steps = Generator[None, None, None]

PIECE_BYTES: Final = 64 * 1024
"""Read in one go; of nothing but escapes about 1 ms."""
VALUES_AT_ONCE: Final = 256
"""Values passed over in one go: about 1 ms."""
SCALAR_BYTES_MAX: Final = 1024
"""A number. Source: contract 2.9."""
NAME_BYTES_MAX: Final = 64 * 1024
"""A member's name, as it is written. Source: contract 2.9."""
NESTING_MAX: Final = 512
"""Objects and arrays within each other; a batch needs five."""

_BLANKS: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[-+.0-9A-Za-z]{1,%d}+" % (SCALAR_BYTES_MAX + 1))
# A pair of surrogates is one unit: neither half is a character. The rest is the library's to judge.
_INSIDE: Final = re.compile(
    rb"[^\"\\]*+"
    rb"(?:\\(?:[^u]|u(?:[^dD].{3}|[dD](?:[^89abAB].{2}|[89abAB].{2}\\u.{4})))[^\"\\]*+)*+",
    re.DOTALL,
)
_TEXT: Final = msgspec.json.Decoder(str)
_ANY: Final = msgspec.json.Decoder(msgspec.Raw)


def refuse(what: str) -> NoReturn:
    """Raise MalformedError (bad_json)."""
    raise MalformedError(ErrorCode.BAD_JSON, what)


class JsonWalk:
    """This is where the walk stands in one text. Everything raises MalformedError (bad_json)."""

    __slots__ = ("at", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def next_steps(self) -> Generator[None, None, bytes]:
        """The byte behind all blanks, which is not yet passed; empty at the end."""
        while True:
            limit = self.at + PIECE_BYTES
            found = _BLANKS.match(self.text, self.at, limit)
            assert found is not None, "nothing is a match too"
            self.at = found.end()
            if self.at < limit:
                return self.text[self.at : self.at + 1]
            yield

    def pass_steps(self, byte: bytes) -> Steps:
        """Pass over blanks and this byte."""
        if (yield from self.next_steps()) != byte:
            refuse(f"a {byte.decode()} is missing")
        self.at += 1

    def more_steps(self, end: bytes) -> Generator[None, None, bool]:
        """Behind an item of an array or object: whether there is another, of which this passes the
        comma. Else the `end` is passed."""
        found = yield from self.next_steps()
        if found not in (b",", end):
            refuse(f"a comma or {end.decode()} is missing")
        self.at += 1
        return found == b","

    def is_empty_steps(self, end: bytes) -> Generator[None, None, bool]:
        """Behind the beginning of an array or object: whether it has nothing, and is passed."""
        if (yield from self.next_steps()) != end:
            return False
        self.at += 1
        return True

    def text_steps(self, chars_max: int | None = None) -> Generator[None, None, str | None]:
        """The string that begins here. None: it has more than `chars_max`, and where the walk
        stands then is of no use."""
        yield from self.pass_steps(b'"')
        text = self.text
        parts: list[str] = []
        chars = 0
        while True:
            limit = self.at + PIECE_BYTES
            found = _INSIDE.match(text, self.at, limit)
            assert found is not None, "nothing is a match too"
            end = found.end()
            if end == limit:
                while end > limit - 3 and text[end : end + 1] and text[end] & 0xC0 == 0x80:
                    end -= 1  # not within a character
            if end == self.at and text[end : end + 1] != b'"':
                refuse("a string has no end, or an escape that is none")
            part = decode_typed(_TEXT, b'"%b"' % text[self.at : end])
            self.at = end
            chars += len(part)
            if chars_max is not None and chars > chars_max:
                return None
            parts.append(part)
            if text[end : end + 1] == b'"':
                self.at += 1
                return "".join(parts)
            yield

    def name_steps(self, seen: set[str]) -> Generator[None, None, str]:
        """The name of the next member, of an object that has had those that were `seen`; its colon
        is passed."""
        if (yield from self.next_steps()) != b'"':
            refuse("a member has no name")
        name = yield from self.text_steps(NAME_BYTES_MAX)
        if name is None:
            refuse(f"a member's name has at most {NAME_BYTES_MAX} characters")
        if name in seen:
            refuse(f"the member {quoted(name)} stands twice in one object")
        seen.add(name)
        yield from self.pass_steps(b":")
        return name

    def scalar(self) -> bytes:
        """The number, or the word, that begins here."""
        found = _SCALAR.match(self.text, self.at)
        if found is None or len(found.group()) > SCALAR_BYTES_MAX:
            refuse(f"a value is missing, or a number of more than {SCALAR_BYTES_MAX} characters")
        self.at = found.end()
        return found.group()

    def value_steps(self) -> Steps:
        """Pass over any value, which is well-formed."""
        around: list[set[str] | None] = []
        """The names so far of each object that is open; None: an array."""
        values = 0
        while True:
            values += 1
            if values % VALUES_AT_ONCE == 0:
                yield
            first = yield from self.next_steps()
            if first in (b"{", b"["):
                self.at += 1
                names = set[str]() if first == b"{" else None
                if not (yield from self.is_empty_steps(b"]" if names is None else b"}")):
                    around.append(names)
                    if len(around) > NESTING_MAX:
                        refuse(f"nested more than {NESTING_MAX} deep")
                    if names is not None:
                        yield from self.name_steps(names)
                    continue
            elif first == b'"':
                yield from self.text_steps()
            else:
                decode_typed(_ANY, self.scalar())
            while around and not (yield from self.more_steps(b"]" if around[-1] is None else b"}")):
                around.pop()
            if not around:
                return
            if (names := around[-1]) is not None:
                yield from self.name_steps(names)

    def short_steps(self, decoder: msgspec.json.Decoder[Any]) -> Generator[None, None, Any]:
        """What the library makes of the value that begins here, of which PIECE_BYTES are enough."""
        yield from self.next_steps()
        begin = self.at
        yield from self.value_steps()
        if self.at - begin > PIECE_BYTES:
            refuse("a value is too long")
        return decode_typed(decoder, self.text[begin : self.at])
