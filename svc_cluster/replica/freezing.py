"""A basin is frozen and thawed: its group's log says so, between its appends."""

from __future__ import annotations

from collections.abc import Callable

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.codec.log_entry import check_written
from svc_cluster.model.freeze_reason import why_no_reason
from svc_cluster.replica.append import COMMAND_BYTES
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.basin_operations import Change
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.repeatable import Fill, Operation, say_done
from svc_cluster.stream import provision_rules
from svc_cluster.stream.commands import FreezeBasin
from svc_cluster.stream.effects import View


class Freezing:
    """The operation `freeze_basin`; the arguments are those of `BasinOperations`."""

    def __init__(
        self, find: Callable[[pb.Request], BasinReplica], change: Change, version: ClusterVersion
    ) -> None:
        self._find = find
        self._change = change
        self._version = version
        self.operations: dict[str, Operation] = {"freeze_basin": self._freeze}

    async def _freeze(self, request: pb.Request) -> Fill:
        """May be asked for again. Every append that is answered behind it was decided behind it,
        so it is refused; those before it keep their outcomes. Raises NotActiveYetError, and
        InvalidError for a reason that cannot be told."""
        reason = request.freeze_basin.reason
        if (why := why_no_reason(reason)) is not None:
            raise InvalidError(why)
        basin = self._find(request)

        def decision(view: View) -> FreezeBasin | None:
            command = provision_rules.freeze_basin(view, reason)
            if command is not None:
                check_written(command, self._version.active)
            return command

        def sequence(_: TimestampMs) -> FreezeBasin | None:
            return basin.sequencer.decide(decision)

        await self._change(request, basin, sequence, COMMAND_BYTES)
        return say_done
