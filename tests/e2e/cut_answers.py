"""A way to a service on which the answer to an append is lost, when a test says so."""

from __future__ import annotations

import select
import socket
import socketserver
from threading import Thread
from typing import Final, Self

_PIECE: Final = 65536
_HOST: Final = "127.0.0.1"


class CutAnswers:
    """Forwards bytes between a new port of this machine and the service."""

    def __init__(self, port: int) -> None:
        self.cuts_next = False
        """Whether the next append gets all of its answer but the last byte, and then no more: a
        browser repeats by itself what it had no byte for."""
        way = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection((_HOST, port)) as service:
                    way._forward(self.request, service)

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._listener = Listener((_HOST, 0), Connection)
        self._thread = Thread(target=self._listener.serve_forever)
        self._thread.start()
        self.url = f"http://{_HOST}:{self._listener.server_address[1]}"

    def _forward(self, client: socket.socket, service: socket.socket) -> None:
        is_cut = False
        while True:
            ready, _, _ = select.select([client, service], [], [])
            for end in ready:
                data = end.recv(_PIECE)
                if not data:
                    return
                if end is client:
                    is_cut = self.cuts_next and b"/append HTTP/" in data
                    service.sendall(data)
                elif is_cut:
                    self.cuts_next = False
                    client.sendall(data[:-1])
                    return
                else:
                    client.sendall(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
