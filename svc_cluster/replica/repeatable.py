"""Answers of requests that a client may repeat: kept as bytes in the log, given as they were.

The first answer is made of the same bytes as every later one, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ServiceError
from svc_cluster.codec import rpc

Fill = Callable[[pb.Response], None]
"""Puts an answer into the response of whoever asks."""

Operation = Callable[[pb.Request], Awaitable[Fill]]
"""What a node does for a request."""

ANSWER_BYTES: Final = 192
"""About what an idempotency key adds to an entry: its key, its time and a small answer."""


def say_done(response: pb.Response) -> None:
    """The answer to what has nothing else to tell."""
    response.done.SetInParent()


def answer_bytes(fill: Fill) -> bytes:
    response = pb.Response()
    fill(response)
    assert not response.id, "an answer is nobody's yet"
    return response.SerializeToString(deterministic=True)


def refusal_bytes(refusal: ServiceError) -> bytes:
    return answer_bytes(lambda response: rpc.refusal_to_pb(response.refusal, refusal))


def filler(answer: bytes, *, is_repeated: bool) -> Fill:
    """Gives the answer to whoever asks now."""

    def fill(response: pb.Response) -> None:
        response.MergeFromString(answer)
        response.is_repeated = is_repeated

    return fill
