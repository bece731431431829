"""What the head of a request says before anybody is asked: where it goes, and in which dialect.

It is read once for all requests of a connection that begin with the very same bytes. Nothing is
kept here that anything but those bytes decides. What they ask of who may do a thing is kept beside
the grant that answered it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from svc_cluster.gateway.request.dialect import detect
from svc_cluster.gateway.request.host_names import basin_of_host
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.request.router import Match, Router, route, split_path
from svc_cluster.http.message import Request
from svc_cluster.model.access import Grant


class HeadReading:
    """This is what one head says. It holds on to no request, and to no body."""

    __slots__ = ("_granted", "_routed", "dialect", "host_basin", "resource", "segments")

    def __init__(
        self, request: Request, router: Router, host_suffixes: Sequence[str] | None
    ) -> None:
        self.segments = split_path(request.raw_path)
        self.resource = resource = router.find(self.segments)
        """None where there is nothing at the path."""
        self.host_basin = basin_of_host(request.header("host"), host_suffixes)
        self.dialect = detect(
            request.headers,
            seed_path=resource is not None and resource.seed_path,
            host_basin=self.host_basin is not None,
        )
        self._routed: tuple[Match, RequestHead] | None = None
        self._granted: tuple[Grant, Match] | None = None

    def routed(self, request: Request) -> tuple[Match, RequestHead]:
        """The endpoint and names that are meant, and what else the head says. Raises what `route`
        raises, each time anew."""
        routed = self._routed
        if routed is None:
            match = route(self.resource, self.segments, request.method, self.host_basin)
            head = RequestHead(request.head_alone(), match.basin)
            self._routed = routed = (match, head)
        return routed

    def granted(
        self, grant: Grant, authorize: Callable[[Grant, Match, RequestHead], Match]
    ) -> Match:
        """The match that `authorize` makes of what is meant, once `routed` has said that. Grants
        never change, and the same one allows the same; raises what `authorize` raises, each time
        anew."""
        granted = self._granted
        if granted is None or granted[0] is not grant:
            assert self._routed is not None, "it is known what is meant"
            self._granted = granted = (grant, authorize(grant, *self._routed))
        return granted[1]


def read_head(request: Request, router: Router, host_suffixes: Sequence[str] | None) -> HeadReading:
    """The reading of this request's head, which may be that of an earlier one. None is kept of a
    path at which there is nothing: anybody sends those, with as many slashes as they like."""
    note = request.head_note
    if note is not None and isinstance(note.reading, HeadReading):
        return note.reading
    reading = HeadReading(request, router, host_suffixes)
    if note is not None and reading.resource is not None:
        note.reading = reading
    return reading
