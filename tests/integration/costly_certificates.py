"""Certificates that nobody signed, made to cost whoever looks at them as much as may be."""

from __future__ import annotations

import ssl

_ED25519 = bytes.fromhex("300506032b6570")
_VALID = bytes.fromhex("301e170d") + b"260101000000Z" + b"\x17\x0d" + b"490101000000Z"
_PRIME = 133 * (1 << 600) + 1
"""Square roots in this field take some hundred thousand multiplications."""


def slow_certificate() -> str:
    """PEM, 588 bytes in DER. Its key is a point whose second coordinate is a square root, on a
    curve that stands beside it, whose generator is another such point."""
    size = (_PRIME.bit_length() + 7) // 8
    base = next(each for each in range(3, 99) if pow(each, (_PRIME - 1) // 2, _PRIME) != 1)
    x = 5
    b = (pow(base, 6, _PRIME) - x**3 - x) % _PRIME
    point = b"\x02" + x.to_bytes(size, "big")
    one = (1).to_bytes(size, "big")
    field = _tlv(0x30, _oid("2a8648ce3d0101") + _number(_PRIME))
    curve = _tlv(0x30, _tlv(4, one) + _tlv(4, b.to_bytes(size, "big")))
    parts = _number(1) + field + curve + _tlv(4, point) + _number(_PRIME + 2) + _number(1)
    algorithm = _tlv(0x30, _oid("2a8648ce3d0201") + _tlv(0x30, parts))
    return _certificate(_tlv(0x30, algorithm + _tlv(3, b"\0" + point)))


def small_certificate() -> str:
    """PEM, of as few bytes as a certificate may have."""
    return _certificate(_tlv(0x30, _ED25519 + _tlv(3, b"\0" + bytes(32))))


def _certificate(key: bytes) -> str:
    nobody = _tlv(0x30, b"")
    told = _tlv(0x30, _number(1) + _ED25519 + nobody + _VALID + nobody + key)
    return ssl.DER_cert_to_PEM_cert(_tlv(0x30, told + _ED25519 + _tlv(3, b"\0")))


def _tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    told = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(told)]) + told + content


def _number(value: int) -> bytes:
    return _tlv(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _oid(content: str) -> bytes:
    return _tlv(6, bytes.fromhex(content))
