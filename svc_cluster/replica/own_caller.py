"""The node as a caller of its own service."""

from __future__ import annotations

import asyncio

from svc_cluster.link.calls import decode
from svc_cluster.link.frame import FrameKind


class OwnCaller:
    """The node as a caller of its own service, for one request."""

    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        self.answer = answer

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Take the answer; a second one is dropped."""
        if not self.answer.done():
            self.answer.set_result(decode(payload).body)

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        """There is no conversation."""

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        """The request is not held on behalf of anybody else."""
