"""`svc-cluster size`: what a load needs, by figures that were measured, with the formula shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from svc_cluster.cli.data.printing import say_json, size
from svc_cluster.cli.data.stream_options import seconds
from svc_cluster.cli.data.verb import EXIT_STATUS, UsageFault, perform
from svc_cluster.cli.output_form import Output, OutputForm
from svc_cluster.cli.terminal import say_surely as say

CPU_US_SINGLE: Final = 244.6
"""Processor time of gateway and three nodes for an append of one record of 1024 bytes."""
CPU_US_HUNDRED: Final = 3235.6
"""The same for an append of a hundred of them."""
FIGURES: Final = "docs/benchmarks.md, appends of 1024 bytes over 64 and 16 connections"
RECORD_OVERHEAD_BYTES: Final = 8
"""Metered of each record, beside its body."""
DISK_FACTOR: Final = 2.0
"""Room for the log, for compaction and for what retention has not removed yet: assumed."""
BATCH_MAX: Final = 1000

_PER_RECORD_US: Final = (CPU_US_HUNDRED - CPU_US_SINGLE) / 99
_PER_APPEND_US: Final = CPU_US_SINGLE - _PER_RECORD_US


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedLoad:
    """What is asked for. `rate`: records a second on each stream; `retention_s`: seconds."""

    streams: int
    rate: float
    retention_s: int
    record_bytes: int
    batch: int
    replicas: int


@dataclass(frozen=True, slots=True)
class SizedNeed:
    """One line: what is needed, how much, and why."""

    name: str
    value: float
    shown: str
    formula: str


def needs(load: SizedLoad) -> list[SizedNeed]:
    """Return what the load needs, in the order in which one follows from the other."""
    records = load.streams * load.rate
    appends = records / load.batch
    traffic = records * (load.record_bytes + RECORD_OVERHEAD_BYTES)
    cpu_us = _PER_APPEND_US + load.batch * _PER_RECORD_US
    processors = appends * cpu_us / 1e6
    kept = traffic * load.retention_s
    disk = kept * DISK_FACTOR
    return [
        SizedNeed(
            "records_per_second",
            records,
            f"{records:,.0f} /s",
            f"{load.streams:,} streams x {load.rate:g} /s",
        ),
        SizedNeed(
            "appends_per_second", appends, f"{appends:,.1f} /s", f"records / batch {load.batch}"
        ),
        SizedNeed(
            "bytes_per_second",
            traffic,
            f"{size(traffic)}/s",
            f"records x ({load.record_bytes} + {RECORD_OVERHEAD_BYTES}) B",
        ),
        SizedNeed(
            "processors",
            processors,
            f"{processors:.2f}",
            f"appends x ({_PER_APPEND_US:.1f} us + batch x {_PER_RECORD_US:.1f} us), gateways and "
            f"nodes together ({FIGURES})",
        ),
        SizedNeed("kept_bytes", kept, size(kept), f"bytes x retention {load.retention_s:,} s"),
        SizedNeed(
            "disk_bytes_per_node_of_three",
            disk * load.replicas / 3,
            size(disk * load.replicas / 3),
            f"kept x {DISK_FACTOR:g} (assumed) x {load.replicas} replicas / 3 nodes",
        ),
    ]


def size_of_load(
    streams: Annotated[int, typer.Option(min=1, help="Streams that are appended to.")],
    rate: Annotated[float, typer.Option(min=0, help="Records a second on each of them.")],
    retention: Annotated[str, typer.Option(help="How long records are kept, such as 7days.")],
    record_bytes: Annotated[int, typer.Option(min=0, help="Of one record's body.")] = 1024,
    batch: Annotated[int, typer.Option(min=1, max=BATCH_MAX, help="Records an append.")] = 1,
    replicas: Annotated[int, typer.Option(min=1, max=5, help="Of each basin.")] = 3,
    output: Output = OutputForm.TABLE,
) -> None:
    """Say what a load of appends needs: processors by what was measured on one machine, disk by
    arithmetic. Reads, bodies far from 1024 bytes and other machines differ: measure yours with
    `svc-cluster bench`."""

    async def main() -> None:
        if replicas not in (1, 3, 5):
            raise UsageFault("--replicas is 1, 3 or 5")
        load = SizedLoad(
            streams=streams,
            rate=rate,
            retention_s=seconds("--retention", retention),
            record_bytes=record_bytes,
            batch=batch,
            replicas=replicas,
        )
        found = needs(load)
        if output is OutputForm.JSON:
            say_json({each.name: each.value for each in found})
            return
        names = max(len(each.name) for each in found)
        values = max(len(each.shown) for each in found)
        for each in found:
            say(f"{each.name.ljust(names)}  {each.shown.rjust(values)}  = {each.formula}")

    perform(main)


def add_size(app: typer.Typer) -> None:
    """Add it to the command."""
    app.command("size", epilog=EXIT_STATUS)(size_of_load)
