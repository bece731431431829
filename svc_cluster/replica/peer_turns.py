"""How many messages of the other nodes are dealt with in one turn of the event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.turn_line import TurnLine

TURN_MESSAGES_MAX: Final = 128
"""Messages of all other nodes together that are dealt with before others have the event loop. Each
counts for one, and for one more for each MESSAGE_BYTES of it: entries are many small ones at the
worst. Behind each is a group that has something to do then, in the next turn."""

MESSAGE_BYTES: Final = 32


class PeerTurns(TurnLine):
    """The one of a node. Callers that found no room have their turns one after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, TURN_MESSAGES_MAX, MESSAGE_BYTES)
