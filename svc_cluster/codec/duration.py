"""Durations as people write them, such as 7days, 2h 30m and 1w.

The units are those of the init files of S2's own server. A month is 30.44 days and a year 365.25.
"""

from __future__ import annotations

import re
from typing import Final

_NANOSECONDS: Final = 1_000_000_000
_UNITS: Final = {
    word: nanoseconds
    for words, nanoseconds in (
        ("nanos nsec ns", 1),
        ("micros usec us µs", 1_000),
        ("millis msec ms", 1_000_000),
        ("seconds second secs sec s", _NANOSECONDS),
        ("minutes minute mins min m", 60 * _NANOSECONDS),
        ("hours hour hrs hr h", 3_600 * _NANOSECONDS),
        ("days day d", 86_400 * _NANOSECONDS),
        ("weeks week wks wk w", 604_800 * _NANOSECONDS),
        ("months month M", 2_630_016 * _NANOSECONDS),
        ("years year yrs yr y", 31_557_600 * _NANOSECONDS),
    )
    for word in words.split()
}
_PART: Final = re.compile(r"\s*([0-9]{1,20})\s*([A-Za-zµ]{1,7})\s*")
TEXT_CHARACTERS_MAX: Final = 200
DURATION_RULE: Final = "a duration is numbers with units, such as 7days, 2h 30m or 90s"


def seconds_of(text: str) -> int:
    """The whole seconds of a duration. Raises ValueError with a sentence for text that is none, or
    has a part of a second."""
    if text.strip() == "0":
        return 0
    total = place = 0
    while place < len(text) <= TEXT_CHARACTERS_MAX:
        part = _PART.match(text, place)
        if part is None or part[2] not in _UNITS:
            break
        total += int(part[1]) * _UNITS[part[2]]
        place = part.end()
    if not text.strip() or place < len(text):
        raise ValueError(DURATION_RULE)
    seconds, rest = divmod(total, _NANOSECONDS)
    if rest:
        raise ValueError("a duration has whole seconds here")
    return seconds
