"""All targets, by name."""

from __future__ import annotations

import importlib.util
from typing import Final

from tests.fuzz import between_processes, on_disk, on_the_wire, over_http
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        *over_http.TARGETS,
        *on_the_wire.TARGETS,
        *between_processes.TARGETS,
        *on_disk.TARGETS,
    )
}


def is_here(library: str) -> bool:
    return not library or importlib.util.find_spec(library) is not None
