"""Where the basins live: asked of the catalog, remembered, and asked again when it proves wrong."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    BasinNotFoundError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.gateway.cluster.leaders import Fill, Group, Leaders

DIRECTORY_BASINS_MAX: Final = 10_000


class Directory:
    """Asks the catalog's or a basin's leader, whichever node that is. `deadline` is monotonic
    seconds everywhere."""

    def __init__(self, leaders: Leaders, nodes: tuple[NodeId, ...]) -> None:
        self._leaders = leaders
        self._catalog = Group(CATALOG_GROUP, nodes)
        self._groups: dict[str, Group] = {}

    async def ask_catalog(
        self, fill: Fill, *, write: bool, deadline: float, key: bytes = b""
    ) -> pb.Response:
        """Does what `Leaders.call_idempotent` does where there is a key, else what `Leaders.call`
        does."""
        if key:
            return await self._leaders.call_idempotent(self._catalog, fill, key, deadline=deadline)
        return await self._leaders.call(self._catalog, fill, write=write, deadline=deadline)

    async def ask_catalog_any(self, fill: Fill, *, deadline: float) -> pb.Response:
        """See `Leaders.call_any`."""
        return await self._leaders.call_any(self._catalog, fill, deadline=deadline)

    async def ask_basin(
        self,
        basin: str,
        fill: Fill,
        *,
        write: bool,
        deadline: float,
        key: bytes = b"",
        size: int = 0,
    ) -> pb.Response:
        """Does what `Leaders.call_idempotent` does where there is a key, else what `Leaders.call`
        does."""
        ask = partial(self._leaders.call, fill=fill, write=write, deadline=deadline, size=size)
        if key:
            ask = partial(
                self._leaders.call_idempotent, fill=fill, key=key, deadline=deadline, size=size
            )
        group = self._groups.get(basin)
        if group is None:
            group = await self.resolve(basin, deadline)
        try:
            return await ask(group)
        except BasinDeletionPendingError:
            # perhaps this was the basin's predecessor of the same name
            fresh = await self.resolve(basin, deadline)
            if fresh.group_id == group.group_id:
                raise
            return await ask(fresh)
        except UnavailableError:
            self._groups.pop(basin, None)
            # a basin that is gone answers so for ever; the catalog knows
            try:
                await self.resolve(basin, deadline + 0.2)
            except UnavailableError:
                self._leaders.note_retry("catalog_unavailable")
            raise

    async def ask_replica(self, basin: str, fill: Fill) -> pb.Response | None:
        """See `Leaders.ask_in_turn`. None also where nothing is known of the basin."""
        group = self._groups.get(basin)
        return None if group is None else await self._leaders.ask_in_turn(group, fill)

    async def ask_every_node(self, fill: Fill, seconds: float) -> list[pb.Response | None]:
        """Ask each node once, whatever it leads: its answer, or None for one that has none in
        time, or refuses."""
        usable = [node for node in self.nodes if self._leaders.is_usable(node)]
        asked = [self._leaders.send(node, self._catalog, fill, seconds) for node in usable]
        answers: list[pb.Response | None] = [None] * (len(self.nodes) - len(usable))
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException) or answer.HasField("refusal"):
                answers.append(None)
            else:
                answers.append(answer)
        return answers

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Every node of the cluster that is known here."""
        return self._leaders.nodes

    def met(self, node: NodeId) -> None:
        """There is a session with another node from now on, which may come to lead the catalog."""
        if node not in self._catalog.replicas:
            self._catalog.replicas += (node,)
        self._leaders.met(node)

    def left(self, node: NodeId) -> None:
        """The session with this node is over."""
        self._catalog.replicas = tuple(one for one in self._catalog.replicas if one != node)
        self._leaders.left(node)

    async def ask_catalog_any_node(self, fill: Fill, seconds: float) -> pb.Response:
        """Ask the nodes of the catalog in turn what any of them may answer. Raises ServiceError
        where none answers in time."""
        for node in self._catalog.replicas:
            if not self._leaders.is_usable(node):
                continue
            try:
                answer = await self._leaders.send(node, self._catalog, fill, seconds)
            except (ConnectionError, TimeoutError):
                continue
            if answer.WhichOneof("result") != "refusal":
                return answer
        raise UnavailableError("no node answers")

    def known(self, basin: str) -> Group | None:
        """What is known of the basin's group without asking."""
        return self._groups.get(basin)

    async def resolve(self, basin: str, deadline: float) -> Group:
        self._groups.pop(basin, None)
        try:
            response = await self._ask_about(basin, deadline)
        except ReadDeadlineError as late:
            # whatever was to be done to the basin has not begun
            raise UnavailableError("the catalog gave no answer in time") from late
        return self.remember(response.basin)

    async def _ask_about(self, basin: str, deadline: float) -> pb.Response:
        def fill(request: pb.Request) -> None:
            request.resolve_basin.basin = basin

        return await self.ask_catalog(fill, write=False, deadline=deadline)

    async def _find(self, basin: str, group: Group, deadline: float) -> None:
        """See `Group.find`. A basin that is gone, or another of its name, changes nothing here: the
        requests' own way tells of it."""
        try:
            response = await self._ask_about(basin, deadline)
        except BasinNotFoundError:
            return
        except ServiceError:
            self._leaders.note_retry("catalog_unavailable")
            return
        if response.basin.group_id == group.group_id:
            group.replicas = tuple(NodeId(n) for n in response.basin.replicas)

    def remember(self, info: pb.BasinInfo) -> Group:
        replicas = tuple(NodeId(n) for n in info.replicas)
        find = partial(self._find, info.name)
        group = Group(GroupId(info.group_id), replicas, replicas[0], find=find)
        if len(self._groups) >= DIRECTORY_BASINS_MAX:
            self._groups.pop(next(iter(self._groups)))
        self._groups[info.name] = group
        return group
