"""`svc-cluster config`: what a process would run with, asked without running it."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.processes.process import fail
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import load

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(no_args_is_help=True, help="The configuration of a process, without running it.")


class ProcessKind(StrEnum):
    """Whose configuration it is."""

    NODE = "node"
    GATEWAY = "gateway"


_KINDS: Final[dict[ProcessKind, type[NodeSettings | GatewaySettings]]] = {
    ProcessKind.NODE: NodeSettings,
    ProcessKind.GATEWAY: GatewaySettings,
}

Of = Annotated[ProcessKind, typer.Argument(help="Of which process.", show_choices=True)]
Config = Annotated[
    Path | None,
    typer.Option(help="YAML file. Without one, all comes from SVC_CLUSTER_ variables."),
]


@app.command("print")
def print_(role: Of, config: Config = None, output: Output = OutputForm.TABLE) -> None:
    """Print every setting in effect as YAML, from defaults, file and environment. What leads to a
    secret is masked."""
    from svc_cluster.administration.masking import shown

    settings = _read(role, config)
    rows = list(shown(msgspec.to_builtins(settings)))
    # a JSON value is a YAML value
    Teller(output).end(
        {row.key: msgspec.Raw(row.value.encode()) for row in rows},
        [f"{row.key}: {row.value}" for row in rows],
    )


@app.command()
def check(role: Of, config: Config = None, output: Output = OutputForm.TABLE) -> None:
    """Check the settings and every file that they name as a start would, without a port and without
    the data directory. Ends with the status that a start would end with."""
    settings = _read(role, config)
    _refusing(lambda: _check_files(settings))
    Teller(output).end(
        {"process": role, "config": None if config is None else str(config), "state": "fit"},
        [f"{config or 'the environment'}: a {role} can be started with it"],
    )


@app.command()
def schema(role: Of) -> None:
    """Print the JSON Schema of the configuration file."""
    from svc_cluster.settings_schema import schema as schema_of

    say(msgspec.json.format(msgspec.json.encode(schema_of(_KINDS[role]))).decode())


def _read(role: ProcessKind, config: Path | None) -> NodeSettings | GatewaySettings:
    out: list[NodeSettings | GatewaySettings] = []
    if role is ProcessKind.NODE:
        _refusing(lambda: out.append(load(NodeSettings, config, os.environ)))
    else:
        _refusing(lambda: out.append(load(GatewaySettings, config, os.environ)))
    return out[0]


def _check_files(settings: NodeSettings | GatewaySettings) -> None:
    """Raises SettingsError."""
    from svc_cluster.cli.processes.audit_file import check_audit_place
    from svc_cluster.cli.processes.init_file import read_init_file
    from svc_cluster.cli.processes.node_config import join_token
    from svc_cluster.cli.processes.root_token import given_change
    from svc_cluster.cli.processes.start_checks import check_is_of_a_node
    from svc_cluster.cli.processes.tls_files import peer_tls, public_certificate
    from svc_cluster.settings_checks import read_secret

    read_secret(settings.secret_file)
    peer_tls(settings)
    if isinstance(settings, GatewaySettings):
        public_certificate(settings)
        if settings.init_file is not None:
            read_init_file(Path(settings.init_file))
        check_audit_place(settings.audit_log, None)
        return
    if settings.root_token_file is not None:
        given_change(Path(settings.root_token_file))
    join_token(settings)
    check_is_of_a_node(Path(settings.data_dir))
    check_audit_place(settings.audit_log, Path(settings.data_dir))


def _refusing(do: Callable[[], None]) -> None:
    try:
        do()
    except SettingsError as cause:
        fail(str(cause), cause.exit_status)
