"""`member add --wait`: a service asks for a join token until a node of the cluster answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.cli.admin.admin_client import AdminError
from svc_cluster.model.join_token import MEMBER_ALREADY, JoinToken, hash_of

PAUSE_SECONDS: Final = 1.0
"""Between two attempts at a cluster that does not answer yet."""

UNHEARD_SECONDS: Final = 30.0
"""How long a token that is there waits for a cluster that does not answer at all. A node that
belongs to it is not to stay away because another one is down."""

_MEMBERS: Final = ("active", "draining")
"""Their states by the catalog; one that was removed is refused."""


class MemberAdministration(Protocol):
    """What is asked of a node. Both raise AdminError."""

    async def members(self) -> pb.MembersResponse: ...

    async def add_member(self, request: pb.AddMemberRequest) -> pb.AddMemberResponse: ...


@dataclass(frozen=True, slots=True)
class WantedToken:
    """A join token for a node. `make` gives the one to open, the same again and again; `kept` is
    one that is there already, and enough while it is open."""

    node_id: int
    ttl_seconds: int
    make: Callable[[], JoinToken]
    kept: JoinToken | None = None

    def request(self, token: JoinToken) -> pb.AddMemberRequest:
        return pb.AddMemberRequest(
            node_id=self.node_id, ttl_seconds=self.ttl_seconds, secret_hash=hash_of(token.secret)
        )


@dataclass(frozen=True, slots=True)
class FoundToken:
    """What came of it. `token` is open; None: the node belongs to the cluster, and needs none.
    `expires_at_ms`: None where nobody has said that it is open."""

    token: JoinToken | None
    expires_at_ms: int | None = None


class MemberWaiting:
    """Asks until there is an answer, or `wait` seconds are over."""

    def __init__(
        self,
        client: MemberAdministration,
        wanted: WantedToken,
        wait: float,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._clock = clock
        self._pause = pause
        self._end = clock.monotonic() + wait
        self._unheard_end = clock.monotonic() + min(wait, UNHEARD_SECONDS)
        self._has_heard = False
        self._is_unsure = False
        """An answer was lost, and what it was about may be decided yet."""

    async def run(self) -> FoundToken:
        """Raises AdminError for what is final, and for the last attempt."""
        kept = self._wanted.kept
        while True:
            try:
                return await self._attempt()
            except AdminError as cause:
                if MEMBER_ALREADY in str(cause):
                    return FoundToken(None)
                if cause.is_final and not self._is_unsure:
                    raise
                self._is_unsure = not cause.is_final
                now = self._clock.monotonic()
                if kept is not None and not self._has_heard and now >= self._unheard_end:
                    return FoundToken(kept)
                if now >= self._end:
                    raise
            await self._pause(PAUSE_SECONDS)

    async def _attempt(self) -> FoundToken:
        """One round. A new token is refused while one is open: then it may be the kept one."""
        wanted, kept = self._wanted, self._wanted.kept
        known = (await self._client.members()).members
        self._has_heard = True
        if any(row.node_id == wanted.node_id and row.state in _MEMBERS for row in known):
            return FoundToken(None)
        token = wanted.make()
        try:
            answer = await self._client.add_member(wanted.request(token))
        except AdminError as cause:
            if kept is None or not cause.is_final:
                raise
        else:
            return FoundToken(token, answer.expires_at_ms)
        answer = await self._client.add_member(wanted.request(kept))
        return FoundToken(kept, answer.expires_at_ms)
