"""What the account, a basin or a stream was used for. Source: contract 13.2 and 13.3.

Whether there is such a basin or stream is not told: what is not there was not used. A bucket that
has any part in the time asked for is told as a whole, the present one as far as it has come.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from svc_cluster.base.errors import (
    BasinNotFoundError,
    ErrorCode,
    InvalidError,
    MalformedError,
    NotImplementedYetError,
)
from svc_cluster.codec.json_list import NUMBERS_AT_ONCE
from svc_cluster.codec.usage_json import (
    Interval,
    Metric,
    Unit,
    accumulation,
    gauge,
    label,
    metrics_pieces,
)
from svc_cluster.gateway.access.authorization import require_account
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.turns import Turns
from svc_cluster.gateway.limits.answer_budget import AnswerReservation
from svc_cluster.gateway.request.negotiation import Query
from svc_cluster.gateway.usage.reporter import UsageReporter
from svc_cluster.gateway.usage.usage_columns import Columns, spans
from svc_cluster.http.message import JSON, Response, json_response
from svc_cluster.model.access import Op
from svc_cluster.model.usage import Counts, Readings, bucket_range, gauge_points

_DAY_SECONDS: Final = 86400
RANGE_SECONDS_MAX: Final = 90 * _DAY_SECONDS
WHOLE_BYTES_MAX: Final = 1024 * 1024
"""A longer answer is sent as it is made."""
BUCKETS_AT_ONCE: Final = 512
"""Counts of which numbers are taken before others have their turn."""
LEEWAY_SECONDS: Final = 60
"""How far ahead of the gateway's clock a time may end."""
_U32_MAX: Final = 2**32 - 1


class AccountSet(Enum):
    ACTIVE_BASINS = "active-basins"
    ACCOUNT_OPS = "account-ops"
    ESTIMATED_BILLABLE_USAGE = "estimated-billable-usage"
    """Known, and not told: nothing is billed here. Source: contract 13.5."""


class BasinSet(Enum):
    STORAGE = "storage"
    APPEND_OPS = "append-ops"
    READ_OPS = "read-ops"
    READ_THROUGHPUT = "read-throughput"
    APPEND_THROUGHPUT = "append-throughput"
    BASIN_OPS = "basin-ops"


class StreamSet(Enum):
    STORAGE = "storage"


_Set = TypeVar("_Set", AccountSet, BasinSet, StreamSet)
_DEFAULT_INTERVAL: Final[Mapping[Enum, Interval]] = {
    AccountSet.ACTIVE_BASINS: Interval.HOUR,
    AccountSet.ACCOUNT_OPS: Interval.HOUR,
    AccountSet.ESTIMATED_BILLABLE_USAGE: Interval.HOUR,
    BasinSet.STORAGE: Interval.HOUR,
    BasinSet.APPEND_OPS: Interval.MINUTE,
    BasinSet.READ_OPS: Interval.MINUTE,
    BasinSet.READ_THROUGHPUT: Interval.MINUTE,
    BasinSet.APPEND_THROUGHPUT: Interval.MINUTE,
    BasinSet.BASIN_OPS: Interval.HOUR,
    StreamSet.STORAGE: Interval.MINUTE,
}
_ONE_INTERVAL: Final = frozenset({BasinSet.STORAGE, StreamSet.STORAGE})
"""Told at no other interval than the default."""

_Series = Mapping[str, Callable[[Counts], int]]
_SERIES: Final[Mapping[BasinSet, tuple[Unit, _Series]]] = {
    BasinSet.APPEND_OPS: (
        Unit.OPERATIONS,
        {
            "standard": lambda counts: counts.append_ops_standard,
            "express": lambda counts: counts.append_ops_express,
        },
    ),
    BasinSet.READ_OPS: (
        Unit.OPERATIONS,
        {
            "unary": lambda counts: counts.read_ops_unary,
            "streaming": lambda counts: counts.read_ops_streaming,
        },
    ),
    BasinSet.READ_THROUGHPUT: (Unit.BYTES, {"read": lambda counts: counts.read_bytes}),
    BasinSet.APPEND_THROUGHPUT: (
        Unit.BYTES,
        {
            "standard": lambda counts: counts.append_bytes_standard,
            "express": lambda counts: counts.append_bytes_express,
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Unix seconds, from `start` to before `end`."""

    start: int
    end: int
    interval: Interval

    @property
    def steps(self) -> range:
        return bucket_range(self.start, self.end, self.interval.seconds)


async def account_metrics(call: Call) -> Response:
    which, wanted = _parsed(call, AccountSet)
    reporter = _reporter(call)
    if which is AccountSet.ACTIVE_BASINS:
        names = await reporter.backend.active_basins(wanted.start, wanted.end)
        grant = call.caller.grant
        shown: list[str] = []
        asked = sorted(names)
        for begin in range(0, len(asked), NUMBERS_AT_ONCE):
            await call.services.turns.turn()
            some = asked[begin : begin + NUMBERS_AT_ONCE]
            shown += [name for name in some if grant.allows((), basin=name)]
        return await _answer(call, [label("active_basins", shown)])
    require_account(call.caller.grant, Op.ACCOUNT_METRICS)
    if which is AccountSet.ESTIMATED_BILLABLE_USAGE:
        raise NotImplementedYetError("nothing is billed here: estimated-billable-usage is not told")
    await reporter.before_query(None)
    with await call.services.memory.answers.enter(call.request.connection) as place:
        columns = await _columns(call, place, None, wanted, Columns(), _ops)
        return await _held_answer(call, _by_op(columns, wanted.interval), place, columns)


async def basin_metrics(call: Call) -> Response:
    which, wanted = _parsed(call, BasinSet)
    basin = call.match.basin
    assert basin is not None, "the route has a basin in its path"
    with await call.services.memory.answers.enter(call.request.connection) as place:
        if which is BasinSet.STORAGE:
            return await _storage(call, place, basin, None, wanted, "storage")
        await _reporter(call).before_query(basin)
        if which is BasinSet.BASIN_OPS:
            columns = await _columns(call, place, basin, wanted, Columns(), _ops)
            return await _held_answer(call, _by_op(columns, wanted.interval), place, columns)
        unit, series = _SERIES[which]

        def numbers(counts: Counts) -> Iterable[tuple[str, int]]:
            return [(name, of(counts)) for name, of in series.items()]

        columns = await _columns(call, place, basin, wanted, Columns(series), numbers)
        told = [accumulation(name, unit, wanted.interval, columns.series(name)) for name in series]
        return await _held_answer(call, told, place, columns)


async def _columns(
    call: Call,
    place: AnswerReservation,
    basin: str | None,
    wanted: Wanted,
    columns: Columns,
    numbers: Callable[[Counts], Iterable[tuple[str, int]]],
) -> Columns:
    """What `numbers` tells of each bucket, collected a span at a time. What it takes is held in
    `place`; raises HotServerError where there is no room for it."""
    usage = _reporter(call).backend.usage
    for start, end in spans(wanted.start, wanted.end):
        buckets = await _if_there(usage(basin, start, end, wanted.interval.seconds))
        if buckets is None:
            break
        for begin in range(0, len(buckets), BUCKETS_AT_ONCE):
            await call.services.turns.turn()
            for at, counts in buckets[begin : begin + BUCKETS_AT_ONCE]:
                columns.add(at, numbers(counts))
        place.holds(columns.held_bytes)
    return columns


_Found = TypeVar("_Found")


async def _if_there(told: Awaitable[_Found]) -> _Found | None:
    """What is told of a basin; None where there is none. What is caught keeps the frame that caught
    it until the collector comes by, so that this one holds no place."""
    try:
        return await told
    except BasinNotFoundError:
        return None


def _ops(counts: Counts) -> Iterable[tuple[str, int]]:
    return counts.ops.items()


async def stream_metrics(call: Call) -> Response:
    """The name is the full one by now, whatever the caller calls it; the answer names none."""
    _, wanted = _parsed(call, StreamSet)
    basin, stream = call.match.basin, call.match.stream
    assert basin is not None, "the route has a basin in its path"
    assert stream is not None, "the route has a stream in its path"
    with await call.services.memory.answers.enter(call.request.connection) as place:
        return await _storage(call, place, basin, stream, wanted, "stream_storage")


async def _storage(
    call: Call,
    place: AnswerReservation,
    basin: str,
    stream: str | None,
    wanted: Wanted,
    name: str,
) -> Response:
    """The first span tells what there was before all of them, the last what there is now."""
    step_seconds = wanted.interval.seconds
    storage = _reporter(call).backend.storage
    columns = Columns([name])
    before = now = None
    for start, end in spans(wanted.start, wanted.end):
        found = await _if_there(storage(basin, stream, start, end, step_seconds))
        if found is None:
            break
        if start == wanted.start:
            before = found.before
        now = found.now
        await call.services.turns.turn()
        for at, stored_bytes in found.changes:
            columns.add(at, [(name, stored_bytes)])
        place.holds(columns.held_bytes)
    readings = Readings(before, columns.series(name), now)
    now_seconds = call.services.clock.wall_ms() // 1000
    points = gauge_points(readings, wanted.steps, now_seconds, step_seconds)
    return await _held_answer(call, [gauge(name, Unit.BYTES, points)], place, columns)


def _by_op(columns: Columns, interval: Interval) -> list[Metric]:
    """One series for each operation that there was."""
    return [
        accumulation(op, Unit.OPERATIONS, interval, columns.series(op))
        for op in sorted(columns.names)
    ]


def _parsed(call: Call, sets: type[_Set]) -> tuple[_Set, Wanted]:
    now_seconds = call.services.clock.wall_ms() // 1000
    return parse(Query(call.request.query), sets, now_seconds)


def parse(query: Query, sets: type[_Set], now_seconds: int) -> tuple[_Set, Wanted]:
    """Raises MalformedError for a parameter that is no such thing. Raises InvalidError for times
    and intervals that cannot be asked for."""
    which = _one_of(sets, query.text("set"), "set")
    start, end = query.unsigned("start", _U32_MAX), query.unsigned("end", _U32_MAX)
    default = _DEFAULT_INTERVAL[which]
    named = query.text("interval")
    interval = default if named is None else _one_of(Interval, named, "interval")
    if start is None or end is None:
        raise InvalidError("the parameters start and end are both required")
    if start > end:
        raise InvalidError("start is after end")
    if end > now_seconds + LEEWAY_SECONDS:
        raise InvalidError("end is in the future")
    if end - start > RANGE_SECONDS_MAX:
        raise InvalidError(
            f"start and end are at most {RANGE_SECONDS_MAX // _DAY_SECONDS} days apart "
            f"({RANGE_SECONDS_MAX} seconds); these are {_days(end - start)} "
            f"({end - start} seconds)"
        )
    if interval is not default and which in _ONE_INTERVAL:
        raise InvalidError(f"the set {which.value} has no interval but {default.value}")
    return which, Wanted(start, end, interval)


def _days(seconds: int) -> str:
    """Whole days, or between which."""
    days, rest = divmod(seconds, _DAY_SECONDS)
    return f"more than {days} days" if rest else f"{days} days"


_Word = TypeVar("_Word", bound=Enum)


def _one_of(words: type[_Word], text: str | None, parameter: str) -> _Word:
    for word in words:
        if word.value == text:
            return word
    known = ", ".join(str(word.value) for word in words)
    raise MalformedError(ErrorCode.BAD_QUERY, f"{parameter} is one of: {known}")


def _reporter(call: Call) -> UsageReporter:
    reporter = call.services.usage_reporter
    if reporter is None:
        raise NotImplementedYetError("usage is not counted here")
    return reporter


async def _held_answer(
    call: Call, metrics: list[Metric], place: AnswerReservation, columns: Columns
) -> Response:
    """The answer with its place, where the columns that it is made of are held until the client
    has it."""
    response = await _answer(call, metrics)
    place.made(columns.held_bytes + WHOLE_BYTES_MAX)
    response.place = place
    return response


async def _answer(call: Call, metrics: list[Metric]) -> Response:
    """All at once, or, where there is much of it, as a stream."""
    turns = call.services.turns
    pieces = metrics_pieces(metrics)
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        await turns.turn()
        if size > WHOLE_BYTES_MAX:
            rest = _rest(turns, b"".join(parts), pieces)
            return Response(200, [("content-type", JSON)], rest)
    return json_response(200, b"".join(parts))


async def _rest(turns: Turns, begun: bytes, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield begun
    for piece in pieces:
        await turns.turn()
        yield piece
