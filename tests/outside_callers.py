"""Conversations with a node from outside, held open by who says and hears nothing in them."""

from __future__ import annotations

import asyncio
import random

from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker


class _Up:
    """The owner of a caller's conversation."""

    def __init__(self) -> None:
        self.is_up = asyncio.Event()

    def link_up(self, _: Speaker) -> None:
        self.is_up.set()

    def link_down(self) -> None: ...

    def message(self, kind: FrameKind, payload: bytes) -> None: ...

    def room(self, kind: FrameKind, size: int) -> None: ...


async def talk(address: str, terms: Terms) -> Connector:
    """A conversation that is open."""
    up = _Up()
    connector = Connector(
        loop=asyncio.get_running_loop(),
        address=address,
        terms=lambda: terms,
        events=up,
        rng=random.Random(1),
        tls=None,
        server_name="",
    )
    connector.start()
    await up.is_up.wait()
    return connector
