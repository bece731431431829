"""Inputs for parsers: well-formed ones, the same spoilt in the places where parsers err, noise."""

from __future__ import annotations

import base64
import gzip
import json
import random
from typing import Any, Final

import zstandard

NUMBERS: Final = (0, 1, 2, 9, 127, 128, 255, 256, 1000, 1001, 2**21, 2**24 - 1, 2**31, 2**32 - 1)
U64_EDGES: Final = (*NUMBERS, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS: Final = (
    "",
    "a",
    "fence",
    "trim",
    "token",
    "é" * 18,
    "é" * 19,
    "x" * 36,
    "x" * 37,
    "\0",
    "𝄞",
)

_ODD_BYTES: Final = (0x00, 0x01, 0x0A, 0x0B, 0x0C, 0x12, 0x7F, 0x80, 0x8A, 0xC0, 0xED, 0xF4, 0xFF)
_SNIPPETS: Final = (
    b"\xff" * 10 + b"\x01",  # a varint of 11 bytes
    b"\x80" * 9 + b"\x02",  # one that does not fit 64 bits
    b"\x8a\x00",  # a tag longer than need be
    b"\x0b" * 120,  # groups in groups
    b"\x0a\xff\xff\xff\xff\x07",  # a length of 2 GiB
    b"\x0a\x00" * 40,  # empty records
    b"\x12\x00" * 40,  # empty headers
    b"\x1a\x02\xc3\x28",  # a string that is not UTF-8
    b"\x10\x00",
    b"\x1a\x00",
    b"\xed\xa0\x80",  # a surrogate in UTF-8
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"[" * 200,
    b'{"a":' * 200,
    b"1e999",
    b"-0",
    b"NaN",
    b"\\ud800",
    b'"records":[],',
    b'"body":"',
    b'"headers":[["',
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The same bytes with some of them changed, cut, repeated or put in."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(8):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at % len(out)] = rng.choice(_ODD_BYTES)
            case 2:
                del out[at : at + rng.randint(1, 8)]
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 8))
            case 4:
                out[at:at] = rng.choice(_SNIPPETS)
            case 5:
                begin = rng.randrange(len(out) + 1)
                out[at:at] = out[begin : begin + rng.randint(1, 40)]
            case 6:
                del out[at:]
            case _:
                out[at : at + 1] = bytes((rng.randrange(256),))
    return bytes(out)


def spoilt(rng: random.Random, data: bytes) -> bytes:
    """Mostly mutated, sometimes as it is, sometimes noise."""
    draw = rng.random()
    if draw < 0.4:
        return data
    if draw < 0.95:
        return mutated(rng, data)
    return rng.randbytes(rng.randint(0, 40))


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def append_input(rng: random.Random) -> bytes:
    """An AppendInput, written by hand so that fields may come in any order, twice, or unknown."""
    parts = [field(1, _record(rng)) for _ in range(rng.choice((0, 1, 1, 2, 5, 30)))]
    if rng.random() < 0.05:
        parts += [field(1, b"")] * rng.choice((998, 1000, 1001))
    if rng.random() < 0.3:
        parts.append(field(2, rng.choice(U64_EDGES)))
    if rng.random() < 0.3:
        parts.append(field(3, rng.choice(TEXTS).encode()))
    if rng.random() < 0.1:
        parts.append(field(rng.choice((4, 15, 16, 2000)), rng.choice((7, b"unknown"))))
    rng.shuffle(parts)
    return b"".join(parts)


def _record(rng: random.Random) -> bytes:
    parts = []
    if rng.random() < 0.4:
        parts.append(field(1, rng.choice(U64_EDGES)))
    if rng.random() < 0.1:  # a command, or nearly one
        parts.append(field(2, field(2, rng.choice((b"fence", b"trim", b"", b"other")))))
        parts.append(field(3, rng.choice((b"", b"token", b"\xff", bytes(7), bytes(8), b"x" * 37))))
    else:
        for _ in range(rng.choice((0, 0, 0, 1, 2, 9))):
            name, value = (
                rng.randbytes(rng.choice((0, 1, 4, 130))),
                rng.randbytes(rng.choice((0, 3))),
            )
            parts.append(field(2, field(1, name) + field(2, value)))
        if rng.random() < 0.9:
            parts.append(field(3, rng.randbytes(rng.choice((0, 1, 20, 200)))))
    if rng.random() < 0.05:
        parts.append(field(9, b"unknown"))
    return b"".join(parts)


def frames(rng: random.Random) -> bytes:
    """Some frames behind each other, of every compression and flag, some with a wrong head."""
    return b"".join(_frame(rng) for _ in range(rng.choice((0, 1, 1, 2, 4))))


def _frame(rng: random.Random) -> bytes:
    payload = append_input(rng) if rng.random() < 0.7 else bytes(rng.choice((0, 5, 3000)))
    flag = rng.choice((0x00, 0x00, 0x10, 0x0F, 0x20, 0x40, 0x60, 0x80, 0xA0))
    if flag == 0x20:
        sized = rng.random() < 0.5
        payload = zstandard.ZstdCompressor(level=1, write_content_size=sized).compress(payload)
    elif flag == 0x40:
        payload = gzip.compress(payload, 1)
    elif flag & 0x80:
        payload = rng.choice((0, 400, 412, 65535)).to_bytes(2, "big") + b'{"seq_num_mismatch":1}'
    length = 1 + len(payload)
    if rng.random() < 0.05:
        length = rng.choice((0, 1, 2**21, 2**21 + 1, 2**24 - 1))
    return length.to_bytes(3, "big") + bytes((flag,)) + payload


def json_append(rng: random.Random) -> bytes:
    def text() -> str:
        draw = rng.choice(TEXTS)
        return base64.b64encode(draw.encode()).decode() if rng.random() < 0.8 else draw

    records: list[dict[str, Any]] = []
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        record: dict[str, Any] = {}
        if rng.random() < 0.4:
            record["timestamp"] = rng.choice((None, *U64_EDGES, -1, 2**64, 1.5))
        if rng.random() < 0.4:
            record["headers"] = [[text(), text()] for _ in range(rng.choice((0, 1, 2)))]
        if rng.random() < 0.8:
            record["body"] = text()
        records.append(record)
    body: dict[str, Any] = {"records": records}
    if rng.random() < 0.3:
        body["match_seq_num"] = rng.choice((None, *U64_EDGES, -1, 2**64, "1"))
    if rng.random() < 0.3:
        body["fencing_token"] = rng.choice((None, *TEXTS))
    if rng.random() < 0.1:
        body["unknown"] = {"a": [1, {"b": None}]}
    return json.dumps(body, ensure_ascii=rng.random() < 0.5).encode()


def event_id(rng: random.Random) -> bytes:
    numbers = [
        str(rng.choice((*U64_EDGES, 2**64, 10**25))) for _ in range(rng.choice((3, 3, 3, 2, 4)))
    ]
    return rng.choice((",", ",", ":", ";", ", ")).join(numbers).encode()
