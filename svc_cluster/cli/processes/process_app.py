"""`svc-cluster node` and `gateway`. They start without the other commands, which take as long to
load as the process itself and would stay in its memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from svc_cluster.base.log import configure
from svc_cluster.cli.processes.process import refuse_start, run
from svc_cluster.cli.processes.start_checks import gateway_files_min, node_files_min
from svc_cluster.settings import GatewaySettings, NodeSettings
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


def gateway(config: Config = None, init_file: InitFile = None) -> None:
    """Run one gateway."""

    def given(read: GatewaySettings) -> GatewaySettings:
        if init_file is None:
            return read
        return msgspec.structs.replace(read, init_file=str(init_file))

    settings = given(_load(GatewaySettings, config))
    from svc_cluster.cli.processes.gateway_process import run_gateway

    run(
        lambda stop: run_gateway(
            settings, lambda: given(load(GatewaySettings, config, os.environ)), stop
        ),
        settings.log_level,
        settings.log_format,
        files_min=gateway_files_min(settings),
    )


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
