"""What all HTTP/1.1 connections of one listening socket have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from svc_cluster.base.errors import ServiceError
from svc_cluster.http.connection import App, HttpDate, TimeLimits
from svc_cluster.http.intake import Intakes
from svc_cluster.http.message import Response
from svc_cluster.http.sniff import HeaderDeadline


@dataclass(slots=True, eq=False)
class Http1Common:
    """This is what every connection is served with, and how many of them there are."""

    app: App
    loop: asyncio.AbstractEventLoop
    date: HttpDate
    limits: TimeLimits
    intakes: Intakes
    connections: int = 0
    leaving: bool = False
    """Every connection ends with the next answer on it."""
    plain: Callable[[HeaderDeadline], asyncio.Protocol] | None = None
    """Makes what serves plain requests alone; None: the library serves them too."""

    def refuse(self, error: ServiceError) -> Response:
        """The answer to what never became a request. It ends the connection."""
        response = self.app.refuse(error)
        response.close = True
        return response
