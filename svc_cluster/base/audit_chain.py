"""The chain of an audit log: each line has the hash of the one before it. Pure.

The chain is the line's last member, and the last of the chain is the SHA-256 of every byte of the
line in front of it, the hash of the line before among them. Whoever changes, takes out, puts in or
moves a line breaks it there. There is no key in it: whoever can write the file can make all of the
chain anew from some line on, which shows where the last hash was kept elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

CHAIN_VERSION: Final = 1
HEAD_BYTES: Final = 160
"""The size of a kept head, blanks included: written over in place, it takes no more room on a full
disk."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_END: Final = re.compile(rb', "hash": "([0-9a-f]{64})"\}\}')
_END_BYTES: Final = len(', "hash": ""}}') + 64


class ChainVersionError(OSError):
    """A chain that a newer release wrote: what it means is not guessed."""

    def __init__(self, version: object) -> None:
        super().__init__(
            0, f"its chain has version {version!r}, this release knows {CHAIN_VERSION}"
        )


@dataclass(frozen=True, slots=True)
class ChainHead:
    """A Head is a line's place in the chain, with `sequence` from 1 and `digest` in hexadecimal."""

    sequence: int
    digest: str


START: Final = ChainHead(0, "0" * 64)
"""What the first line of all follows."""


@dataclass(frozen=True, slots=True)
class ChainedLine:
    """A line that says where it stands. `is_whole`: its hash is that of its bytes."""

    head: ChainHead
    previous: str
    torn: str | None
    """Hash of what is no line in front of it: one that a crash cut short, which was at the file's
    end when this one was written."""
    begins_file: bool
    """It is the first in its file that has a chain: none was in front of it."""
    is_whole: bool


def torn_hash(fragment: bytes) -> str:
    return hashlib.sha256(fragment).hexdigest()


def chain_line(
    text: str, after: ChainHead, fragment: bytes = b"", *, begins_file: bool = False
) -> tuple[bytes, ChainHead]:
    """The line of an event, `text` (a JSON object, in ASCII), behind the line `after`, and its
    place. `fragment`: what a crash has left between the two, without the newline at its end;
    `begins_file`: that line is in another file."""
    assert text[0] + text[-1] == "{}", "an event is an object"
    chain = f'"version": {CHAIN_VERSION}, "sequence": {after.sequence + 1}'
    chain += f', "previous": "{after.digest}"'
    if begins_file:
        chain += ', "begins_file": true'
    if fragment:
        chain += f', "torn": "{torn_hash(fragment)}"'
    comma = ", " if len(text) > 2 else ""
    begin = f'{text[:-1]}{comma}"chain": {{{chain}'.encode()
    digest = hashlib.sha256(begin).hexdigest()
    line = begin + f', "hash": "{digest}"}}}}\n'.encode()
    return line, ChainHead(after.sequence + 1, digest)


def is_object(raw: bytes) -> bool:
    """Whether these bytes, without newline, are a line of an audit log at all."""
    return _object(raw) is not None


def read_line(raw: bytes) -> ChainedLine | None:
    """What a line, without newline, says of its place; None: it is from before there was a chain,
    or no line at all. Raises ChainVersionError."""
    found = _object(raw)
    if found is None or "chain" not in found:
        return None
    chain = found["chain"]
    broken = ChainedLine(START, "", None, begins_file=False, is_whole=False)
    if not isinstance(chain, dict):
        return broken
    if chain.get("version") != CHAIN_VERSION:
        raise ChainVersionError(chain.get("version"))
    sequence, previous, torn = chain.get("sequence"), chain.get("previous"), chain.get("torn")
    end = _END.fullmatch(raw[-_END_BYTES:])
    if (
        not isinstance(sequence, int)
        or sequence < 1
        or not _is_hash(previous)
        or not (torn is None or _is_hash(torn))
        or end is None
    ):
        return broken
    digest = hashlib.sha256(raw[:-_END_BYTES]).hexdigest()
    head = ChainHead(sequence, end[1].decode())
    return ChainedLine(
        head, previous, torn, chain.get("begins_file") is True, is_whole=digest == head.digest
    )


def head_bytes(head: ChainHead) -> bytes:
    """How the last place of a chain is kept beside the file, for when the file is moved away."""
    kept = {"version": CHAIN_VERSION, "sequence": head.sequence, "hash": head.digest}
    return json.dumps(kept).encode().ljust(HEAD_BYTES - 1) + b"\n"


def read_head(raw: bytes) -> ChainHead | None:
    """None for nothing, and for what was cut short. Raises ChainVersionError."""
    found = _object(raw)
    if found is None:
        return None
    if found.get("version") != CHAIN_VERSION:
        raise ChainVersionError(found.get("version"))
    sequence, digest = found.get("sequence"), found.get("hash")
    if not isinstance(sequence, int) or sequence < 0 or not _is_hash(digest):
        return None
    return ChainHead(sequence, digest)


def _is_hash(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
