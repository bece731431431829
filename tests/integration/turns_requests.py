"""Every kind of request of a gateway or a node, at its limits: the table is compared with the
proto, so that a new kind needs a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.catalog.leases import GATEWAYS_MAX
from svc_cluster.codec import usage_pb
from svc_cluster.codec.access_pb import put_token
from svc_cluster.model import versions
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_token import AccessToken
from svc_cluster.model.join_token import TTL_SECONDS
from svc_cluster.model.usage import (
    ACCOUNT_OPS,
    BASIN_OPS,
    DAY_MINUTES,
    MINUTE_MS,
    MINUTE_SECONDS,
    REPORT_MINUTES_MAX,
)
from svc_cluster.replica.page_limit import PAGE_MAX
from svc_cluster.replica.usage_operations import ANSWER_STEPS_MAX
from tests.integration.turns import Full
from tests.integration.turns_content import (
    BATCHES,
    DOOMED,
    MANY,
    MINUTES,
    REPORTERS,
    Content,
    basin_name,
    doomed_name,
    report,
    stream_name,
    token_id,
)

MIB: Final = 1024 * 1024
Case = Callable[[Content, int], list[pb.Request]]
"""The requests at the limits of one kind: each is measured by itself. The number counts attempts,
so that what can be done once is done to another thing in each."""


def _basin(c: Content, **operation: Any) -> pb.Request:
    return pb.Request(group_id=c.group_id, **operation)


def _catalog(**operation: Any) -> pb.Request:
    return pb.Request(group_id=CATALOG_GROUP, **operation)


def _keyed(request: pb.Request, kind: int, attempt: int) -> pb.Request:
    request.request_key = bytes([kind, attempt]) * 16
    return request


def _append(c: Content, attempt: int) -> list[pb.Request]:
    """The largest record bytes; as many command records as a batch has; the trim of all batches."""
    fences = [pb.CommandRecord(offset=n, kind=1, token="f" * 36) for n in range(BATCH_RECORDS_MAX)]
    trims = [pb.CommandRecord(offset=n, kind=2, trim_point=n) for n in range(BATCH_RECORDS_MAX)]
    large = pb.AppendRequest(
        stream=stream_name(attempt),
        records=b"x" * MIB,
        record_count=BATCH_RECORDS_MAX,
        metered_bytes=MIB,
    )
    small: dict[str, Any] = {"records": b"c" * 40_000, "record_count": BATCH_RECORDS_MAX}
    return [
        _basin(c, append=large),
        _keyed(_basin(c, append=large), 1, attempt),
        _basin(
            c, append=pb.AppendRequest(stream=stream_name(10 + attempt), commands=fences, **small)
        ),
        _basin(
            c, append=pb.AppendRequest(stream=stream_name(20 + attempt), commands=trims, **small)
        ),
    ]


def trim_all(c: Content, attempt: int) -> list[pb.Request]:
    trim = pb.CommandRecord(offset=0, kind=2, trim_point=BATCHES - 100 + attempt)
    append = pb.AppendRequest(
        stream=MANY, records=b"t" * 20, record_count=1, metered_bytes=20, commands=[trim]
    )
    return [_basin(c, append=append)]


def _read(c: Content, attempt: int) -> list[pb.Request]:
    """From very many small batches, by number and by time."""
    at = (c.first_minute + BATCHES // 3) * MINUTE_MS
    return [
        _basin(c, read=pb.ReadRequest(stream=MANY)),
        _basin(c, read=pb.ReadRequest(stream=MANY, start_kind=1, start_value=at)),
        _basin(c, read=pb.ReadRequest(stream=MANY, start_kind=0, start_value=BATCHES // 2)),
    ]


def _config() -> pb.EnsureStreamRequest:
    request = pb.EnsureStreamRequest()
    request.config.storage_class = "standard"
    return request


def _create_stream(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.CreateStreamRequest(
        stream=f"new{attempt}" + "n" * 400, creation_hash=b"h" * 32, storage_class_default="express"
    )
    request.config.CopyFrom(_config().config)
    return [_basin(c, create_stream=request)]


def _ensure_stream(c: Content, attempt: int) -> list[pb.Request]:
    request = _config()
    request.stream = stream_name(100 + attempt)
    return [_basin(c, ensure_stream=request)]


def _reconfigure_stream(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.ReconfigureStreamRequest(stream=stream_name(200 + attempt))
    request.patch.set.storage_class = "standard"
    return [_basin(c, reconfigure_stream=request)]


def _auto_create(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.AutoCreateRequest(stream=stream_name(300 + attempt))
    return [_basin(c, auto_create_stream=request)]


def _ensure_basin(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.EnsureBasinRequest()
    request.config.create_stream_on_append = True
    return [_basin(c, ensure_basin_config=request)]


def _reconfigure_basin(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.ReconfigureBasinRequest()
    request.patch.create_stream_on_read = attempt % 2 == 0
    return [_basin(c, reconfigure_basin=request)]


def _create_basin(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.CreateBasinRequest(basin=f"another-basin-{attempt}", creation_hash=b"h" * 32)
    request.authentication_off.SetInParent()
    return [_catalog(create_basin=request)]


def _create_placed_basin(c: Content, attempt: int) -> list[pb.Request]:
    (request,) = _create_basin(c, attempt)
    asked = pb.CreatePlacedBasinRequest(basin=request.create_basin, replication_factor=1)
    asked.basin.basin = f"placed-basin-{attempt}"
    return [_catalog(create_placed_basin=asked)]


def _seal_basin(c: Content, attempt: int) -> list[pb.Request]:
    name = doomed_name(attempt)
    return [pb.Request(group_id=c.doomed[attempt], seal_basin=pb.BasinRequest(basin=name))]


def _delete_basin(c: Content, attempt: int) -> list[pb.Request]:
    name = doomed_name(DOOMED // 2 + attempt)
    return [_catalog(delete_basin=pb.BasinRequest(basin=name))]


def _remove_basin(c: Content, attempt: int) -> list[pb.Request]:
    return [_catalog(remove_basin=pb.RemoveBasinRequest(group_id=c.doomed[attempt]))]


def _register(c: Content, attempt: int) -> list[pb.Request]:
    return [_catalog(register_node=_newcomer(attempt))]


def _newcomer(attempt: int) -> pb.RegisterNodeRequest:
    return pb.RegisterNodeRequest(
        node_id=50 + attempt, incarnation="i" * 32, address="a" * 250 + ":1"
    )


def _lists(prefix: str = "") -> list[pb.ListRequest]:
    return [pb.ListRequest(prefix=prefix, limit=limit) for limit in (1, PAGE_MAX)]


def _renew_lease(c: Content, attempt: int) -> list[pb.Request]:
    """All tokens, from the front and from the middle; many changes; a version that is not kept."""
    version = len(c.serials) - 9_000
    asked = [
        pb.RenewLeaseRequest(gateway_id="g" * 32, read_all=True),
        pb.RenewLeaseRequest(gateway_id="g" * 32, read_all=True, after_serial=10_000),
        pb.RenewLeaseRequest(gateway_id="g" * 32, version=version),
        pb.RenewLeaseRequest(gateway_id="g" * 32, version=1),
    ]
    for each in asked:
        each.version_newest = versions.NEWEST
    return [_catalog(renew_lease=each) for each in asked]


def _issue_token(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.IssueTokenRequest(sealed_secret=b"s" * 100)
    token = AccessToken(0, f"new-{attempt}" + "i" * 80, b"h" * 32, 0, ROOT_SCOPE)
    put_token(request.token, token)
    request.authentication_off.SetInParent()
    return [_keyed(_catalog(issue_token=request), 2, attempt)]


def _revoke_token(c: Content, attempt: int) -> list[pb.Request]:
    """One of many; then the one that has issued all the others (`last_of_all`)."""
    request = pb.RevokeTokenRequest(token_id=token_id(attempt + 5))
    request.authentication_off.SetInParent()
    return [_catalog(revoke_token=request)]


def _set_root(c: Content, attempt: int) -> list[pb.Request]:
    request = pb.SetRootTokenRequest(secret_hash=b"r" * 32, change_id=bytes([attempt]) * 16)
    return [_catalog(set_root_token=request)]


def _report_usage(c: Content, attempt: int) -> list[pb.Request]:
    """By reporters that are new, where very many are known."""
    minutes = range(c.first_minute, c.first_minute + REPORT_MINUTES_MAX)
    out = []
    for group_id, ops in ((c.group_id, BASIN_OPS), (CATALOG_GROUP, ACCOUNT_OPS)):
        request = pb.Request(group_id=group_id)
        told = report(REPORTERS * 2 + attempt, 1, minutes, ops)
        usage_pb.put_report(request.report_usage, told)
        out.append(request)
    return out


def _range(c: Content, step: int = DAY_MINUTES) -> dict[str, Any]:
    """A month, or as much of it as is answered at once in steps of so many minutes."""
    start = c.first_minute * MINUTE_SECONDS
    return {"start": start, "end": start + min(MINUTES, ANSWER_STEPS_MAX * step) * MINUTE_SECONDS}


def _get_usage(c: Content, attempt: int) -> list[pb.Request]:
    """As many minutes as are answered at once, and a month by the day."""
    return [
        _basin(c, get_usage=pb.UsageRequest(step_seconds=step * MINUTE_SECONDS, **_range(c, step)))
        for step in (1, DAY_MINUTES)
    ]


def _get_storage(c: Content, attempt: int) -> list[pb.Request]:
    asked: list[pb.StorageRequest] = []
    for step in (1, DAY_MINUTES):
        of_all = pb.StorageRequest(step_seconds=step * MINUTE_SECONDS, **_range(c, step))
        of_one = pb.StorageRequest(stream=MANY)
        of_one.MergeFrom(of_all)
        asked += [of_all, of_one]
    return [_basin(c, get_storage=each) for each in asked]


REQUESTS: Final[dict[str, Case]] = {
    "ping": lambda c, attempt: [pb.Request(ping=pb.Done())],
    "append": _append,
    "read": _read,
    "check_tail": lambda c, attempt: [
        _basin(c, check_tail=pb.CheckTailRequest(stream=stream_name(400 + attempt)))
    ],
    "create_stream": _create_stream,
    "list_streams": lambda c, attempt: [_basin(c, list_streams=each) for each in _lists()],
    "get_stream_config": lambda c, attempt: [
        _basin(c, get_stream_config=pb.StreamRequest(stream=stream_name(500 + attempt)))
    ],
    "delete_stream": lambda c, attempt: [
        _keyed(
            _basin(c, delete_stream=pb.StreamRequest(stream=stream_name(600 + attempt))), 3, attempt
        )
    ],
    "get_basin_config": lambda c, attempt: [_basin(c, get_basin_config=pb.BasinRequest())],
    "await_basin": lambda c, attempt: [_basin(c, await_basin=pb.BasinRequest())],
    "seal_basin": _seal_basin,
    "ensure_stream": _ensure_stream,
    "reconfigure_stream": _reconfigure_stream,
    "auto_create_stream": _auto_create,
    "ensure_basin_config": _ensure_basin,
    "reconfigure_basin": _reconfigure_basin,
    "describe_stream": lambda c, attempt: [
        _basin(c, describe_stream=pb.StreamRequest(stream=stream_name(700 + attempt)))
    ],
    "create_basin": _create_basin,
    "create_placed_basin": _create_placed_basin,
    "list_basins": lambda c, attempt: [_catalog(list_basins=each) for each in _lists("b")],
    "resolve_basin": lambda c, attempt: [
        _catalog(resolve_basin=pb.BasinRequest(basin=basin_name(9_000)))
    ],
    "delete_basin": _delete_basin,
    "register_node": _register,
    "get_version": lambda c, attempt: [_catalog(get_version=pb.VersionRequest())],
    "raise_version": lambda c, attempt: [_catalog(raise_version=pb.VersionRequest(version=90))],
    "replace_node": lambda c, attempt: [
        _catalog(replace_node=pb.ReplaceNodeRequest(node_id=50 + attempt))
    ],
    "add_member": lambda c, attempt: [
        _catalog(
            add_member=pb.AddMemberRequest(
                node_id=80 + attempt, secret_hash=b"h" * 32, ttl_seconds=TTL_SECONDS
            )
        )
    ],
    "join_cluster": lambda c, attempt: [
        _catalog(join_cluster=pb.JoinClusterRequest(node=_newcomer(attempt), secret=b"s" * 32))
    ],
    "remove_member": lambda c, attempt: [
        _catalog(remove_member=pb.RemoveMemberRequest(node_id=50 + attempt))
    ],
    "remove_basin": _remove_basin,
    "renew_lease": _renew_lease,
    "hand_on_leases": lambda c, attempt: [
        _catalog(hand_on_leases=pb.HandOnLeasesRequest(term=c.term)),
        _catalog(hand_on_leases=pb.HandOnLeasesRequest(term=c.term, taken=True)),
    ],
    "issue_token": _issue_token,
    "revoke_token": _revoke_token,
    "list_tokens": lambda c, attempt: [_catalog(list_tokens=each) for each in _lists("t")],
    "set_root_token": _set_root,
    "report_usage": _report_usage,
    "get_usage": _get_usage,
    "get_storage": _get_storage,
    "active_basins": lambda c, attempt: [
        _catalog(active_basins=pb.ActiveBasinsRequest(**_range(c)))
    ],
    "overview": lambda c, attempt: [_catalog(overview=pb.OverviewRequest())],
    "view_group": lambda c, attempt: [_basin(c, view_group=pb.GroupViewRequest())],
    "list_nodes": lambda c, attempt: [_catalog(list_nodes=pb.ListNodesRequest())],
    "list_led": lambda c, attempt: [
        _catalog(list_led=pb.ListLedRequest(limit=limit)) for limit in (1, 0)
    ],
    "give_lead": lambda c, attempt: [_basin(c, give_lead=pb.GiveLeadRequest())],
    "drain_node": lambda c, attempt: [
        _catalog(drain_node=pb.DrainNodeRequest(node_id=1, verb=verb, forced=True))
        for verb in (1, 0, 2)
    ],
    "plan_placement": lambda c, attempt: [_catalog(plan_placement=pb.PlanPlacementRequest())],
    "fetch_committed": lambda c, attempt: [
        _basin(c, fetch_committed=pb.FetchCommittedRequest(log_index=at, node_id=90))
        for at in (0, 1 << 40)
    ],
    "report_change": lambda c, attempt: [
        _catalog(
            report_change=pb.ReportChangeRequest(
                group_id=c.group_id, change_id=1, term=1, step=pb.CHANGE_STEP_READY
            )
        )
    ],
    "change_members": lambda c, attempt: [
        _catalog(change_members=pb.ChangeMembersRequest(basin=basin_name(9_000), replicas=[90]))
    ],
    "freeze_basin": lambda c, attempt: [
        _basin(c, freeze_basin=pb.FreezeBasinRequest(reason=reason)) for reason in ("why", "")
    ],
    "balance_leads": lambda c, attempt: [
        _catalog(balance_leads=pb.BalanceLeadsRequest(dry_run=attempt % 2 == 0))
    ],
    "list_locations": lambda c, attempt: [_catalog(list_locations=pb.ListLocationsRequest())],
    "set_default_location": lambda c, attempt: [
        _catalog(set_default_location=pb.SetDefaultLocationRequest(name="none"))
    ],
}


def hold_leases(full: Full) -> None:
    """As many as there may be, of the leadership before this one."""
    catalog = full.node.host.catalog
    assert catalog is not None
    now = full.node.services.clock.monotonic()
    leases = catalog.leases
    leases.in_term(catalog.group.engine.term - 1, now)
    for number in range(GATEWAYS_MAX):
        assert leases.grant(f"{number:05d}" + "g" * 59, 7, now)


BEFORE: Final[dict[str, Callable[[Full], None]]] = {"hand_on_leases": hold_leases}
"""What has to be so for a kind to be at its limits, made anew for each attempt."""
