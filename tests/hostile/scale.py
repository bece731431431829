"""How large the scenes are, and what no scene may make a process take."""

from __future__ import annotations

import os
from typing import Final

MIB: Final = 1024 * 1024

SCALE: Final = int(os.environ.get("HOSTILE_SCALE", "1"))
"""1 in the suite, 3 for `make hostile`: multiplies the number of attackers, or how often and how
long they come."""

assert 1 <= SCALE <= 10, "HOSTILE_SCALE is 1 to 10"

FULL_SCALE: Final = 3
"""At this scale every bound is asserted as it is promised; below, what is quick to show is."""

NODE_BYTES_MAX: Final = 700 * MIB
GATEWAY_BYTES_MAX: Final = 500 * MIB
"""Resident memory of a process, whatever clients do."""
