"""The caller's side of a node's administration, for `svc-cluster admin`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import msgspec
from google.protobuf.message import Message

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.administration.credentials import open_channel
from svc_cluster.administration.operations import ANSWER_BYTES_MAX, OPERATIONS, SERVICE
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.authority import ADMINISTRATOR
from svc_cluster.cli.admin.no_answer import look
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.link.tls import CertificateError, PeerTls, node_name
from svc_cluster.settings_checks import check_address
from svc_cluster.settings_errors import SettingsError

CONNECT_SECONDS: Final = 5.0
"""Beyond what the operation itself may take."""

GROUPS_MAX: Final = 1_000_000
"""More groups than a node can have: listing them ends, whatever it answers."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.enable_retries", 0),
)
_FINAL: Final = frozenset(
    {
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)
NO_ANSWER_IN_TIME: Final = (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
"""What the library says by itself; a node says which call it has ended, and after how long."""
_ANY: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


class AdminError(Exception):
    """One sentence for the person at the terminal. `is_final`: another attempt would fare alike."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Target:
    """The node to talk to. `node_id`: its certificate is that node's; None: one for the host in the
    address."""

    address: str
    node_id: int | None = None
    tls: PeerTls | None = None


def given_target(
    address: str, node_id: int | None, files: tuple[Path | None, Path | None, Path | None]
) -> Target:
    """`files`: certificate, key and CA, all or none. Raises AdminError."""
    certificate, key, authority = files
    try:
        check_address("--address", address)
    except SettingsError as cause:
        raise AdminError(str(cause)) from cause
    host, _, port = address.rpartition(":")
    tls = None
    if certificate is not None and key is not None and authority is not None:
        tls = PeerTls(certificate, key, authority)
    elif certificate is not None or key is not None or authority is not None:
        raise AdminError("--tls-cert, --tls-key and --tls-ca belong together: name all three")
    return Target(f"{_ANY.get(host, host)}:{port}", node_id, tls)


def local_target(directory: Path, node_id: int | None) -> Target:
    """A node of the `svc-cluster local` whose data is in `directory`, the first one for None.
    Raises AdminError."""
    found = {target.node_id: target for target in local_targets(directory)}
    wanted = min(each for each in found if each is not None) if node_id is None else node_id
    if wanted not in found:
        raise AdminError(f"there is no node {wanted} here: the nodes are {list(found)}")
    return found[wanted]


def local_targets(directory: Path) -> list[Target]:
    """All nodes of the `svc-cluster local` whose data is in `directory`, by their ids. Raises
    AdminError."""
    try:
        rows = read_cluster_file(directory)["nodes"]
        ports = {int(row["id"]): int(row["admin_rpc_port"]) for row in rows}
        # certificates of an earlier start with --tls may be there all the same
        speaks_tls = {int(row["id"]): bool(row["admin_rpc_tls"]) for row in rows}
    except (OSError, msgspec.DecodeError, KeyError) as cause:
        raise AdminError(
            f"{directory} is not the data directory of a `svc-cluster local` that runs: name it "
            "with --data-dir, or a node with --address"
        ) from cause
    place = directory / "certificates" / ADMINISTRATOR
    files = [place / name for name in ("tls.crt", "tls.key", "ca.crt")]
    return [
        Target(f"127.0.0.1:{port}", node, PeerTls(*files) if speaks_tls[node] else None)
        for node, port in sorted(ports.items())
    ]


class AdminClient:
    """Calls one node. Every call raises AdminError."""

    def __init__(self, stub: Any, target: Target) -> None:
        self._stub = stub
        self._target = target

    async def status(self) -> pb.StatusResponse:
        answer: pb.StatusResponse = await self._call("Status", pb.StatusRequest())
        return answer

    async def members(self) -> pb.MembersResponse:
        answer: pb.MembersResponse = await self._call("Members", pb.MembersRequest())
        return answer

    async def replace_member(self, lost: int, *, also_lost: bool) -> pb.ReplaceMemberResponse:
        """`also_lost`: also where basins are lost with the node's data directory."""
        request = pb.ReplaceMemberRequest(node_id=lost, also_lost=also_lost)
        answer: pb.ReplaceMemberResponse = await self._call("ReplaceMember", request)
        return answer

    async def leaders(self) -> pb.LeadersResponse:
        """Return the leaders of all groups, from as many answers as it takes."""
        return await self._all_groups("Leaders")

    async def _all_groups(self, name: str) -> pb.LeadersResponse:
        whole = pb.LeadersResponse()
        while len(whole.groups) < GROUPS_MAX:
            behind = whole.groups[-1].group_id if whole.groups else 0
            page = await self._call(name, pb.LeadersRequest(start_after=behind))
            whole.groups.extend(page.groups)
            if not page.has_more or not page.groups:
                return whole
        raise AdminError(f"{self._target.address} lists groups without end")

    async def drain(self) -> pb.DrainResponse:
        answer: pb.DrainResponse = await self._call("Drain", pb.DrainRequest())
        return answer

    async def configuration(self) -> pb.ConfigurationResponse:
        answer: pb.ConfigurationResponse = await self._call(
            "Configuration", pb.ConfigurationRequest()
        )
        return answer

    async def version(self) -> pb.VersionResponse:
        answer: pb.VersionResponse = await self._call("Version", pb.VersionRequest())
        return answer

    async def finalize(self, version: int) -> pb.VersionResponse:
        request = pb.FinalizeUpgradeRequest(version=version)
        answer: pb.VersionResponse = await self._call("FinalizeUpgrade", request)
        return answer

    async def cluster(self) -> pb.ClusterResponse:
        answer: pb.ClusterResponse = await self._call("Cluster", pb.ClusterRequest())
        return answer

    async def basin(self, name: str) -> pb.BasinResponse:
        answer: pb.BasinResponse = await self._call("Basin", pb.BasinRequest(basin=name))
        return answer

    async def cluster_leaders(self) -> pb.LeadersResponse:
        """Does what `leaders` does, for all groups of the cluster."""
        return await self._all_groups("ClusterLeaders")

    async def transfer_leader(self, request: pb.TransferLeaderRequest) -> pb.TransferLeaderResponse:
        answer: pb.TransferLeaderResponse = await self._call("TransferLeader", request)
        return answer

    async def balance_leaders(self, *, dry_run: bool) -> pb.BalanceLeadersResponse:
        request = pb.BalanceLeadersRequest(dry_run=dry_run)
        answer: pb.BalanceLeadersResponse = await self._call("BalanceLeaders", request)
        return answer

    async def catalog(self) -> pb.BasinResponse:
        """The replicas with a vote in the catalog."""
        answer: pb.BasinResponse = await self._call("Basin", pb.BasinRequest(catalog=True))
        return answer

    async def move_basin(self, request: pb.MoveBasinRequest) -> pb.MoveBasinResponse:
        answer: pb.MoveBasinResponse = await self._call("MoveBasin", request)
        return answer

    async def freeze_basin(self, request: pb.FreezeBasinRequest) -> pb.FreezeBasinResponse:
        answer: pb.FreezeBasinResponse = await self._call("FreezeBasin", request)
        return answer

    async def drain_node(self, request: pb.DrainNodeRequest) -> pb.DrainNodeResponse:
        answer: pb.DrainNodeResponse = await self._call("DrainNode", request)
        return answer

    async def add_member(self, request: pb.AddMemberRequest) -> pb.AddMemberResponse:
        answer: pb.AddMemberResponse = await self._call("AddMember", request)
        return answer

    async def remove_member(self, request: pb.RemoveMemberRequest) -> pb.RemoveMemberResponse:
        answer: pb.RemoveMemberResponse = await self._call("RemoveMember", request)
        return answer

    async def plan_placement(self, request: pb.PlanPlacementRequest) -> pb.PlanPlacementResponse:
        answer: pb.PlanPlacementResponse = await self._call("PlanPlacement", request)
        return answer

    async def export(self, request: pb.ExportRequest) -> AsyncGenerator[pb.ExportPortion, None]:
        """What the node hands out of a group. It may end early, with AdminError, behind any of the
        portions."""
        seconds = OPERATIONS[f"/{SERVICE}/Export"].seconds_max + CONNECT_SECONDS
        try:
            async for portion in self._stub.Export(request, timeout=seconds):
                yield portion
        except grpc.aio.AioRpcError as cause:
            raise AdminError(
                _sentence(self._target, cause), is_final=cause.code() in _FINAL
            ) from cause

    async def backup_taken(self, finished_at_ms: int) -> None:
        await self._call("BackupTaken", pb.BackupTakenRequest(finished_at_ms=finished_at_ms))

    async def _call(self, name: str, request: Message) -> Any:
        seconds = OPERATIONS[f"/{SERVICE}/{name}"].seconds_max + CONNECT_SECONDS
        try:
            return await getattr(self._stub, name)(request, timeout=seconds)
        except grpc.aio.AioRpcError as cause:
            raise AdminError(
                _sentence(self._target, cause), is_final=cause.code() in _FINAL
            ) from cause


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[AdminClient]:
    """Raises AdminError."""
    name = None if target.node_id is None else node_name(NodeId(target.node_id))
    try:
        channel = open_channel(target.address, _OPTIONS, target.tls, name)
    except CertificateError as cause:
        raise AdminError(str(cause)) from cause
    make: Any = admin_pb2_grpc.AdministrationStub
    async with channel:
        yield AdminClient(make(channel), target)


def _sentence(target: Target, cause: grpc.aio.AioRpcError) -> str:
    code, details = cause.code(), " ".join(str(cause.details()).split())
    if code is grpc.StatusCode.UNAVAILABLE or (code, details) == NO_ANSWER_IN_TIME:
        found = look(details, by_tls=target.tls is not None, by_id=target.node_id is not None)
        return f"{target.address} {found.what} ({details}): {found.advice}"
    return f"{target.address}: {code.name.lower()}: {details}"


def plain(message: Message) -> dict[str, Any]:
    """Every field by its name in the protocol, numbers as numbers."""
    out: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is None:
            out[field.name] = list(value) if field.is_repeated else value
        elif field.is_repeated:
            out[field.name] = [plain(each) for each in value]
        else:
            out[field.name] = plain(value)
    return out


def configuration(message: pb.ConfigurationResponse) -> Mapping[str, Any]:
    """Key to value."""
    return {each.key: msgspec.json.decode(each.value) for each in message.settings}
