"""The node's side of a `NodeSession`, without a node: what was asked, and answers to it."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.link.calls import Verb, decode, encode
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.session import NodeSession

SPEAKER = Speaker(Identity("c1", "node", NodeId(2), "i1"))


class FarNode:
    """What a session takes for a connection to a node. Whoever derives from it says what becomes
    of a request, with `asked`."""

    def __init__(self, session: NodeSession, *, is_up: bool = True) -> None:
        self.session = session
        self.is_up = is_up
        self.full = False
        """Whether the node has dealt with too little to be asked more."""
        self.sent: list[tuple[FrameKind, int, Verb, int, bytes]] = []
        """Class, flow, verb, number and body of every message."""
        self.dealt: list[tuple[FrameKind, int]] = []
        self.knocks = 0
        session.attach(self)
        if is_up:
            session.link_up(SPEAKER)

    @property
    def held_bytes(self) -> int:
        return 0

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        if self.full:
            raise NoCreditError
        message = decode(payload)
        self.sent.append((kind, flow, *message))
        if message.verb is Verb.REQUEST:
            self.asked(message.number, pb.Request.FromString(message.body))

    def knock(self) -> None:
        self.knocks += 1

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return not self.full

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.dealt.append((kind, size))

    def asked(self, number: int, request: pb.Request) -> None:
        """Nothing is answered unless the test does it."""

    def answer(self, number: int, response: pb.Response) -> None:
        """What the node answers arrives now."""
        response.id = number
        self.session.message(
            FrameKind.CALL, encode(Verb.ANSWER, number, response.SerializeToString())
        )

    def reset(self) -> None:
        """The connection ends and another takes its place."""
        self.session.link_down()
        self.session.link_up(SPEAKER)

    @property
    def cancelled(self) -> list[int]:
        """The numbers of requests that nobody waits for any more."""
        return [number for _, _, verb, number, _ in self.sent if verb is Verb.CANCEL]

    async def close(self) -> None: ...
