"""`svc-cluster bench append|read|session|local`: load through the public API, and its figures."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Literal

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.cli.processes.process import fail
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX
from svc_cluster.lab.api_client import ApiError
from svc_cluster.lab.bench_load import Load, Result, run_append, run_read
from svc_cluster.lab.bench_sessions import run_sessions
from svc_cluster.lab.own_cluster import OwnCluster

app = typer.Typer(no_args_is_help=True, help="Measure a cluster through its public API.")

Url = Annotated[str, typer.Option(help="The gateway.")]
Size = Annotated[int, typer.Option(min=0, max=1_048_568, help="Bytes of a record's body.")]
Batch = Annotated[int, typer.Option(min=1, max=1000, help="Records of a request.")]
Connections = Annotated[int, typer.Option(min=1, max=4096, help="Connections, one request each.")]
Duration = Annotated[float, typer.Option(min=0.1, help="Seconds of measured load.")]
Streams = Annotated[int, typer.Option(min=1, help="Streams the connections are spread over.")]
BasinName = Annotated[str, typer.Option(help="Basin; created if it is not there.")]
ClusterDir = Annotated[
    Path | None, typer.Option(help="Directory of a local cluster: also measure its processor time.")
]
Format = Annotated[Literal["json", "protobuf"], typer.Option("--format", help="Body encoding.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def _load(
    url: str,
    basin: str,
    streams: int,
    size: int,
    batch: int,
    connections: int,
    duration: float,
    cluster_dir: Path | None,
    encoding: str = "protobuf",
) -> Load:
    """What the options ask for, if they fit each other, in bytes and on this machine: before
    anything is sent."""
    names = [f"bench-{number}" for number in range(streams)]
    load = Load(url, basin, names, size, batch, connections, duration, encoding, cluster_dir)
    if load.metered_bytes > METERED_BYTES_MAX:
        fail(
            f"--batch {batch} of --size {size} are {load.metered_bytes} metered bytes: an append "
            f"holds at most {METERED_BYTES_MAX}",
            2,
        )
    if cluster_dir is not None and not (cluster_dir / "cluster.json").is_file():
        fail(f"--cluster-dir {cluster_dir} is not the directory of a local cluster", 2)
    return load


def _measure(run: Coroutine[Any, Any, Result]) -> Result:
    """Ends the process with a sentence where there is nothing to measure."""
    try:
        return uvloop.run(run)
    except ApiError as cause:
        fail(f"the gateway cannot be measured: {cause}", 1)
        raise


def _show(result: Result, *, as_json: bool) -> None:
    figures = result.summary()
    if as_json:
        sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
    else:
        table = Table("figure", "value", title=f"bench {result.operation}")
        for name, value in figures.items():
            table.add_row(name, str(value))
        Console().print(table)
    if result.requests == 0:
        raise typer.Exit(1)


@app.command("append")
def append_command(
    url: Url = "http://127.0.0.1:8080",
    size: Size = 1024,
    batch: Batch = 1,
    connections: Connections = 16,
    duration: Duration = 10.0,
    streams: Streams = 1,
    basin: BasinName = "bench-basin",
    cluster_dir: ClusterDir = None,
    encoding: Format = "json",
    as_json: Json = False,
) -> None:
    """Append for a while; print rates, latencies and errors by class (status/side effects)."""
    load = _load(url, basin, streams, size, batch, connections, duration, cluster_dir, encoding)
    _show(_measure(run_append(load, SystemClock())), as_json=as_json)


@app.command("read")
def read_command(
    url: Url = "http://127.0.0.1:8080",
    size: Size = 1024,
    batch: Batch = 100,
    connections: Connections = 16,
    duration: Duration = 10.0,
    streams: Streams = 1,
    basin: BasinName = "bench-basin",
    cluster_dir: ClusterDir = None,
    encoding: Format = "json",
    as_json: Json = False,
) -> None:
    """Read stored records for a while; print rates, latencies and errors by class."""
    load = _load(url, basin, streams, size, batch, connections, duration, cluster_dir, encoding)
    _show(_measure(run_read(load, SystemClock())), as_json=as_json)


@app.command("session")
def session_command(
    url: Url = "http://127.0.0.1:8080",
    size: Size = 1024,
    batch: Batch = 100,
    connections: Connections = 1,
    window: Annotated[
        int, typer.Option(min=1, max=1000, help="Batches on their way in each session.")
    ] = 32,
    duration: Duration = 10.0,
    streams: Streams = 1,
    basin: BasinName = "bench-basin",
    cluster_dir: ClusterDir = None,
    as_json: Json = False,
) -> None:
    """Append by pipelined sessions for a while, one on each connection; a request is a batch."""
    load = _load(url, basin, streams, size, batch, connections, duration, cluster_dir)
    _show(_measure(run_sessions(load, window, SystemClock())), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the standard measurement."""

    operation: Literal["append", "read"]
    size: int
    batch: int
    connections: int
    streams: int = 1


STANDARD_CASES: Final = (
    Case("append", 100, 1, 1),
    Case("append", 100, 1, 64),
    Case("append", 100, 100, 64),
    Case("append", 1024, 1, 1),
    Case("append", 1024, 1, 16),
    Case("append", 1024, 1, 64),
    Case("append", 1024, 1, 64, streams=16),
    Case("append", 1024, 100, 16),
    Case("append", 100, 1000, 8),
    Case("read", 1024, 1, 16),
    Case("read", 1024, 100, 16),
)


async def _run_standard(cluster: OwnCluster, duration_s: float, encoding: str) -> list[Any]:
    await cluster.wait_ready()
    rows: list[Any] = []
    for number, case in enumerate(STANDARD_CASES):
        run = run_append if case.operation == "append" else run_read
        load = Load(
            cluster.url,
            "bench-basin",
            [f"case-{number}-{stream}" for stream in range(case.streams)],
            case.size,
            case.batch,
            case.connections,
            duration_s,
            encoding,
            cluster.directory,
        )
        result = await run(load, SystemClock())
        rows.append({"size": case.size, "batch": case.batch, "streams": case.streams})
        rows[-1] |= result.summary()
    return rows


SHOWN: Final = (
    *("operation", "size", "batch", "connections", "streams", "requests_per_s"),
    *("records_per_s", "metered_mib_per_s", "p50_ms", "p99_ms", "p99_9_ms", "max_ms"),
    *("cluster_cpu_us_per_request", "errors"),
)


def disk_reference(directory: Path, clock: Clock, seconds: float = 1.0) -> dict[str, float]:
    """Measure what the disk gives one writer, with 4 KiB writes, each synced, into a file written
    before."""
    path = directory / "reference"
    path.write_bytes(bytes(4 << 20))
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
        taken: list[float] = []
        end = clock.monotonic() + seconds
        while (begun := clock.monotonic()) < end:
            os.pwrite(handle, bytes(4096), 4096 * (len(taken) % 1024))
            os.fdatasync(handle)
            taken.append(clock.monotonic() - begun)
    finally:
        os.close(handle)
    taken.sort()
    return {
        "syncs_per_s": round(len(taken) / sum(taken), 1),
        "p50_ms": round(taken[len(taken) // 2] * 1000, 3),
        "p99_ms": round(taken[len(taken) * 99 // 100] * 1000, 3),
    }


@app.command("local")
def local_command(
    duration: Duration = 5.0,
    encoding: Format = "json",
    as_json: Json = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs; the medians are shown.")] = 1,
    markdown: Annotated[bool, typer.Option(help="A table for a document.")] = False,
) -> None:
    """The standard measurement, on a three-node cluster of its own in a temporary directory."""
    runs = []
    with tempfile.TemporaryDirectory(prefix="svc-cluster-bench-") as directory:
        reference = disk_reference(Path(directory), SystemClock())
        for number in range(repeat):
            cluster = OwnCluster(Path(directory) / f"cluster-{number}")
            cluster.start()
            try:
                runs.append(uvloop.run(_run_standard(cluster, duration, encoding)))
            finally:
                cluster.stop()
    rows = [_median(same) for same in zip(*runs, strict=True)]
    if as_json:
        out = {"disk_reference": reference, "rows": rows}
        sys.stdout.write(msgspec.json.encode(out).decode() + "\n")
        return
    sys.stdout.write(f"disk reference: {reference}\n")
    if markdown:
        _print_markdown(rows)
        return
    table = Table(*SHOWN, title=f"3 nodes and 1 gateway on this machine, {encoding} bodies")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in SHOWN))
    Console(width=200).print(table)


def _median(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return of each figure the median over the runs; errors are added up."""
    out: dict[str, Any] = {}
    for name, value in rows[0].items():
        if name == "errors":
            out[name] = dict(sum((Counter(row[name]) for row in rows), Counter()))
        elif isinstance(value, int | float):
            out[name] = round(median(row[name] for row in rows), 4)
        else:
            out[name] = value
    return out


def _print_markdown(rows: Sequence[dict[str, Any]]) -> None:
    names = [name for name in SHOWN if name not in ("streams", "p99_9_ms", "max_ms")]
    sys.stdout.write("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|\n")
    for row in rows:
        sys.stdout.write("| " + " | ".join(str(row.get(name, "")) for name in names) + " |\n")


if __name__ == "__main__":
    app()
