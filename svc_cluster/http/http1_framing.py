"""This module tells where the messages of one HTTP/1.1 connection begin and end. The parser is
given no more than one head at a time, so that the first line of each request is known as it was
written, however the bytes arrive and whatever else the client sends in front of it.

The parser decides what a head means; nothing here reads a header. It knows no socket.
"""

from __future__ import annotations

from typing import Final

HEAD_END: Final = b"\r\n\r\n"
"""The end of every head, and of every chunked body: the empty line behind the last chunk or
trailer."""
CUTS_MAX: Final = 64
"""How often one chunked body is cut, within one piece of what came, behind an empty line, which may
as well be part of what it carries. Where it ends behind the last is not looked for, and it is the
last that its connection is asked."""


class Framing:
    """Tells how far the next piece for the parser reaches."""

    __slots__ = ("_body_end", "_cuts", "_head", "_in_body", "_is_exact", "_left", "_seen")

    def __init__(self) -> None:
        self._in_body = False
        self._head = b""
        """What the parser has of the head that is on its way."""
        self._seen = b""
        """The head with the piece that was cut last."""
        self._left: int | None = None
        """Bytes of the body that are still to come. None: the body is chunked."""
        self._body_end = b""
        """The last bytes of a chunked body, in case an empty line begins there."""
        self._cuts = 0
        self._is_exact = True

    @property
    def in_body(self) -> bool:
        return self._in_body

    @property
    def is_at_start(self) -> bool:
        """Whether nothing is there of the next message."""
        return not self._in_body and not self._head

    @property
    def is_at_end(self) -> bool:
        """Whether all of a body of known length was cut."""
        return self._in_body and self._left == 0

    @property
    def is_chunked(self) -> bool:
        """Whether the body that is on its way, or ended last, says itself where it ends."""
        return self._left is None

    @property
    def is_exact(self) -> bool:
        """Whether the piece that was cut last holds nothing behind the end of a body."""
        return self._is_exact

    def arrived(self) -> None:
        """More bytes came from the client."""
        self._cuts = 0

    def cut(self, data: bytes, start: int) -> int:
        """Where the piece ends that begins at `start`."""
        if self._in_body:
            return self._cut_body(data, start)
        return self._cut_head(data, start)

    def _cut_head(self, data: bytes, start: int) -> int:
        known = len(self._head)
        seen = self._head + data[start:]
        first = len(seen) - len(seen.lstrip(b"\r\n"))
        end = seen.find(HEAD_END, max(first, known - len(HEAD_END) + 1))
        end = len(seen) if end < 0 else end + len(HEAD_END)
        self._seen = seen[:end]
        return start + end - known

    def _cut_body(self, data: bytes, start: int) -> int:
        if self._left is not None:
            end = min(len(data), start + self._left)
            self._left -= end - start
            return end
        self._is_exact = self._cuts < CUTS_MAX
        if not self._is_exact:
            return len(data)
        self._cuts += 1
        carried = self._body_end
        place = (carried + data[start : start + len(HEAD_END)]).find(HEAD_END)
        if place < 0:
            place = data.find(HEAD_END, start)
            place = -1 if place < 0 else place - start + len(carried)
        if place < 0:
            self._body_end = (carried + data[start:])[1 - len(HEAD_END) :]
            return len(data)
        # The last line of a body is not empty, so its end shares no byte with an empty line before.
        self._body_end = b""
        return start + place + len(HEAD_END) - len(carried)

    def took_part_of_a_head(self) -> int:
        """The parser wants more; returns how much of the head it has."""
        self._head = self._seen
        return len(self._head)

    def took_a_head(self, body_bytes: int | None) -> None:
        """The piece made a request with a body of so many bytes; None if it is chunked."""
        self._head = b""
        self._in_body = body_bytes != 0
        self._left = body_bytes
        self._body_end = b""

    def body_ended(self) -> None:
        self._in_body = False
        self._head = b""

    def first_line(self) -> bytes:
        """Return the first line of the head that the last piece was part of, without empty lines in
        front of it. It is empty where half an end of a line stands there."""
        line = self._seen.lstrip(b"\r\n")
        ends = len(self._seen) - len(line)
        if self._seen[:ends] != b"\r\n" * (ends // 2):
            return b""
        return line.partition(b"\r\n")[0]
