"""Locations: names that an account gives to places, of which each basin has one.

Which there are is configured; the first of them is the default until another is chosen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from svc_cluster.model.stream_config import STORAGE_CLASSES

_NAME: Final = re.compile(r"[A-Za-z0-9:.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Location:
    """A place, and the storage classes that streams of its basins can have: the same in each."""

    name: str
    is_private: bool = False
    storage_classes: tuple[str, ...] = STORAGE_CLASSES


LOCATIONS_DEFAULT: Final = (Location("local"),)


def is_location_name(name: str) -> bool:
    """1 to 64 of `[A-Za-z0-9:.-]`."""
    return _NAME.fullmatch(name) is not None
