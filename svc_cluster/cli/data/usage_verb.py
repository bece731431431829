"""`svc-cluster usage`: what the account, a basin or a stream was used for, with plots."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import msgspec
import typer

from svc_cluster.cli.data.apply_verb import single_verbs
from svc_cluster.cli.data.plot import columns, plot
from svc_cluster.cli.data.printing import size
from svc_cluster.cli.data.stream_names import basin_name, stream_name
from svc_cluster.cli.data.stream_options import seconds
from svc_cluster.cli.data.verb import UsageFault, VerbCall
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.service_client import shaped

__all__ = ["single_verbs"]

PLOT_LINES: Final = 4
_SECONDS: Final = {"minute": 60, "hour": 3600, "day": 86_400}


class UsageSet(StrEnum):
    """What is asked for; each belongs to the account, a basin or a stream."""

    ACTIVE_BASINS = "active-basins"
    ACCOUNT_OPS = "account-ops"
    STORAGE = "storage"
    APPEND_OPS = "append-ops"
    READ_OPS = "read-ops"
    READ_THROUGHPUT = "read-throughput"
    APPEND_THROUGHPUT = "append-throughput"
    BASIN_OPS = "basin-ops"


class IntervalName(StrEnum):
    """How long a column is."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class _UsageSeries(msgspec.Struct):
    name: str
    values: list[tuple[int, float]]
    unit: str = ""
    interval: str = ""


class _Label(msgspec.Struct):
    name: str
    values: list[str]


class _UsageMetric(msgspec.Struct):
    accumulation: _UsageSeries | None = None
    gauge: _UsageSeries | None = None
    label: _Label | None = None


class _UsageAnswer(msgspec.Struct):
    values: list[_UsageMetric]


@single_verbs.verb("usage")
async def usage(
    call: VerbCall,
    of: Annotated[
        str, typer.Argument(metavar="[BASIN[/STREAM]]", help="Else of the whole account.")
    ] = "",
    set_: Annotated[
        UsageSet | None,
        typer.Option("--set", help="What is asked for; a stream has storage.", show_choices=True),
    ] = None,
    since: Annotated[str, typer.Option(help="How long ago it begins, at most 90days.")] = "1day",
    until: Annotated[str, typer.Option(help="How long ago it ends.")] = "0",
    interval: Annotated[
        IntervalName | None, typer.Option(help="Of a column; else the usual.", show_choices=True)
    ] = None,
) -> None:
    """Show what was used, as a plot for each series."""
    path, default = _path(of)
    now = call.clock.wall_ms() // 1000
    start, end = now - seconds("--since", since), now - seconds("--until", until)
    if start > end:
        raise UsageFault("--since is longer ago than --until")
    query: dict[str, object] = {"set": (set_ or default).value, "start": start, "end": end}
    if interval is not None:
        query["interval"] = interval.value
    answer = await call.client.call("GET", f"{path}?{urlencode(query)}")
    if call.is_json:
        say(answer.body.decode())
        return
    metrics = shaped(answer.body, _UsageAnswer).values
    if not metrics:
        say("nothing")
    for metric in metrics:
        _show(metric, start, end)


def _path(of: str) -> tuple[str, UsageSet]:
    if not of:
        return "/v1/metrics", UsageSet.ACCOUNT_OPS
    if "/" in of.removeprefix("s2://").removesuffix("/"):
        name = stream_name(of)
        return f"/v1/metrics/{name.basin}/{quote(name.stream, safe='')}", UsageSet.STORAGE
    return f"/v1/metrics/{basin_name(of)}", UsageSet.APPEND_THROUGHPUT


def _show(metric: _UsageMetric, start: int, end: int) -> None:
    if metric.label is not None:
        say(f"{metric.label.name}: {', '.join(metric.label.values) or 'none'}")
        return
    series = metric.accumulation or metric.gauge
    if series is None or not series.values:
        say(f"{'' if series is None else series.name}: nothing")
        return
    adds_up = metric.accumulation is not None
    values = _evenly(series, start, end) if adds_up else [value for _, value in series.values]
    width = max(10, shutil.get_terminal_size((80, 24)).columns - 2)
    total = f"sum {_amount(sum(values), series.unit)}, " if adds_up else ""
    last = f"last {_amount(values[-1], series.unit)}"
    say(f"{series.name}: {total}largest {_amount(max(values), series.unit)}, {last}")
    for line in plot(columns(values, width, adds_up=adds_up), PLOT_LINES):
        say(f"|{line}")


def _evenly(series: _UsageSeries, start: int, end: int) -> Sequence[float]:
    """A number for each interval: what was nothing is left out of the answer."""
    step = _SECONDS.get(series.interval, 60)
    first = min(start, series.values[0][0]) // step
    last = max(end - 1, series.values[-1][0]) // step
    found = {at // step: value for at, value in series.values}
    return [found.get(place, 0.0) for place in range(first, last + 1)]


def _amount(value: float, unit: str) -> str:
    return size(value) if unit == "bytes" else f"{value:,.0f} {unit}".rstrip()
