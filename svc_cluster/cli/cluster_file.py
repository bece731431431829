"""`cluster.json` of a local cluster: where every process is, for tools and tests.

A disk that is full must not end the supervision, so what cannot be written now is written once
there is room.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from svc_cluster.cli.terminal import say
from svc_cluster.storage.disk_trouble import remedy

RETRY_SECONDS: Final = 1.0
"""Between two tries to write the file, while the disk refuses it."""


class ClusterFile:
    """The file in `directory`; `content` gives what is to be in it at any moment."""

    def __init__(self, directory: Path, content: Callable[[], dict[str, Any]]) -> None:
        self._path = directory / "cluster.json"
        self._content = content
        self._changed = asyncio.Event()

    def write(self) -> None:
        """Write it now, whole or not at all. Raises OSError."""
        write_atomically(self._path, self._content())

    def changed(self) -> None:
        """Have it written by `run`."""
        self._changed.set()

    async def run(self) -> None:
        """Write it after each change, again and again where the disk refuses; until cancelled."""
        told = False
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                self.write()
            except OSError as cause:
                if not told:
                    what_to_do = remedy(cause, self._path.parent) or str(cause)
                    say(f"{self._path} is out of date until it can be written: {what_to_do}")
                told = True
                self._changed.set()
                await asyncio.sleep(RETRY_SECONDS)
            else:
                told = False


def read_cluster_file(directory: Path) -> dict[str, Any]:
    """`cluster.json` of a local cluster. Raises OSError, msgspec.DecodeError."""
    content: dict[str, Any] = msgspec.json.decode((directory / "cluster.json").read_bytes())
    return content


def write_atomically(path: Path, value: Any) -> None:
    """Whole or not at all, and on the disk when this returns. Raises OSError."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    sync(temporary)
    temporary.replace(path)


def sync(path: Path) -> None:
    """A cluster id that a power cut takes back would make every node refuse its directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
