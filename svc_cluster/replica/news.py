"""Word that something happened reaches whoever waits for it."""

from __future__ import annotations

import asyncio


class News:
    """Something happened; whoever waits looks again."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def notify(self) -> None:
        self.event.set()
        self.event = asyncio.Event()
