"""What the command and its client processes say to each other: an order, then a report."""

from __future__ import annotations

import msgspec

from svc_cluster.lab.load.figures import Tally
from svc_cluster.lab.load.requests import LoadAccess
from svc_cluster.lab.load.scenarios import Part


class Share(msgspec.Struct, frozen=True):
    """What one process does of one part. `streams`: by number, of which connection `number` takes
    one; `connections`: which of the part's are this process's; `tails`: records in each stream."""

    part: Part
    basin: str
    streams: list[str]
    tails: list[int]
    connections: list[int]

    def stream_of(self, connection: int) -> list[int]:
        """The streams that one connection uses in turns: one, or its share of more streams than
        there are connections."""
        if self.part.connections >= len(self.streams):
            return [connection % len(self.streams)]
        return list(range(connection, len(self.streams), self.part.connections))


class Order(msgspec.Struct, frozen=True):
    """The whole of one process's work. `caller`: who makes unary appends, by name."""

    access: LoadAccess
    shares: list[Share]
    warm_up_s: float
    seconds: float
    seed: int
    caller: str = "http"


class Begin(msgspec.Struct, frozen=True):
    """When the span begins, on the machine's monotonic clock, which its processes share."""

    at: float


class LoadReport(msgspec.Struct):
    """What one process has measured: a tally for each share, its own processor seconds."""

    tallies: list[Tally]
    cpu_s: float
