"""What load sends: request heads, and bodies at random that are made once and sent in turns.

A body of one byte again and again flatters whoever compresses, caches or compares. A pool of random
bodies costs the generator as little; it repeats itself after `POOL_BYTES_MAX` at the earliest, or
for large requests after `_VARIANTS_MIN`.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from svc_cluster.codec.session_frame import encode_frame
from svc_cluster.lab.api_client import AppendRecord, append_body
from svc_cluster.lab.load.scenarios import STAMP_BYTES, Part

POOL_BYTES_MAX: Final = 16 * 2**20
"""What one process keeps of bodies for one part."""
_VARIANTS_MIN: Final = 8
_VARIANTS_MAX: Final = 4096

_MARK: Final = b"\xa9svc\xb5\x17"
_MARK_64: Final = base64.b64encode(_MARK)
_MICROS_64_CHARS: Final = 8

Dialect = Literal["svc", "s2"]


class LoadAccess(msgspec.Struct, frozen=True):
    """Where requests go, who asks, and in which of the two dialects."""

    url: str
    token: str | None = None
    dialect: Dialect = "svc"

    def headers(self, basin: str | None = None) -> dict[str, str]:
        told = {} if basin is None else {f"{self.dialect}-basin": basin}
        if self.token is not None:
            told["authorization"] = f"Bearer {self.token}"
        return told

    @property
    def format_header(self) -> dict[str, str]:
        return {f"{self.dialect}-format": "base64"}

    @property
    def session_type(self) -> str:
        return "svcs/proto" if self.dialect == "svc" else "s2s/proto"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def protobuf_append(records: Sequence[AppendRecord]) -> bytes:
    """`s2.v1.AppendInput` of records without headers: field 1 = AppendRecord{field 3 = body}."""
    out = bytearray()
    for record in records:
        inner = b"\x1a" + _varint(len(record.body)) + record.body
        out += b"\x0a" + _varint(len(inner)) + inner
    return bytes(out)


def random_records(rng: random.Random, count: int, size: int) -> list[AppendRecord]:
    """A batch of bodies at random."""
    return [AppendRecord(rng.randbytes(size)) for _ in range(count)]


class Bodies:
    """One part's request bodies, or chunks of its session, all of one length."""

    def __init__(self, part: Part, rng: random.Random) -> None:
        assert part.trouble is None, part.trouble
        size = max(1, part.batch * part.size)
        variants = max(_VARIANTS_MIN, min(_VARIANTS_MAX, POOL_BYTES_MAX // size))
        self._all = [self._encoded(part, rng) for _ in range(variants)]
        self._next = 0
        self._stamp_at: int | None = None
        self._text = part.encoding == "json"
        if part.stamped:
            self._stamp_at = self._all[0].index(_MARK_64 if self._text else _MARK)

    @staticmethod
    def _encoded(part: Part, rng: random.Random) -> bytes:
        records = random_records(rng, part.batch, part.size)
        if part.stamped:
            first = _MARK + bytes(6) + records[0].body[STAMP_BYTES:]
            records[0] = AppendRecord(first)
        if part.kind == "session":
            frame = encode_frame(protobuf_append(records))
            return b"%x\r\n%b\r\n" % (len(frame), frame)
        return append_body(records) if part.encoding == "json" else protobuf_append(records)

    @property
    def length(self) -> int:
        return len(self._all[0])

    def next(self, due: float) -> bytes:
        """The next one in turn; with its stamp, where the part's records have them."""
        body = self._all[self._next]
        self._next = (self._next + 1) % len(self._all)
        if self._stamp_at is None:
            return body
        stamp = _MARK + round(due * 1e6).to_bytes(6, "big")
        if self._text:
            stamp = base64.b64encode(stamp)
        return body[: self._stamp_at] + stamp + body[self._stamp_at + len(stamp) :]


class StampReader:
    """Finds the stamps in the bytes of a stream's followers, however those are cut into pieces."""

    def __init__(self, encoding: str) -> None:
        self._text = encoding == "json"
        self._mark = _MARK_64 if self._text else _MARK
        self._micros = _MICROS_64_CHARS if self._text else 6
        self._kept = b""

    def feed(self, piece: bytes) -> list[float]:
        """The moments of the stamps that end in this piece, in seconds."""
        data = self._kept + piece
        found: list[float] = []
        whole = len(self._mark) + self._micros
        at = data.find(self._mark)
        done = 0
        while 0 <= at <= len(data) - whole:
            done = at + whole
            micros = data[at + len(self._mark) : done]
            if self._text:
                micros = base64.b64decode(micros)
            found.append(int.from_bytes(micros, "big") / 1e6)
            at = data.find(self._mark, done)
        self._kept = data[max(done, len(data) - whole + 1) :]
        return found
