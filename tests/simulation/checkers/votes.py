"""A node votes once in a term of a group, whatever became of its disk in between."""

from __future__ import annotations

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.raft.messages import PeerMessage, VoteGranted, VoteRequest


class VoteChecker:
    """Fed with every message that leaves a node. One for a whole cluster."""

    def __init__(self) -> None:
        self._votes: dict[tuple[GroupId, int, NodeId], NodeId] = {}
        self.broken: list[str] = []
        """One line for each vote beyond the first: nothing may be raised inside the node."""

    def sent(self, sender: NodeId, to: NodeId, group: GroupId, message: PeerMessage) -> None:
        """A vote is durable before it leaves; who asks for votes has given its own to itself."""
        if isinstance(message, VoteGranted):
            choice = to
        elif isinstance(message, VoteRequest):
            choice = sender
        else:
            return
        first = self._votes.setdefault((group, message.sender_term, sender), choice)
        if first != choice:
            self.broken.append(
                f"one-vote-a-term: group {group} node {sender} votes for {first} and for {choice} "
                f"in term {message.sender_term}"
            )
