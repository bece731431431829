"""`svc-cluster top` shows a cluster at a glance, again and again. It looks at its gateway's metrics
and asks its nodes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_client import AdminError, connected, local_target
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.data.printing import say_json, size
from svc_cluster.cli.data.server_choice import ServerOptions, chosen_server
from svc_cluster.cli.data.verb import EXIT_STATUS, perform
from svc_cluster.cli.output_form import Output, OutputForm
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.cli.terminal import table
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.service_client import ServiceClient

Metrics: TypeAlias = defaultdict[str, float]

METRICS_BYTES_MAX: Final = 8 * 1024 * 1024
_LINE: Final = re.compile(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)")
_CODE: Final = re.compile(r'code="(\d)')
_HOME_AND_CLEAR: Final = "\x1b[H\x1b[2J"


def parse_metrics(text: str) -> Metrics:
    """Return the sum of each metric over its labels. Requests are there also by the first digit of
    their status, as `svc_http_requests_total 5`."""
    found: Metrics = defaultdict(float)
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        found[match[1]] += value
        code = _CODE.search(match[2] or "")
        if code is not None:
            found[f"{match[1]} {code[1]}"] += value
    return found


def rates_of(now: Metrics, before: Metrics, seconds: float) -> dict[str, float]:
    """Return what the gateway does: rates a second between two looks, and what is open."""

    def rate(name: str) -> float:
        # a gateway that was started anew counts from 0
        return max(0.0, now[name] - before[name]) / seconds if seconds > 0 else 0.0

    requests = "svc_http_requests_total"
    return {
        "appended_records": rate("svc_records_appended_total"),
        "appended_bytes": rate("svc_appended_bytes_total"),
        "read_records": rate("svc_records_read_total"),
        "read_bytes": rate("svc_read_bytes_total"),
        "requests": rate(requests),
        "refused": rate(f"{requests} 4"),
        "failed": rate(f"{requests} 5"),
        "append_sessions": now["svc_append_sessions"],
        "read_sessions": now["svc_read_sessions"],
    }


def frame_of(now: Metrics, before: Metrics, seconds: float) -> list[str]:
    """Return the same in lines."""
    found = rates_of(now, before, seconds)
    return [
        f"appends   {found['appended_records']:,.0f} records/s, {size(found['appended_bytes'])}/s",
        f"reads     {found['read_records']:,.0f} records/s, {size(found['read_bytes'])}/s",
        f"requests  {found['requests']:,.1f}/s, refused {found['refused']:,.1f}/s, "
        f"failed {found['failed']:,.1f}/s",
        f"open      {found['append_sessions']:,.0f} append sessions, "
        f"{found['read_sessions']:,.0f} read sessions",
    ]


class ShownNode(msgspec.Struct):
    """A node as its administrative service has it; what does not answer is `away`."""

    node: int
    standing: str = "away"
    groups: int | None = None
    led: int | None = None
    log_bytes: int | None = None
    free_bytes: int | None = None
    release: str | None = None


async def shown_nodes(directory: Path) -> list[ShownNode]:
    """Return each node of a `svc-cluster local`. Raises AdminError."""
    local_target(directory, None)  # says it where there is none
    rows = []
    for row in read_cluster_file(directory)["nodes"]:
        number = int(row["id"])
        try:
            async with connected(local_target(directory, number)) as client:
                status = await client.status()
        except AdminError:
            rows.append(ShownNode(number))
            continue
        storage = status.storage
        rows.append(
            ShownNode(
                number,
                "ready" if status.ready else "not ready",
                status.groups,
                status.groups_led,
                storage.wal_bytes,
                storage.free_bytes,
                status.version,
            )
        )
    return rows


def _node_lines(nodes: list[ShownNode]) -> list[str]:
    rows = [
        (str(each.node), each.standing, "-", "-", "-", "-")
        if each.log_bytes is None or each.free_bytes is None
        else (
            str(each.node),
            each.standing,
            f"{each.led} of {each.groups}",
            size(each.log_bytes),
            size(each.free_bytes),
            each.release or "-",
        )
        for each in nodes
    ]
    return table(("NODE", "STANDING", "LEADS", "LOG", "DISK FREE", "RELEASE"), rows)


def top(
    profile: Annotated[str | None, typer.Option(help="Of `svc-cluster profile`.")] = None,
    url: Annotated[str | None, typer.Option(help="The gateway.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="The CA of its certificate.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="A `svc-cluster local`, whose nodes are shown too.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds.")] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End behind so many views.")
    ] = None,
    output: Output = OutputForm.TABLE,
) -> None:
    """Show rates, sessions and nodes, until Ctrl-C on a terminal, else once. Rates are those of
    the gateway that answers. As JSON each view is one line."""

    async def main() -> None:
        options = ServerOptions(profile=profile, url=url, ca_file=ca_file)
        is_live = sys.stdout.isatty()
        left = count if count is not None else (None if is_live else 1)
        clock = SystemClock()
        async with ServiceClient(chosen_server(options)) as client:
            before, looked_at = await _look(client), clock.monotonic()
            while left is None or left > 0:
                await asyncio.sleep(interval)
                now, at = await _look(client), clock.monotonic()
                nodes = None if data_dir is None else await _nodes(data_dir)
                if output is OutputForm.JSON:
                    rates = rates_of(now, before, at - looked_at)
                    say_json({"url": client.address.url, **rates, "nodes": nodes})
                else:
                    lines = [client.address.url, *frame_of(now, before, at - looked_at)]
                    lines += [] if nodes is None else ["", *_node_lines(nodes)]
                    say((_HOME_AND_CLEAR if is_live else "") + "\n".join(lines))
                before, looked_at = now, at
                left = None if left is None else left - 1

    perform(main)


async def _look(client: ServiceClient) -> Metrics:
    body = (await client.call("GET", "/metrics")).body[:METRICS_BYTES_MAX]
    return parse_metrics(body.decode(errors="replace"))


async def _nodes(directory: Path) -> list[ShownNode]:
    try:
        return await shown_nodes(directory)
    except AdminError as cause:
        raise ClientError(str(cause)) from cause


def add_top(app: typer.Typer) -> None:
    """Add it to the command."""
    app.command("top", epilog=EXIT_STATUS)(top)
