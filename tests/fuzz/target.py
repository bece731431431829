"""What is fuzzed: a parser, what it must do with any input at all, and inputs to begin with."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).resolve().parent / "kept"
INPUT_BYTES_MAX: Final = 4096

Check = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """`check` returns for what it takes and for what it refuses as declared; anything it raises is
    a fault. It is made once for many inputs. `make`: well-formed inputs. `needs`: a library without
    which it cannot be run."""

    name: str
    check: Callable[[], Check]
    make: Callable[[random.Random], bytes]
    needs: str = ""


class WrongError(Exception):
    """A parser took or refused what it must not, or said that it is at fault."""


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise WrongError(what)


def chance(data: bytes) -> random.Random:
    """Chance that is the input's own: the same input is always treated alike."""
    return random.Random(zlib.crc32(data))


def kept(name: str) -> list[bytes]:
    """The inputs that are kept for a target, one in hexadecimal digits a line."""
    path = KEPT / f"{name}.hex"
    if not path.exists():
        return []
    return [bytes.fromhex(line) for line in path.read_text().split()]


def keep(name: str, inputs: list[bytes]) -> None:
    KEPT.mkdir(exist_ok=True)
    lines = sorted({data.hex() for data in inputs}, key=lambda line: (len(line), line))
    (KEPT / f"{name}.hex").write_text("".join(line + "\n" for line in lines))
