"""`svc-cluster top` shows a cluster at a glance, again and again. It looks at its gateway's metrics
and asks its nodes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_client import AdminError, connected, local_target
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.data.printing import size
from svc_cluster.cli.data.server_choice import ServerOptions, chosen_server
from svc_cluster.cli.data.verb import EXIT_STATUS, perform
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


def frame_of(now: Metrics, before: Metrics, seconds: float) -> list[str]:
    """Return the lines on the gateway: rates between two looks, and what is open."""

    def rate(name: str) -> float:
        # a gateway that was started anew counts from 0
        return max(0.0, now[name] - before[name]) / seconds if seconds > 0 else 0.0

    requests = "svc_http_requests_total"
    failed = rate(f"{requests} 5")
    return [
        f"appends   {rate('svc_records_appended_total'):,.0f} records/s, "
        f"{size(rate('svc_appended_bytes_total'))}/s",
        f"reads     {rate('svc_records_read_total'):,.0f} records/s, "
        f"{size(rate('svc_read_bytes_total'))}/s",
        f"requests  {rate(requests):,.1f}/s, refused {rate(f'{requests} 4'):,.1f}/s, "
        f"failed {failed:,.1f}/s",
        f"open      {now['svc_append_sessions']:,.0f} append sessions, "
        f"{now['svc_read_sessions']:,.0f} read sessions",
    ]


async def node_lines(directory: Path) -> list[str]:
    """Return a row for each node of a `svc-cluster local`, as its administrative service has it.
    Raises AdminError."""
    local_target(directory, None)  # says it where there is none
    rows = []
    for row in read_cluster_file(directory)["nodes"]:
        number = int(row["id"])
        try:
            async with connected(local_target(directory, number)) as client:
                status = await client.status()
        except AdminError:
            rows.append((str(number), "away", "-", "-", "-", "-"))
            continue
        storage = status.storage
        rows.append(
            (
                str(number),
                "ready" if status.ready else "not ready",
                f"{status.groups_led} of {status.groups}",
                size(storage.wal_bytes),
                size(storage.free_bytes),
                status.version,
            )
        )
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
) -> None:
    """Show rates, sessions and nodes, until Ctrl-C on a terminal, else once. Rates are those of
    the gateway that answers."""

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
                lines = [client.address.url, *frame_of(now, before, at - looked_at)]
                if data_dir is not None:
                    lines += ["", *await _nodes(data_dir)]
                say((_HOME_AND_CLEAR if is_live else "") + "\n".join(lines))
                before, looked_at = now, at
                left = None if left is None else left - 1

    perform(main)


async def _look(client: ServiceClient) -> Metrics:
    body = (await client.call("GET", "/metrics")).body[:METRICS_BYTES_MAX]
    return parse_metrics(body.decode(errors="replace"))


async def _nodes(directory: Path) -> list[str]:
    try:
        return await node_lines(directory)
    except AdminError as cause:
        raise ClientError(str(cause)) from cause


def add_top(app: typer.Typer) -> None:
    """Add it to the command."""
    app.command("top", epilog=EXIT_STATUS)(top)
