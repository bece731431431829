"""`svc-cluster bench list` and `bench run NAME...`: named scenarios, and what they measured."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.output_form import Output, OutputForm
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiError
from svc_cluster.lab.bench_tables import markdown, medians, table
from svc_cluster.lab.load.figures import SPAN_S_MAX, Figures
from svc_cluster.lab.load.own_service import BASIN, OwnService
from svc_cluster.lab.load.processes import disk_reference
from svc_cluster.lab.load.requests import Dialect, LoadAccess
from svc_cluster.lab.load.run import GENERATOR_CORES_MAX, LoadError, LoadTarget, Run
from svc_cluster.lab.load.scenarios import SCENARIOS, STANDARD, Scenario
from svc_cluster.lab.own_cluster import ClusterError
from svc_cluster.lab.proc_stat import cluster_pids

WARM_UP_S: Final = 5.0

app = typer.Typer(no_args_is_help=True, help="Measure a cluster through its public API.")


AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


@app.command("list")
def list_command(
    as_json: AsJson = False,
    output: Output = OutputForm.TABLE,
) -> None:
    """The named scenarios; as JSON all that each of them is."""
    if as_json or output is OutputForm.JSON:
        say(msgspec.json.encode(list(SCENARIOS.values())).decode())
        return
    width = max(len(name) for name in SCENARIOS)
    for scenario in SCENARIOS.values():
        say(f"{scenario.name:{width}}  {scenario.about}")


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `run` asks for, beside the scenarios."""

    url: str | None
    token: str | None
    basin: str
    cluster_dir: Path | None
    auth: bool
    dialect: Dialect
    warm_up_s: float
    repeat: int


Names = Annotated[
    list[str] | None, typer.Argument(help="Scenarios; `standard` for the usual ones.")
]
Url = Annotated[
    str | None,
    typer.Option(help="The gateway. Without it: three nodes of its own for each scenario."),
]
TokenFile = Annotated[Path | None, typer.Option(help="File with the access token for --url.")]
ClusterDir = Annotated[
    Path | None,
    typer.Option(help="Directory of the local cluster at --url: measure its processes too."),
]
Auth = Annotated[
    bool, typer.Option("--auth/--no-auth", help="Whether a cluster of its own asks for tokens.")
]
Scale = Annotated[
    float, typer.Option(min=0.001, max=1.0, help="Less data, connections, streams: for a try.")
]
Processes = Annotated[int | None, typer.Option(min=1, max=64, help="Client processes.")]
Connections = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Of the first part of each phase.")
]
Size = Annotated[int | None, typer.Option(min=0, max=1_048_568, help="Bytes of a body, likewise.")]
Batch = Annotated[int | None, typer.Option(min=1, max=1000, help="Records of a request, likewise.")]
Rate = Annotated[
    float | None, typer.Option(min=0.1, help="Requests a second (open loop), likewise.")
]


@app.command("run")
def run_command(
    names: Names = None,
    url: Url = None,
    token_file: TokenFile = None,
    basin: Annotated[
        str, typer.Option(help="Basin; created if it is not there. It stays.")
    ] = BASIN,
    cluster_dir: ClusterDir = None,
    auth: Auth = True,
    dialect: Annotated[Dialect, typer.Option(help="Whose names headers have.")] = "svc",
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=SPAN_S_MAX, help="Of measured load.")
    ] = None,
    warm_up: Annotated[
        float, typer.Option(min=0.0, max=600.0, help="Seconds before it.")
    ] = WARM_UP_S,
    repeat: Annotated[int, typer.Option(min=1, max=99, help="Runs of each scenario.")] = 1,
    scale: Scale = 1.0,
    processes: Processes = None,
    connections: Connections = None,
    size: Size = None,
    batch: Batch = None,
    rate: Rate = None,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="For a document.")] = False,
    output: Output = OutputForm.TABLE,
) -> None:
    """Run scenarios one after the other and print their figures, below what the disk gives. Of
    several runs the medians are shown, with the least and the most. Latencies of an open loop
    count from when a request was due. A generator that used more than 40 % of a core is marked."""
    given = {"connections": connections, "size": size, "batch": batch, "rate": rate}
    changes = {name: value for name, value in given.items() if value is not None}
    chosen = [
        scenario.scaled(scale).changed(changes, seconds, processes)
        for scenario in _chosen(names or [])
    ]
    options = _Options(
        url=url,
        token=_token(token_file),
        basin=basin,
        cluster_dir=cluster_dir,
        auth=auth,
        dialect=dialect,
        warm_up_s=warm_up,
        repeat=repeat,
    )
    _refuse_misfits(chosen, options)
    with tempfile.TemporaryDirectory(prefix="svc-cluster-bench-") as place:
        reference = disk_reference(Path(place), SystemClock())
        try:
            rows = _measured(chosen, options, Path(place))
        finally:
            if url is not None:
                sys.stderr.write(_what_stays(chosen, basin))
    is_json = as_json or output is OutputForm.JSON
    _show(reference, rows, as_json=is_json, as_markdown=as_markdown)
    if any(row["requests"] == 0 for row in rows):
        raise typer.Exit(1)


def _chosen(names: list[str]) -> list[Scenario]:
    if not names:
        fail("name a scenario, or `standard`; `svc-cluster bench list` has them", 2)
    wanted = [name for given in names for name in (STANDARD if given == "standard" else [given])]
    unknown = [name for name in wanted if name not in SCENARIOS]
    if unknown:
        fail(f"no scenario {unknown[0]!r}: `svc-cluster bench list` has them", 2)
    return [SCENARIOS[name] for name in dict.fromkeys(wanted)]


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        text = path.read_text().strip()
        if text:
            return text
        fail(f"--token-file {path} is empty", 2)
    except OSError as cause:
        fail(f"--token-file {path} cannot be read: {cause.strerror}", 2)
    return None


def _refuse_misfits(chosen: list[Scenario], options: _Options) -> None:
    """What the options ask for must fit each other: before anything is sent or started."""
    for scenario in chosen:
        if scenario.trouble is not None:
            fail(f"{scenario.name}: {scenario.trouble}", 2)
        if options.url is not None and (scenario.sync_delay_ms or scenario.read_delay_ms):
            fail(f"{scenario.name} slows the disk of a cluster of its own: leave out --url", 2)
    directory = options.cluster_dir
    if directory is not None and not (directory / "cluster.json").is_file():
        fail(f"--cluster-dir {directory} is not the directory of a local cluster", 2)
    if options.url is None and (options.token is not None or directory is not None):
        fail("--token-file and --cluster-dir are for a cluster that runs: give its --url", 2)


def _what_stays(chosen: list[Scenario], basin: str) -> str:
    """What a run leaves in a cluster that is not its own. The basin may be somebody's."""
    has_other = any(
        part.other_basin for scenario in chosen for phase in scenario.phases for part in phase
    )
    return "".join(
        f"the streams that were made in {name} stay: if nothing else is in it, "
        f"`svc-cluster basin delete {name}`\n"
        for name in (basin, f"{basin}-2")[: 1 + has_other]
    )


def _measured(chosen: list[Scenario], options: _Options, place: Path) -> list[Figures]:
    """A row for each part: medians. The runs of the scenarios take turns."""
    runs: dict[str, list[list[Figures]]] = {scenario.name: [] for scenario in chosen}
    for number in range(options.repeat):
        for scenario in chosen:
            own = place / f"{scenario.name}-{number}"
            own.mkdir()
            try:
                runs[scenario.name].append(uvloop.run(_once(scenario, options, own)))
            except (ApiError, ClusterError, ConnectionLostError, FileNotFoundError) as cause:
                fail(f"{scenario.name} cannot be measured: {cause}", 1)
            except (LoadError, TimeoutError) as cause:
                fail(f"{scenario.name}: the load could not be made: {cause}", 1)
    return [medians(rows) for same in runs.values() for rows in zip(*same, strict=True)]


async def _once(scenario: Scenario, options: _Options, place: Path) -> list[Figures]:
    clock = SystemClock()
    seed = clock.wall_ms() % 1_000_000
    if options.url is None:
        own = OwnService(place, clock, auth=options.auth, dialect=options.dialect)
        try:
            return await own.measure(scenario, options.warm_up_s, seed)
        finally:
            await asyncio.to_thread(own.stop)
    directory = options.cluster_dir
    pids = [] if directory is None else cluster_pids(read_cluster_file(directory))
    access = LoadAccess(options.url, options.token, options.dialect)
    service = LoadTarget(access, options.basin, pids, directory)
    run = Run(scenario, service, options.warm_up_s, clock, seed)
    await run.fill()
    return await run.measure()


def _show(
    reference: dict[str, float],
    rows: list[Figures],
    *,
    as_json: bool,
    as_markdown: bool,
) -> None:
    if as_json:
        told = {"disk_reference": reference, "rows": rows}
        say(msgspec.json.encode(told).decode())
        return
    say(
        f"The disk alone: {reference['syncs_per_s']} synced 4 KiB writes a second, "
        f"p50 {reference['p50_ms']} ms, p99 {reference['p99_ms']} ms."
    )
    if any(row["generator_bound"] for row in rows):
        say(f"(!): the generator used more than {GENERATOR_CORES_MAX:.0%} of a core.")
    if as_markdown:
        say("\n" + markdown(rows).removesuffix("\n"))
        return
    head, *body = table(rows)
    shown = Table(*head)
    for row in body:
        shown.add_row(*row)
    Console(width=240).print(shown)


if __name__ == "__main__":
    app()
