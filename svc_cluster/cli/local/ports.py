"""Ports of loopback that are chosen before the processes which will listen on them run.

A port that is only looked up and let go belongs to whoever comes next: to another cluster that is
looking, or to any connection of this machine, whose own end takes a port of the same range.
"""

from __future__ import annotations

import socket


class HeldPorts:
    """These ports stay bound, without anybody listening on them, until `close` or the end of this
    object.

    Only a listener that says SO_REUSEADDR and names the number gets such a port, as every server
    of this program does; a second one is refused as ever. Neither a connection nor a bind that
    leaves the choice to the system gets it, also not while the listener is down and is started
    again. A connection to a port that nobody listens on is refused.
    """

    def __init__(self, count: int) -> None:
        """Take `count` ports, all different. Raises OSError when there are none left."""
        self.numbers: list[int] = []
        self._sockets: list[socket.socket] = []
        try:
            for _ in range(count):
                held = socket.socket()
                self._sockets.append(held)
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind(("127.0.0.1", 0))
                self.numbers.append(held.getsockname()[1])
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Let the ports go; what listens on them goes on. May be called again."""
        while self._sockets:
            self._sockets.pop().close()

    def __del__(self) -> None:
        self.close()
