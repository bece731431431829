"""The operations of a node that concern who leads what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import nsmallest
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import HotServerError, InvalidError, UnavailableError
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.placement_loads import NO_LOAD, Load
from svc_cluster.codec import rpc
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.lead_balance import LeadBalance
from svc_cluster.replica.lead_places import places, successor
from svc_cluster.replica.leader_handover import (
    ATTEMPT_SECONDS,
    NEAR_ENTRIES,
    hand_over,
    is_led,
    leads,
)
from svc_cluster.replica.node_questions import LED_PAGE
from svc_cluster.replica.repeatable import Fill, Operation, say_done

GIVEN_AT_ONCE_MAX: Final = 8
"""Leads that a node gives away at one time because others ask for it."""

LOOKED_AT_PER_TURN: Final = 256


class LeadOperations:
    """Those of one node."""

    def __init__(
        self, find: Callable[[pb.Request], CatalogReplica], host: Host, balance: LeadBalance
    ) -> None:
        self._catalog = find
        self._host = host
        self._balance = balance
        self._giving: set[GroupId] = set()
        self.operations: dict[str, Operation] = {
            "list_led": self._list,
            "give_lead": self._give,
            "balance_leads": self._even_out,
        }

    async def _list(self, request: pb.Request) -> Fill:
        asked = request.list_led
        limit = min(asked.limit or LED_PAGE, LED_PAGE)
        led: dict[GroupId, Load] = {}
        for number, replica in enumerate(self._host.replicas()):
            if number % LOOKED_AT_PER_TURN == LOOKED_AT_PER_TURN - 1:
                await asyncio.sleep(0)
            group_id = replica.group.group_id
            if is_led(replica) and group_id > asked.start_after:
                led[group_id] = _load(replica) if asked.with_loads else NO_LOAD
        page = nsmallest(limit, led)
        loads = [led[group_id] for group_id in page] if asked.with_loads else []

        def fill(response: pb.Response) -> None:
            response.led_groups.groups.extend(page)
            response.led_groups.has_more = len(led) > limit
            response.led_groups.stored_bytes.extend(load.stored_bytes for load in loads)
            response.led_groups.appends.extend(load.appends for load in loads)

        return fill

    async def _give(self, request: pb.Request) -> Fill:
        """One attempt. Refused, with a sentence, where somebody else leads, or the one that is
        named cannot or does not take over."""
        group_id, to = GroupId(request.group_id), NodeId(request.give_lead.to)
        replica = self._host.replica(group_id)
        if replica is None:
            raise rpc.GroupUnknownError
        if not leads(replica):
            raise replica.group.not_leader()
        own = self._host.services.node_id
        if to == own:
            return say_done
        if to and to not in replica.group.engine.members:
            raise InvalidError(f"node {to} has no replica of the group")
        if to and not self._host.is_peer_up(to):
            raise UnavailableError(f"node {to} is away")
        if group_id in self._giving or len(self._giving) >= GIVEN_AT_ONCE_MAX:
            raise HotServerError("other leads are being given away: try again")
        self._giving.add(group_id)
        try:
            taker = await self._taker(replica, to)
            if not leads(replica):
                raise replica.group.not_leader()
            if replica.proposer.paused:
                raise HotServerError("this lead is being given away: try again")
            await self._attempt(replica, taker)
        finally:
            self._giving.discard(group_id)
        return say_done

    async def _taker(self, replica: Replica, to: NodeId) -> NodeId:
        """The node that is named, or the best other member. Raises UnavailableError, before any
        write waits, where it could not take the lead over or would not keep it."""
        engine = replica.group.engine
        if to and to not in (await places(self._host.ask_any, [to])).taking:
            raise UnavailableError(
                f"node {to} takes no leads now: it drains, its disk is or was full or slow, or it "
                "has much to apply"
            )
        taker = to or await successor(self._host, engine)
        if taker is None:
            raise UnavailableError("no other member is there that stays")
        lacks = engine.last_index - engine.match_index(taker)
        if lacks > NEAR_ENTRIES:
            raise UnavailableError(f"node {taker} lacks {lacks} entries of the group's log")
        return taker

    async def _attempt(self, replica: Replica, to: NodeId) -> None:
        try:
            await hand_over(replica, self._host.services.figures, to)
        except TimeoutError:
            if leads(replica):
                raise UnavailableError(
                    f"node {to} has not taken over within {ATTEMPT_SECONDS} s: this node leads on"
                ) from None

    async def _even_out(self, request: pb.Request) -> Fill:
        """Asked of the catalog's leader, so that one decides at a time."""
        catalog = self._catalog(request)
        if not catalog.group.is_serving:
            raise catalog.group.not_leader()
        told = await self._balance.round(dry_run=request.balance_leads.dry_run)
        return lambda response: response.lead_balance.CopyFrom(told)


def _load(replica: Replica) -> Load:
    return replica.load() if isinstance(replica, BasinReplica) else NO_LOAD
