"""The id that a request has in answers and logs. Source: contract 3.10.

It is the one that the client, or a proxy in front, has given, where that is short and plain: it
goes into logs. It is no secret and proves nothing; two requests may have the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from svc_cluster.http.message import Request

REQUEST_ID_HEADER: Final = "x-request-id"
_FRESH_BYTES: Final = 8
_DRAWN_AT_ONCE: Final = 64
"""Fresh ids: asking the system for bytes costs more than what is done with them."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class RequestIds:
    """The ids of one gateway's requests."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._drawn: list[str] = []

    def of(self, request: Request) -> str:
        """The request's own id, or a fresh one where it has none that can be used."""
        given = request.header(REQUEST_ID_HEADER)
        return given if given is not None and _PLAIN.fullmatch(given) else self.fresh()

    def fresh(self) -> str:
        """Return 16 hexadecimal digits."""
        if not self._drawn:
            drawn = self._random_bytes(_FRESH_BYTES * _DRAWN_AT_ONCE).hex()
            size = 2 * _FRESH_BYTES
            self._drawn = [drawn[at : at + size] for at in range(0, len(drawn), size)]
        return self._drawn.pop()
