"""What a replica has to say to the others, until it is handed out with the next `Ready`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from svc_cluster.base.ids import NodeId, Term
from svc_cluster.raft.gate import Gate
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import PeerMessage

Addressed = tuple[NodeId, PeerMessage]


class GroupOutbox:
    """Messages that may leave, in order, and behind the gate those that wait for the disk."""

    def __init__(self, log: LogView) -> None:
        self._log = log
        self._gate = Gate()
        self._messages: list[Addressed] = []
        self._replies: list[Addressed] = []

    def __bool__(self) -> bool:
        """Whether anything may leave."""
        return bool(self._messages or self._replies)

    def submit(self, to: NodeId, message: PeerMessage) -> None:
        """Send once the hard state of this moment is durable."""
        if not self._log.hard_state_durable:
            self._gate.hold(self._log.hard_ordinal, to, message)
        else:
            self._messages.append((to, message))

    def reply(self, to: NodeId, message: PeerMessage) -> None:
        """Send to who may be no member; what is said is durable."""
        self._replies.append((to, message))

    def add(self, messages: Iterable[Addressed]) -> None:
        """These wait for nothing."""
        self._messages.extend(messages)

    def release(self, term: Term) -> None:
        """Let what is durable out; what was held of another term is dropped."""
        if self._gate.holds:
            self._messages.extend(self._gate.release(self._log.durable_ordinal, term))

    def take(self, up: Collection[NodeId]) -> list[Addressed]:
        """Everything for peers that are up, and replies; what is for others is dropped."""
        messages = [(to, body) for to, body in self._messages if to in up]
        if self._replies:
            messages += self._replies
            self._replies.clear()
        self._messages.clear()
        return messages

    def clear(self) -> None:
        """Drop what may leave."""
        self._messages.clear()
        self._replies.clear()
