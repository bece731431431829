"""The place of one process among those that serve a port together.

It has its part of what the settings allow the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from svc_cluster.settings import GatewaySettings
from svc_cluster.settings_bounds import DIVIDED
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import ENVIRONMENT_PREFIX

PROCESS: Final = f"{ENVIRONMENT_PREFIX}PROCESS"
"""Environment variable: the number of a process of the group, from 1 on. Its parent sets it."""
PROCESS_DIRECTORY: Final = f"{ENVIRONMENT_PREFIX}PROCESS_DIRECTORY"
"""Environment variable: where the processes of the group meet."""
BEAT_SECONDS: Final = 1.0
"""A process that serves says so to its parent again and again, with this pause."""
PROCESSES: Final = f"{ENVIRONMENT_PREFIX}PROCESSES"
PORT: Final = f"{ENVIRONMENT_PREFIX}PORT"


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """Process `number` of `processes`, which meet in a directory of their own."""

    number: int
    processes: int
    directory: Path

    def environment(self, port: int) -> dict[str, str]:
        """Return what tells a process its place. How many there are, and the port, are pinned: a
        changed file counts from the next start of all of them on."""
        return {
            PROCESS: str(self.number),
            PROCESS_DIRECTORY: str(self.directory),
            PROCESSES: str(self.processes),
            PORT: str(port),
        }


def own_place(environment: Mapping[str, str]) -> ProcessPlace | None:
    """Return the place that the parent gave this process; None: it has no parent of that kind.
    Raises SettingsError for one that no parent gives."""
    if PROCESS not in environment:
        return None
    try:
        number, processes = int(environment[PROCESS]), int(environment[PROCESSES])
        directory = Path(environment[PROCESS_DIRECTORY])
    except (KeyError, ValueError):
        number, processes, directory = 0, 0, Path()
    if not 1 <= number <= processes:
        raise SettingsError(
            f"{PROCESS} is {environment[PROCESS]!r}: remove it, and set processes for a gateway of "
            "several processes, which sets it for each"
        )
    return ProcessPlace(number, processes, directory)


def part_of(settings: GatewaySettings, processes: int) -> GatewaySettings:
    """Return the settings of one of so many processes. What is counted for the gateway as a whole
    is divided; limits of rates are not, since every process shares those by its own lease."""
    failed = settings.failed_authentications_per_second
    return msgspec.structs.replace(
        settings,
        processes=1,
        failed_authentications_per_second=None if failed is None else failed / processes,
        **{key: getattr(settings, key) // processes for key in DIVIDED},
    )
