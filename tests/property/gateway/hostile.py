"""Many inputs out of one hypothesis example: what nobody would send, made fast."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Final

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

INPUTS: Final = int(os.environ.get("HOSTILE_INPUTS", "4000"))
"""Of each test here; a million by `HOSTILE_INPUTS=1000000 pytest tests/property/gateway`."""

PIECES: Final = (
    *(b"NaN", b"Infinity", b"-", b"-0", b"1e999999", b"9" * 5000, b"0.5", b"1E400", b"01"),
    *(
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
        b'"\\ud800"',
        b"\\u0000",
        b"\x00",
    ),
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"/", b"//", b"%", b"%2", b"%ff"),
    *(b"%2F", b"%00", b"&", b"=", b"+", b"..", b".", b";", b"?", b"#", b"\r\n", b" ", b"\t"),
    *(b'{"a":1,"a":1}', b"[" * 3000, b'{"a":' * 3000, b"x" * 600, b"gzip", b"q=0", b"*"),
)


def hostile(test: Callable[[random.Random], None]) -> Callable[[], None]:
    """Run `test` on INPUTS sources of randomness, the same ones each time."""

    def run(sources: list[random.Random]) -> None:
        for source in sources:
            test(source)

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return in_batches(40)(run)


def in_batches(
    size: int,
) -> Callable[[Callable[[list[random.Random]], None]], Callable[[], None]]:
    """As `hostile`, for a test that takes `size` sources at once because it is dear to begin."""

    def decorate(test: Callable[[list[random.Random]], None]) -> Callable[[], None]:
        @seed(1)
        @settings(
            max_examples=max(1, INPUTS // size),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(number=st.integers(0, 2**64 - 1))
        def run(number: int) -> None:
            test([random.Random(f"{number}/{each}") for each in range(size)])

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


def damaged(rng: random.Random, valid: bytes) -> bytes:
    """`valid` with up to four pieces cut out and others put in; sometimes cut short."""
    data = valid
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(data))
        piece = rng.choice(PIECES) if rng.random() < 0.7 else rng.randbytes(rng.randint(0, 3))
        data = data[:at] + piece + data[at + rng.randint(0, 6) :]
    return data if rng.random() < 0.9 else data[: rng.randint(0, len(data))]
