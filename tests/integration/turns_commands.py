"""Every kind of command of the two logs, as many as an entry holds: the tables are compared with
the kinds that a replica can apply, so that a new kind needs a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from svc_cluster.base.ids import GroupId, NodeId, SeqNum, StreamId, Term, TimestampMs
from svc_cluster.catalog import catalog_commands as catalog
from svc_cluster.catalog.account_usage import ReportAccountUsage
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.catalog.group_change import AllowSeal, BeginChange, CancelChange, Configured
from svc_cluster.catalog.location_table import SetDefaultLocation
from svc_cluster.catalog.token_commands import IssueToken, RevokeToken, SetRootToken
from svc_cluster.catalog.token_table import REVOKED_AT_ONCE_MAX
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_token import AccessToken
from svc_cluster.model.idempotency_table import EXPIRED_AT_ONCE_MAX
from svc_cluster.model.record import BatchPlacement, CommandRecord, TimestampingMode
from svc_cluster.model.stream_config import BasinConfig, StreamConfig
from svc_cluster.model.usage import ACCOUNT_OPS, BASIN_OPS, MINUTE_MS, REPORT_MINUTES_MAX
from svc_cluster.replica.proposer import ENTRY_COMMANDS_MAX
from svc_cluster.stream import commands as basin
from tests.integration.turns import ME, Full
from tests.integration.turns_content import BATCHES, REPORTERS, Content, report, stream_name

REPORTS: Final = 16
"""In one entry, each as long as a report may be: more have more bytes than an entry takes."""

Case = Callable[[Full, Content, int], list[Any]]
"""The commands of one entry. The number counts attempts."""


def _now(full: Full) -> TimestampMs:
    return TimestampMs(full.node.services.clock.wall_ms())


def _streams(c: Content, kind: int, attempt: int) -> list[StreamId]:
    """Streams that nothing has touched since they were made: a stretch for each kind."""
    first = c.many + 1 + 800 + (kind * 3 + attempt) * ENTRY_COMMANDS_MAX
    return [StreamId(first + n) for n in range(ENTRY_COMMANDS_MAX)]


def _batch(
    stream_id: StreamId, now_ms: TimestampMs, commands: tuple[CommandRecord, ...] = ()
) -> basin.AppendCommand:
    place = BatchPlacement(
        SeqNum(0),
        max(len(commands), 1),
        30,
        TimestampMs(0),
        now_ms,
        now_ms,
        TimestampingMode.ARRIVAL,
        False,
        None,
    )
    return basin.AppendCommand(stream_id, place, b"r" * 30, now_ms, commands)


def _appends(full: Full, c: Content, attempt: int) -> list[Any]:
    return [_batch(each, _now(full)) for each in _streams(c, 0, attempt)]


def _creations(full: Full, c: Content, attempt: int) -> list[Any]:
    record = full.node.host.basins[c.group_id].state.basin
    assert record is not None
    return [
        basin.CreateStream(
            StreamId(record.next_stream_id + n),
            f"z{attempt}{stream_name(n)}",
            StreamConfig(),
            _now(full),
            creation_hash=b"h" * 32,
        )
        for n in range(ENTRY_COMMANDS_MAX)
    ]


def _keyed(full: Full, c: Content, attempt: int) -> list[Any]:
    now_ms = _now(full)
    return [
        basin.IdempotentWrite(
            bytes([attempt, 9]) * 12 + each.to_bytes(8, "big"), now_ms, b"a" * 200, w
        )
        for each in _streams(c, 1, attempt)
        for w in [_batch(each, now_ms)]
    ]


def _reports(full: Full, c: Content, attempt: int) -> list[Any]:
    """All of reporters that nobody knows yet, and of the same minutes."""
    now_ms = _now(full)
    end = now_ms // MINUTE_MS
    minutes = range(end - REPORT_MINUTES_MAX, end)
    first = REPORTERS * 3 + attempt * REPORTS
    return [
        basin.ReportUsage(now_ms, report(first + n, 1, minutes, BASIN_OPS)) for n in range(REPORTS)
    ]


def _purges(full: Full, c: Content, attempt: int) -> list[Any]:
    """Deleted and purged in one entry."""
    now_ms = _now(full)
    some = _streams(c, 2, attempt)[: ENTRY_COMMANDS_MAX // 2]
    return [
        *(basin.DeleteStream(each, now_ms) for each in some),
        *(basin.PurgeStream(each, now_ms) for each in some),
    ]


BASIN_CASES: Final[dict[str, Case]] = {
    # a basin is bootstrapped once, and then has nothing yet
    "bootstrap": lambda f, c, n: [basin.Bootstrap("b" * 48, BasinConfig(), _now(f), True)],
    "create_stream": _creations,
    "append": _appends,
    "expire_prefix": lambda f, c, n: [
        basin.ExpirePrefix(c.many, BATCHES - 1000 + n, _now(f)),
        *(basin.ExpirePrefix(each, 0, _now(f)) for each in _streams(c, 3, n)[1:]),
    ],
    "delete_stream": lambda f, c, n: [
        basin.DeleteStream(each, _now(f)) for each in _streams(c, 4, n)
    ],
    "purge_stream": _purges,
    # that it has none of them to delete does not make it look at fewer
    "delete_empty_stream": lambda f, c, n: [
        basin.DeleteEmptyStream(each, _now(f)) for each in _streams(c, 5, n)
    ],
    "configure_basin": lambda f, c, n: [
        basin.ConfigureBasin(BasinConfig(create_stream_on_read=bool(each % 2)))
        for each in range(ENTRY_COMMANDS_MAX)
    ],
    "configure_stream": lambda f, c, n: [
        basin.ConfigureStream(each, StreamConfig(storage_class="standard"))
        for each in _streams(c, 6, n)[: ENTRY_COMMANDS_MAX // 4]
    ],
    "keyed_write": _keyed,
    "expire_outcomes": lambda f, c, n: [basin.ExpireIdempotencyKeys(_now(f), EXPIRED_AT_ONCE_MAX)],
    # without effect in a basin that counts: one from before that is looked through once, see below
    "count_usage": lambda f, c, n: [basin.CountUsage(_now(f))],
    # without effect where it was said before, as in every new basin of this version
    "keep_usage": lambda f, c, n: [basin.KeepUsage()],
    "freeze_basin": lambda f, c, n: [
        basin.FreezeBasin("why" * (each % 2)) for each in range(ENTRY_COMMANDS_MAX)
    ],
    "report_usage": _reports,
    "seal": lambda f, c, n: [basin.Seal(_now(f))],
}


def _new_basin(full: Full, attempt: int) -> catalog.CreateBasin:
    state = full.node.host.catalog.state  # type: ignore[union-attr]
    name = f"made-by-command-{attempt}"
    return catalog.CreateBasin(name, state.next_group_id, (ME,), BasinConfig(), _now(full))


def _token(attempt: int) -> IssueToken:
    token = AccessToken(0, f"by-command-{attempt}" + "i" * 70, b"h" * 32, 0, ROOT_SCOPE)
    return IssueToken(token, TimestampMs(1))


_SPOKEN: Final = tuple(NodeVersion(NodeId(1 + node), "i" * 32, 3) for node in range(300))
"""As large as what is said by all nodes may be."""

CATALOG_CASES: Final[dict[str, Case]] = {
    "register_node": lambda f, c, n: [catalog.RegisterNode(NodeId(70 + n), "i" * 32, "a" * 250)],
    "raise_active_version": lambda f, c, n: [RaiseActiveVersion(90 + n, _SPOKEN)],
    "open_ticket": lambda f, c, n: [
        catalog.OpenTicket(NodeId(80 + n), b"h" * 32, TimestampMs(2**40), TimestampMs(1))
    ],
    "admit_node": lambda f, c, n: [
        catalog.AdmitNode(
            catalog.RegisterNode(NodeId(80 + n), "i" * 32, "a" * 250), b"h" * 32, TimestampMs(1)
        )
    ],
    "remove_node": lambda f, c, n: [catalog.RemoveNode(NodeId(80 + n))],
    "drain_node": lambda f, c, n: [catalog.DrainNode(ME, bool(n % 2))],
    "replace_node": lambda f, c, n: [catalog.ReplaceNode(NodeId(70 + n), 1, "r" * 32)],
    "begin_change": lambda f, c, n: [
        BeginChange(GroupId(c.group_id), 0, tuple(map(NodeId, range(90, 97))), "r" * 200)
    ],
    "cancel_change": lambda f, c, n: [CancelChange(GroupId(c.group_id), n)],
    "allow_seal": lambda f, c, n: [AllowSeal(GroupId(c.group_id), n, Term(1))],
    "configured": lambda f, c, n: [Configured(GroupId(c.group_id), 1, n)],
    "create_basin": lambda f, c, n: [_new_basin(f, n)],
    "delete_basin": lambda f, c, n: [catalog.DeleteBasin(f"made-by-command-{n}", _now(f))],
    "remove_basin": lambda f, c, n: [catalog.RemoveBasin(GroupId(c.group_id))],
    "issue_token": lambda f, c, n: [_token(n)],
    "revoke_token": lambda f, c, n: [
        RevokeToken(c.serials.stop - 1 - n * REVOKED_AT_ONCE_MAX - each)
        for each in range(REVOKED_AT_ONCE_MAX)
    ],
    "set_root_token": lambda f, c, n: [SetRootToken(b"r" * 32, b"c" * 15 + bytes([n]), False)],
    "set_default_location": lambda f, c, n: [SetDefaultLocation("l" * 60, "")],
    "report_usage": lambda f, c, n: [
        ReportAccountUsage(
            _now(f), report(REPORTERS * 5 + n, 1, range(REPORT_MINUTES_MAX), ACCOUNT_OPS)
        )
    ],
    "keyed_write": lambda f, c, n: [
        catalog.IdempotentCatalogWrite(b"k" * 31 + bytes([n]), _now(f), b"a" * 2000, _token(90 + n))
    ],
    "expire_outcomes": lambda f, c, n: [
        catalog.ExpireCatalogIdempotencyKeys(_now(f), EXPIRED_AT_ONCE_MAX)
    ],
}
