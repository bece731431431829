"""The port of a gateway of several processes: it is theirs together and nobody else's.

Each of them listens with SO_REUSEPORT, with which the system lets any processes of one user share a
port. Their parent sees to it that those of no other group do.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from typing import Final

from svc_cluster.cli.processes.boot import unlistenable

TURN: Final = b"\0svc-cluster gateway takes a port"
"""An abstract name of a socket, which one process has at a time and loses with its end. It is known
where the ports are: in the network namespace, whatever files the processes see."""
TURN_PAUSE_SECONDS: Final = 0.01
TURN_TRIES_MAX: Final = 500
"""A turn takes less than a thousandth of a second. One that was stopped in it is not waited for
longer than this many pauses."""


async def hold_port(host: str, port: int) -> list[socket.socket]:
    """Return sockets that keep the port (0: a free one) for the group and take no connections. The
    port must be nobody's, not even another group's, with which it would be shared in silence.
    Raises SettingsError."""
    held: list[socket.socket] = []
    try:
        addresses = _addresses(host, port)
        # between the look at a port and taking it no other group may do the same
        async with _turn():
            for family, kind, protocol, _, address in addresses:
                place = (address[0], port, *address[2:])
                if port:
                    with socket.socket(family, kind, protocol) as alone:
                        _only_own_family(alone)
                        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                        alone.bind(place)
                sock = socket.socket(family, kind, protocol)
                held.append(sock)
                _only_own_family(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sock.bind(place)
                port = sock.getsockname()[1]
    except OSError as cause:
        for sock in held:
            sock.close()
        raise unlistenable(f"port {port} on {host}", cause) from cause
    return held


@contextlib.asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Only one process at a time is in it. Raises OSError where another one stays in it."""
    with socket.socket(socket.AF_UNIX) as mine:
        for tries in range(1, TURN_TRIES_MAX + 1):
            try:
                mine.bind(TURN)
                break
            except OSError as cause:
                if cause.errno != errno.EADDRINUSE or tries == TURN_TRIES_MAX:
                    raise
                await asyncio.sleep(TURN_PAUSE_SECONDS)
        yield


def _addresses(host: str, port: int) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    """Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [*dict.fromkeys((int(a), int(b), c, d, tuple(e)) for a, b, c, d, e in found)]


def _only_own_family(sock: socket.socket) -> None:
    """An address of IPv6 stands for no address of IPv4 here, as it will in the processes."""
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
