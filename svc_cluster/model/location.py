"""Locations: names that an account gives to places, of which each basin has one.

Which there are is configured; the first of them is the default until another is chosen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9:.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Location:
    name: str
    is_private: bool = False


LOCATIONS_DEFAULT: Final = (Location("local"),)


def is_location_name(name: str) -> bool:
    """1 to 64 of `[A-Za-z0-9:.-]`."""
    return _NAME.fullmatch(name) is not None
