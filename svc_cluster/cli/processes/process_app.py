"""`svc-cluster node` and `gateway`. They start without the other commands, which take as long to
load as the process itself and would stay in its memory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import msgspec
import typer

from svc_cluster.base.log import configure
from svc_cluster.cli.processes.gateway_place import ProcessPlace, own_place, part_of
from svc_cluster.cli.processes.process import refuse_start, run
from svc_cluster.cli.processes.start_checks import (
    gateway_files_min,
    group_files_min,
    node_files_min,
)
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_bounds import PROCESSES
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import load, log_format

_Settings = TypeVar("_Settings", NodeSettings, GatewaySettings)

Config = Annotated[
    Path | None,
    typer.Option(
        help="YAML file; unknown keys are refused. Without one, all comes from SVC_CLUSTER_ "
        "variables."
    ),
]


InitFile = Annotated[
    Path | None,
    typer.Option(
        help="JSON file of basins, streams and access tokens that are made, or changed, at start."
    ),
]


Processes = Annotated[
    int | None,
    typer.Option(
        min=PROCESSES[0],
        max=PROCESSES[1],
        help="Processes that serve the port together. Default: the setting `processes`.",
    ),
]


def node(config: Config = None) -> None:
    """Run one replica node."""
    settings = _load(NodeSettings, config)
    from svc_cluster.cli.processes.node_process import run_node

    run(
        lambda stop: run_node(settings, lambda: load(NodeSettings, config, os.environ), stop),
        settings.log_level,
        settings.log_format,
        files_min=node_files_min(settings),
    )


def gateway(config: Config = None, init_file: InitFile = None, processes: Processes = None) -> None:
    """Run one gateway."""

    def given(read: GatewaySettings) -> GatewaySettings:
        if init_file is not None:
            read = msgspec.structs.replace(read, init_file=str(init_file))
        if processes is not None:
            read = msgspec.structs.replace(read, processes=processes)
            read.check()
        return read

    def read() -> tuple[GatewaySettings, ProcessPlace | None]:
        """With the process's place, if it is one of several: its part of what is set. Raises
        SettingsError."""
        settings = given(load(GatewaySettings, config, os.environ))
        place = own_place(os.environ)
        return settings if place is None else part_of(settings, place.processes), place

    try:
        settings, place = read()
    except SettingsError as cause:
        configure("info", log_format(config, os.environ))
        refuse_start(cause)
    if place is None and settings.processes > 1:
        _gateway_group(settings)
    from svc_cluster.cli.processes.gateway_process import run_gateway

    run(
        lambda stop: run_gateway(settings, lambda: read()[0], stop, place),
        settings.log_level,
        settings.log_format,
        files_min=gateway_files_min(settings),
        context={} if place is None else {"process": place.number},
    )


def _gateway_group(settings: GatewaySettings) -> NoReturn:
    """Run the parent of several processes, and end with their status."""
    from svc_cluster.cli.processes.gateway_group import run_group

    status = 0

    async def main(stop: asyncio.Event) -> None:
        nonlocal status
        status = await run_group(settings, stop)

    run(main, settings.log_level, settings.log_format, files_min=group_files_min(settings))
    raise SystemExit(status)


def _load(kind: type[_Settings], config: Path | None) -> _Settings:
    try:
        return load(kind, config, os.environ)
    except SettingsError as cause:
        configure("info", log_format(config, os.environ))
        refuse_start(cause)


def add_process_commands(app: typer.Typer) -> None:
    """Add them to the command."""
    app.command()(node)
    app.command()(gateway)


def process_app() -> typer.Typer:
    """Return the command with these alone."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    add_process_commands(app)
    return app
