"""What gateways and nodes ask of the catalog's leader about basins, nodes and locations: decode,
decide, encode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog import node_facts
from svc_cluster.catalog.basin_record import BasinRecord, made_by
from svc_cluster.catalog.catalog_commands import (
    CatalogCommand,
    CatalogWrite,
    CreateBasin,
    RegisterNode,
    RemoveBasin,
)
from svc_cluster.catalog.node_facts import NO_FACTS
from svc_cluster.codec import config_pb
from svc_cluster.codec.node_facts_pb import get_facts
from svc_cluster.codec.replication_json import checked_factor
from svc_cluster.model.access_token import NO_PARENT
from svc_cluster.model.location import Location
from svc_cluster.model.provision import Provision
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.node_loads import NodeLoads
from svc_cluster.replica.node_questions import GatewaysElsewhere
from svc_cluster.replica.page_limit import check_page
from svc_cluster.replica.repeatable import Fill, Operation, say_done
from svc_cluster.replica.token_operations import asked_by_of, caller_of
from svc_cluster.replica.version_operations import AskingNow, VersionOperations


class _ElsewhereError(ServiceError):
    """The basin is there, so what becomes of the request is decided in its group, and kept there.
    Never leaves this module."""


class CatalogOperations:
    """The operations of a node that concern the catalog, but for access tokens and usage. `find`
    raises for a node that has no catalog; `deadline` is monotonic seconds."""

    def __init__(
        self,
        find: Callable[[pb.Request], CatalogReplica],
        deadline: Callable[[pb.Request], float],
        elsewhere: Callable[[], Awaitable[GatewaysElsewhere]],
        asking: AskingNow,
        loads: NodeLoads,
    ) -> None:
        """`elsewhere` and `asking` are those of `VersionOperations`."""
        self._catalog = find
        self._loads = loads
        self._deadline = deadline
        self.operations: dict[str, Operation] = {
            "create_basin": self._create_basin,
            "create_placed_basin": self._create_placed_basin,
            "list_basins": self._list_basins,
            "resolve_basin": self._resolve_basin,
            "delete_basin": self._delete_basin,
            "register_node": self._register_node,
            "remove_basin": self._remove_basin,
            "list_locations": self._list_locations,
            "set_default_location": self._set_default_location,
            **VersionOperations(find, deadline, elsewhere, asking).operations,
        }

    async def _create_placed_basin(self, request: pb.Request) -> Fill:
        """The basin has as many replicas as the request says."""
        asked = request.create_placed_basin
        factor = checked_factor(asked.replication_factor)
        return await self._create(request, asked.basin, factor)

    async def _create_basin(self, request: pb.Request) -> Fill:
        return await self._create(request, request.create_basin, None)

    async def _create(
        self, request: pb.Request, message: pb.CreateBasinRequest, factor: int | None
    ) -> Fill:
        catalog = self._catalog(request)
        config = config_pb.get_basin(message.config)
        loads = await self._loads.recent(catalog)
        found: CreateBasin | BasinRecord | None = None
        asked_by = None if message.WhichOneof("asked_by") is None else asked_by_of(message)

        def owner(now_ms: TimestampMs) -> int:
            tokens = catalog.state.tokens
            caller = None if asked_by is None else caller_of(tokens, asked_by, now_ms)
            return NO_PARENT if caller is None else tokens.chain_of(caller.serial)

        def sequence(now_ms: TimestampMs) -> CatalogWrite | None:
            nonlocal found
            found = catalog.sequence_create(
                message.basin,
                config,
                now_ms,
                creation_hash=message.creation_hash,
                or_existing=message.or_existing,
                location=message.location if message.HasField("location") else None,
                owner=owner(now_ms),
                replication_factor=factor,
                loads=loads,
            )
            if isinstance(found, CreateBasin):
                return found
            if message.or_existing and request.request_key:
                raise _ElsewhereError
            return None

        def tell(command: CatalogCommand | None) -> Fill:
            assert found is not None, "what succeeds has been sequenced"
            is_new = isinstance(found, CreateBasin)
            record = made_by(found) if isinstance(found, CreateBasin) else found
            location = catalog.location_of(record)

            def fill(response: pb.Response) -> None:
                response.provision = Provision.CREATED if is_new else Provision.NOOP
                _basin_to_pb(response.basin, record, location)

            return fill

        try:
            return await catalog.write(request.request_key, sequence, tell, self._deadline(request))
        except _ElsewhereError:
            return tell(None)

    async def _list_basins(self, request: pb.Request) -> Fill:
        message = request.list_basins
        limit = check_page(message.limit)
        catalog = self._catalog(request)
        await catalog.linearize()
        basins, has_more = catalog.state.list_basins(message.prefix, message.start_after, limit)

        def fill(response: pb.Response) -> None:
            response.basins.has_more = has_more
            for record in basins:
                location = catalog.location_of(record)
                _basin_to_pb(response.basins.basins.add(), record, location)

        return fill

    async def _resolve_basin(self, request: pb.Request) -> Fill:
        record = await self._catalog(request).resolve(request.resolve_basin.basin)
        return partial(_fill_basin, record)

    async def _delete_basin(self, request: pb.Request) -> Fill:
        catalog = self._catalog(request)
        record: BasinRecord | None = None

        def sequence(now_ms: TimestampMs) -> CatalogWrite | None:
            nonlocal record
            command, record = catalog.sequence_delete(request.delete_basin.basin, now_ms)
            return command

        def tell(command: CatalogCommand | None) -> Fill:
            assert record is not None, "what succeeds has been sequenced"
            return partial(_fill_basin, record)

        return await catalog.write(request.request_key, sequence, tell, self._deadline(request))

    async def _register_node(self, request: pb.Request) -> Fill:
        message = request.register_node
        command = RegisterNode(
            NodeId(message.node_id),
            message.incarnation,
            message.address,
            get_facts(message.facts),
        )
        catalog = self._catalog(request)

        def sequence(_: TimestampMs) -> CatalogCommand | None:
            # a node says its facts always; they are written once every release reads them
            is_written = catalog.version.seen >= node_facts.SINCE
            said = command if is_written else replace(command, facts=NO_FACTS)
            return catalog.sequence_register(said)

        await catalog.change(sequence, self._deadline(request))
        return say_done

    async def _remove_basin(self, request: pb.Request) -> Fill:
        command = RemoveBasin(GroupId(request.remove_basin.group_id))
        catalog = self._catalog(request)
        await catalog.change(
            lambda now_ms: catalog.sequence_remove(command), self._deadline(request)
        )
        return say_done

    # -- locations

    async def _list_locations(self, request: pb.Request) -> Fill:
        catalog = self._catalog(request)
        await catalog.linearize()
        return _location_filler(catalog, catalog.default_location)

    async def _set_default_location(self, request: pb.Request) -> Fill:
        catalog = self._catalog(request)
        name = request.set_default_location.name
        return await catalog.write(
            request.request_key,
            lambda now_ms: catalog.sequence_default_location(name),
            lambda command: _location_filler(catalog, catalog.find_location(name)),
            self._deadline(request),
        )


def _location_filler(catalog: CatalogReplica, default: Location) -> Fill:
    """What there is to choose from, and what is chosen now."""

    def fill(response: pb.Response) -> None:
        out = response.locations
        for location in catalog.offered:
            out.locations.add(name=location.name, is_private=location.is_private)
        out.default_location.name = default.name
        out.default_location.is_private = default.is_private

    return fill


def _fill_basin(record: BasinRecord, response: pb.Response) -> None:
    _basin_to_pb(response.basin, record)


def _basin_to_pb(out: pb.BasinInfo, record: BasinRecord, location: str = "") -> None:
    out.name = record.name
    out.created_at_ms = record.created_at_ms
    if record.deleted_at_ms is not None:
        out.deleted_at_ms = record.deleted_at_ms
    out.group_id = record.group_id
    out.replicas.extend(record.replicas)
    out.location = location
