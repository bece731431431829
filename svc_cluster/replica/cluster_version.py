"""The cluster's active version as a node goes by it, and what its peers speak.

A node goes by a version once its catalog has applied it **and** its data directory names it: from
then on no program that does not speak it starts on that directory. Behind is lower, and safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from svc_cluster.base.ids import NodeId
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError
from svc_cluster.link.session import NodeSession
from svc_cluster.model import versions
from svc_cluster.model.versions import FIRST, SPOKEN, Spoken

Keep = Callable[[int, Callable[[], None]], None]
"""Makes a version durable, and says when it is."""


def _nothing() -> None:
    pass


class ClusterVersion:
    """The one of a node. Whoever writes asks `active`."""

    def __init__(
        self,
        spoken: Spoken = SPOKEN,
        active: int = FIRST,
        keep: Keep = lambda _, done: done(),
        own: NodeId | None = None,
        incarnation: str = "",
    ) -> None:
        """`active`: as the data directory says. `own` and `incarnation` are the node's."""
        self.spoken = spoken
        self.active = active
        self.sessions: Mapping[NodeId, NodeSession] = {}
        """Conversations with the other nodes, where there are any."""
        self.gateways: Counter[tuple[str, int]] = Counter()
        """Open conversations of gateways with this node: which process, what it speaks at most."""
        self._keep = keep
        self._own = own, incarnation
        self._applied = active
        self._is_keeping = False
        self.on_active: Callable[[], None] = _nothing
        """Told whenever the node goes by a newer version than before."""

    @property
    def seen(self) -> int:
        """What the applied catalog has, durable here or not: others may go by it already."""
        return max(self.active, self._applied)

    def applied(self, version: int) -> None:
        """The applied catalog has this version."""
        self._applied = max(self._applied, version)
        if self._applied > self.active and not self._is_keeping:
            self._is_keeping = True
            kept = self._applied
            self._keep(kept, lambda: self._kept(kept))

    def _kept(self, version: int) -> None:
        self._is_keeping = False
        self.active = version
        self.on_active()
        self.applied(version)

    def check(self, speaker: Speaker) -> None:
        """Raises HandshakeError for a process that cannot take part under the active version."""
        refusal = versions.refusal(speaker.versions, self.spoken, self.seen)
        if refusal is not None:
            identity = speaker.identity
            who = f"node {identity.node_id}" if identity.role == "node" else f"the {identity.role}"
            raise HandshakeError(f"{who} is {refusal}")

    def gateway_talks(self, process: str, newest: int, *, begins: bool) -> None:
        """A gateway's conversation with this node begins, or ends."""
        self.gateways[process, newest] += 1 if begins else -1
        self.gateways += Counter()  # keeps what is above 0

    def spoken_by(self, node: NodeId, incarnation: str) -> Spoken | None:
        """What the program on this data directory of a node speaks, as it has said; None: it is not
        connected now."""
        if (node, incarnation) == self._own:
            return self.spoken
        session = self.sessions.get(node)
        if session is None or not session.is_up or session.peer is None:
            return None
        return session.peer.versions if session.peer.identity.incarnation == incarnation else None
