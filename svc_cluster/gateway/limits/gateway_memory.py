"""What a gateway keeps in memory on behalf of its clients, in parts under one bound.

Each part has a share of its own, so that none can be kept waiting by what fills another: a body
that has half arrived waits for bodies alone, never for a follower. The shares together are the
bound. Request bodies and answers of reads have rules of their own beside (`body_budget`,
`answer_room`); the shared tails forget what is oldest; what is bounded elsewhere, as by the credit
of links, is only told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svc_cluster.base.memory import MIB, MemoryPart
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.limits.answer_budget import AnswerBudget
from svc_cluster.gateway.limits.body_budget import BODY_BYTES_IN_FLIGHT_MAX, BodyBudget
from svc_cluster.http.intake import UNREAD_SHARE

GATEWAY_BYTES_MAX: Final = 352 * MIB
"""The default bound. With what the process needs itself it stays below 500 MiB."""

WAIT_SECONDS_MAX: Final = 5.0
"""So long a request waits for room to go on to a node."""


def rest_of(bytes_max: int, body_bytes_max: int) -> int:
    """Return what request bodies, and what is unread of them, leave of the bound for all else."""
    return bytes_max - body_bytes_max - body_bytes_max // UNREAD_SHARE


class GatewayMemory:
    """This is the memory of one gateway."""

    def __init__(
        self,
        metrics: Metrics,
        bytes_max: int = GATEWAY_BYTES_MAX,
        body_bytes_max: int = BODY_BYTES_IN_FLIGHT_MAX,
    ) -> None:
        """`body_bytes_max`: of the bound, for request bodies."""
        rest = rest_of(bytes_max, body_bytes_max)
        assert rest > 0, "the settings leave something beside bodies"
        self.bytes_max = bytes_max
        self._metrics = metrics
        self.bodies = BodyBudget(
            body_bytes_max, metrics.http_body_bytes_in_flight, metrics.http_bodies_waiting
        )
        """Bodies as sent and decompressed, and what sessions hold of partial and unacknowledged
        frames."""

        self.requests = MemoryPart(rest // 5)
        """Appends on their way to nodes, from the decoding of their bodies to their answers."""

        self.answers = AnswerBudget(2 * (rest // 5))
        """The answers of unary reads, until clients have taken them."""

        self.followers = MemoryPart(rest // 5)
        """Events and frames of streaming reads that have not left."""

        self.tails_bytes_max = rest // 5
        """The bound for the streams that are followed; shared by their followers."""

        self._held: dict[str, Callable[[], int]] = {
            "bodies": lambda: self.bodies.held,
            "requests": lambda: self.requests.held,
            "answers": lambda: self.answers.held_bytes,
            "followers": lambda: self.followers.held,
        }
        self._refused: dict[str, Callable[[], int]] = {
            "bodies": lambda: self.bodies.refused,
            "requests": lambda: self.requests.refused,
            "answers": lambda: self.answers.refused,
            "followers": lambda: self.followers.refused,
        }
        self._shown = dict.fromkeys(self._refused, 0)

    def add(self, name: str, held: Callable[[], int]) -> None:
        """A part that has its own bound is told beside the others; `held`: its bytes now."""
        self._held[name] = held

    def held(self) -> dict[str, int]:
        """Bytes by part, as of now."""
        return {name: held() for name, held in self._held.items()}

    def show(self) -> None:
        """Bring the metrics up to now."""
        metrics = self._metrics
        metrics.memory_max.set(self.bytes_max)
        for name, held in self.held().items():
            metrics.memory_held.labels(part=name).set(held)
        for name, refused in self._refused.items():
            count = refused()
            metrics.memory_refused.labels(part=name).inc(count - self._shown[name])
            self._shown[name] = count
